"""The collapse policy: what each stage may drop, and what it may shrink to a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

from indexer.compiler.events import Node
from indexer.compiler.policy import CollapsePolicy
from indexer.compiler.selection import keep_newest

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
    pinned_ids: AbstractSet[str] = frozenset(),
) -> Collapsed:
    """Drop the oldest above the target, then collapse, as far as the stage allows either."""
    kept = keep_newest(nodes, policy.target, pinned_ids) if _DROPS[stage] else tuple(nodes)
    kept_ids = {node.id for node in kept}
    return Collapsed(
        kept=kept,
        dropped_ids=tuple(node.id for node in nodes if node.id not in kept_ids),
        collapsed_ids=_collapsed_ids(kept, policy) if _COLLAPSES[stage] else (),
    )


def _collapsed_ids(nodes: Sequence[Node], policy: CollapsePolicy) -> tuple[str, ...]:
    """Everything but the newest node, as far as its kind may be collapsed."""
    if policy.mode == "none" or not nodes:
        return ()
    newest = max(nodes, key=lambda node: node.age_key)
    kinds = policy.kind_allowlist
    return tuple(
        node.id for node in nodes if node is not newest and (kinds is None or node.kind in kinds)
    )
