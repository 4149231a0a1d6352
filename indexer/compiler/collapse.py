"""The collapse policy: what each stage may drop, and what it may shrink to a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

from indexer.compiler.events import Node
from indexer.compiler.plugins import Plugins, collapsed_by
from indexer.compiler.policy import COLLAPSE_MODES, CollapsePolicy
from indexer.compiler.selection import keep_newest, whole_pairs

StageName = Literal["RAW", "SPEC", "HEADER", "FROZEN"]

_DROPS: Final[Mapping[StageName, bool]] = {
    "RAW": False,
    "SPEC": True,
    "HEADER": True,
    "FROZEN": True,
}
_COLLAPSES: Final[Mapping[StageName, bool]] = {
    "RAW": False,
    "SPEC": False,
    "HEADER": True,
    "FROZEN": True,
}


@dataclass(frozen=True, slots=True)
class Collapsed:
    """What is left of a list of nodes at one stage."""

    kept: tuple[Node, ...]
    dropped_ids: tuple[str, ...]
    collapsed_ids: tuple[str, ...]


def collapse(
    stage: StageName,
    nodes: Sequence[Node],
    policy: CollapsePolicy,
    first: AbstractSet[str] = frozenset(),
    held: AbstractSet[str] = frozenset(),
    plugins: Plugins | None = None,
) -> Collapsed:
    """Drop the oldest above the target, then collapse, as far as the stage allows either.

    What is held is neither dropped nor collapsed.
    """
    kept = tuple(nodes)
    if _DROPS[stage]:
        kept = whole_pairs(nodes, keep_newest(nodes, policy.target, first, held))
    kept_ids = {node.id for node in kept}
    collapses = _COLLAPSES[stage]
    return Collapsed(
        kept=kept,
        dropped_ids=tuple(node.id for node in nodes if node.id not in kept_ids),
        collapsed_ids=_collapsed_ids(kept, policy, held, plugins or Plugins()) if collapses else (),
    )


def _collapsed_ids(
    nodes: Sequence[Node], policy: CollapsePolicy, held: AbstractSet[str], plugins: Plugins
) -> tuple[str, ...]:
    """What the mode names, as far as its kind may be collapsed and nobody pinned it."""
    if policy.mode == "none" or not nodes:
        return ()
    if policy.mode in COLLAPSE_MODES:
        newest = max(nodes, key=lambda node: node.age_key)
        named = frozenset(node.id for node in nodes if node is not newest)
    else:
        named = collapsed_by(plugins, nodes, policy)
    kinds = policy.kind_allowlist
    return tuple(
        node.id
        for node in nodes
        if node.id in named and node.id not in held and (kinds is None or node.kind in kinds)
    )
