"""Collapse and summary policies of one's own, found by entry point and run twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indexer.compiler.events import Node
from indexer.compiler.policy import COLLAPSE_MODES, SUMMARIES, CollapsePolicy, Policy
from indexer.errors import UncheckedError, UsageError

COLLAPSE_GROUP: Final = "indexer.collapse"
SUMMARY_GROUP: Final = "indexer.summaries"
_BUILT_IN: Final = {COLLAPSE_GROUP: COLLAPSE_MODES, SUMMARY_GROUP: SUMMARIES}

LONGEST_SUMMARY: Final = 2_000
"""Characters of what stands for a collapsed message, at most."""

Collapser = Callable[[Sequence[Node], CollapsePolicy], Sequence[str]]
"""A custom mode: given the nodes that stay, in append order, the ids of those to collapse."""

Summarizer = Callable[[Node], str]
"""A custom summary: the text that stands for a collapsed node."""


class PluginError(UsageError):
    """A plug-in is not installed, was not agreed to, or did what it must not do."""

    code = "policy_plugin"


class PluginChangesError(UncheckedError):
    """A plug-in gave two results for one input."""

    code = "non_deterministic"


@dataclass(frozen=True, slots=True)
class Plugins:
    """The custom code that a compilation may run, by name."""

    collapsers: Mapping[str, Collapser] = field(default_factory=dict)
    summarizers: Mapping[str, Summarizer] = field(default_factory=dict)


def custom_names(policy: Policy) -> dict[str, str]:
    """The names in a policy that are not built in, by the group a plug-in offers them in."""
    asked = {COLLAPSE_GROUP: policy.collapse.mode, SUMMARY_GROUP: policy.collapse.summary}
    return {group: name for group, name in asked.items() if name not in _BUILT_IN[group]}


def installed_plugins(policy: Policy) -> Plugins:
    """What a policy names and installed packages offer; only whoever may run code asks for it."""
    found = {group: {name: _loaded(group, name)} for group, name in custom_names(policy).items()}
    return Plugins(found.get(COLLAPSE_GROUP, {}), found.get(SUMMARY_GROUP, {}))


def _loaded(group: str, name: str) -> Any:
    # Imported late: only a custom policy needs it.
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=group, name=name), key=lambda point: point.value):
        try:
            made = point.load()
        except Exception as error:
            raise PluginError(f"the plug-in {name} cannot be loaded: {error}") from error
        if not callable(made):
            raise PluginError(f"the plug-in {name} is nothing that can be called")
        return made
    raise _unknown(group, name)


def _unknown(group: str, name: str) -> PluginError:
    return PluginError(
        f"there is no policy {name!r}",
        hint=f"use one of: {', '.join(_BUILT_IN[group])}, or install one as entry point {group}",
    )


def check_offered(plugins: Plugins, policy: Policy) -> None:
    """Refuse a policy that names what was not handed in, also where it would not be used."""
    offered = {COLLAPSE_GROUP: plugins.collapsers, SUMMARY_GROUP: plugins.summarizers}
    for group, name in custom_names(policy).items():
        if name not in offered[group]:
            raise _unknown(group, name)


def collapsed_by(plugins: Plugins, nodes: Sequence[Node], policy: CollapsePolicy) -> frozenset[str]:
    """The ids that a custom mode collapses, once it has named the same ones twice."""
    mode = policy.mode
    named = _twice(mode, lambda: list(plugins.collapsers[mode](tuple(nodes), policy)))
    known = {node.id for node in nodes}
    if not all(isinstance(one, str) and one in known for one in named):
        raise PluginError(f"the plug-in {mode} named something that it was not given")
    return frozenset(named)


def summarized_by(plugins: Plugins, node: Node, name: str) -> str:
    """What a custom summary makes of a node, once it has made it twice."""
    text = _twice(name, lambda: plugins.summarizers[name](node))
    if not isinstance(text, str) or len(text) > LONGEST_SUMMARY:
        raise PluginError(
            f"the plug-in {name} gave no text of at most {LONGEST_SUMMARY:,} characters"
        )
    return text


def _twice(name: str, make: Callable[[], Any]) -> Any:
    try:
        first, second = make(), make()
    except Exception as error:  # somebody else's code may raise anything
        raise PluginError(f"the plug-in {name} failed: {type(error).__name__}: {error}") from error
    if first != second:
        raise PluginChangesError(
            f"the plug-in {name} gave two results for one input",
            hint="custom code must depend on its input alone: no clock, no random numbers,"
            " no order of a set",
        )
    return first
