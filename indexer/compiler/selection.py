"""Choosing nodes: by kind, by turn, by number, with the latest speakers chosen first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from indexer.compiler.events import Node
from indexer.compiler.policy import SelectionPolicy

PINNED_ROLES: Final = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Selection:
    """The nodes that stay, in append order, and for every other one the limit it met."""

    nodes: tuple[Node, ...]
    pinned_ids: frozenset[str]
    reasons: Mapping[str, str]


def select(nodes: Sequence[Node], policy: SelectionPolicy) -> Selection:
    """Apply the limits. They are hard; a pin is only the first choice within them."""
    reasons: dict[str, str] = {}
    allowed = _by_kind(nodes, policy.kind_allowlist)
    _note(reasons, nodes, allowed, "kind")
    pins = _latest_speakers(allowed) if policy.pin_latest else []
    in_turns = _by_turn(allowed, policy.max_turns, pins)
    _note(reasons, allowed, in_turns, "max_turns")
    kept = keep_newest(in_turns, policy.max_nodes, {pin.id for pin in pins})
    _note(reasons, in_turns, kept, "max_nodes")
    kept_ids = {node.id for node in kept}
    return Selection(kept, frozenset(pin.id for pin in pins if pin.id in kept_ids), reasons)


def keep_newest(
    nodes: Sequence[Node], limit: int | None, pinned_ids: AbstractSet[str]
) -> tuple[Node, ...]:
    """At most `limit` nodes in their given order: pinned ones first, then the newest."""
    if limit is None or len(nodes) <= limit:
        return tuple(nodes)
    ranked = sorted(nodes, key=lambda node: (node.id in pinned_ids, node.age_key), reverse=True)
    kept_ids = {node.id for node in ranked[:limit]}
    return tuple(node for node in nodes if node.id in kept_ids)


def _by_kind(nodes: Sequence[Node], kinds: tuple[str, ...] | None) -> tuple[Node, ...]:
    return tuple(node for node in nodes if kinds is None or node.kind in kinds)


def _latest_speakers(nodes: Sequence[Node]) -> list[Node]:
    """The latest node of each pinned role, the newest first."""
    latest: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: node.age_key):
        if node.role in PINNED_ROLES:
            latest[node.role] = node
    return sorted(latest.values(), key=lambda node: node.age_key, reverse=True)


def _by_turn(nodes: Sequence[Node], limit: int | None, pins: Sequence[Node]) -> tuple[Node, ...]:
    """Nodes of at most `limit` turns; an old turn that is there for its pin brings only that."""
    if limit is None:
        return tuple(nodes)
    recent = sorted({node.turn for node in nodes}, reverse=True)[:limit]
    turns: list[int] = []
    for turn in [*(pin.turn for pin in pins), *recent]:
        if turn not in turns and len(turns) < limit:
            turns.append(turn)
    pinned_ids = {pin.id for pin in pins}
    whole = set(turns) & set(recent)
    return tuple(
        node
        for node in nodes
        if node.turn in whole or (node.turn in turns and node.id in pinned_ids)
    )


def _note(
    reasons: dict[str, str], before: Sequence[Node], after: Sequence[Node], reason: str
) -> None:
    kept_ids = {node.id for node in after}
    reasons.update((node.id, reason) for node in before if node.id not in kept_ids)
