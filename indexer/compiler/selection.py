"""Choosing nodes: by kind, turn, number and characters; what is pinned stays."""

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
    """The ids of nodes that are pinned, or were chosen first."""
    held_ids: frozenset[str]
    """The ids of nodes that nothing may drop or collapse."""
    reasons: Mapping[str, str]


def select(nodes: Sequence[Node], policy: SelectionPolicy) -> Selection:
    """Apply the limits. They are hard for all but what is pinned.

    The latest speakers are only the first choice within them.
    """
    reasons: dict[str, str] = {}
    held = _held(nodes, policy)
    allowed = _by_kind(nodes, policy.kind_allowlist, held)
    _note(reasons, nodes, allowed, "kind")
    pins = _latest_speakers(allowed) if policy.pin_latest else []
    first = {pin.id for pin in pins}
    in_turns = _by_turn(allowed, policy.max_turns, pins, held)
    _note(reasons, allowed, in_turns, "max_turns")
    counted = keep_newest(in_turns, policy.max_nodes, first, held)
    _note(reasons, in_turns, counted, "max_nodes")
    sized = _by_chars(counted, policy.max_chars, first, held)
    _note(reasons, counted, sized, "max_chars")
    kept = whole_pairs(nodes, sized)
    _note(reasons, sized, kept, "pair")
    kept_ids = {node.id for node in kept}
    return Selection(kept, frozenset((first | held) & kept_ids), held, reasons)


def keep_newest(
    nodes: Sequence[Node],
    limit: int | None,
    first: AbstractSet[str],
    held: AbstractSet[str],
) -> tuple[Node, ...]:
    """At most `limit` nodes in their given order: first choices, then the newest.

    Those that are held stay beyond any limit, and take up room below it.
    """
    if limit is None or len(nodes) <= limit:
        return tuple(nodes)
    kept_ids = {node.id for node in nodes if node.id in held}
    room = max(0, limit - len(kept_ids))
    kept_ids.update(node.id for node in _ranked(nodes, first, held)[:room])
    return tuple(node for node in nodes if node.id in kept_ids)


def whole_pairs(before: Sequence[Node], after: Sequence[Node]) -> tuple[Node, ...]:
    """Without the halves of pairs whose other half was left out."""
    kept_ids = {node.id for node in after}
    broken = {node.pair for node in before if node.pair is not None and node.id not in kept_ids}
    return tuple(node for node in after if node.pair is None or node.pair not in broken)


def _held(nodes: Sequence[Node], policy: SelectionPolicy) -> frozenset[str]:
    """What is pinned, with the other half of its pair, and the first system message if asked."""
    held = {node.id for node in nodes if node.pinned}
    if policy.pin_first_system:
        held.update([node.id for node in nodes if node.role == "system"][:1])
    pairs = {node.pair for node in nodes if node.id in held} - {None}
    return frozenset(held | {node.id for node in nodes if node.pair in pairs})


def _ranked(nodes: Sequence[Node], first: AbstractSet[str], held: AbstractSet[str]) -> list[Node]:
    """Those that are not held: first choices, then the others, the newest first."""
    free = [node for node in nodes if node.id not in held]
    return sorted(free, key=lambda node: (node.id in first, node.age_key), reverse=True)


def _by_kind(
    nodes: Sequence[Node], kinds: tuple[str, ...] | None, held: AbstractSet[str]
) -> tuple[Node, ...]:
    return tuple(node for node in nodes if kinds is None or node.kind in kinds or node.id in held)


def _latest_speakers(nodes: Sequence[Node]) -> list[Node]:
    """The latest node of each pinned role, the newest first."""
    latest: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: node.age_key):
        if node.role in PINNED_ROLES:
            latest[node.role] = node
    return sorted(latest.values(), key=lambda node: node.age_key, reverse=True)


def _by_turn(
    nodes: Sequence[Node], limit: int | None, pins: Sequence[Node], held: AbstractSet[str]
) -> tuple[Node, ...]:
    """Nodes of at most `limit` turns; an old turn that is there for its pin brings only that.

    What is held takes no turn from the others.
    """
    if limit is None:
        return tuple(nodes)
    recent = sorted({node.turn for node in nodes if node.id not in held}, reverse=True)[:limit]
    turns: list[int] = []
    for turn in [*(pin.turn for pin in pins), *recent]:
        if turn not in turns and len(turns) < limit:
            turns.append(turn)
    pinned_ids = {pin.id for pin in pins}
    whole = set(turns) & set(recent)
    return tuple(
        node
        for node in nodes
        if node.turn in whole or node.id in held or (node.turn in turns and node.id in pinned_ids)
    )


def _by_chars(
    nodes: Sequence[Node], limit: int | None, first: AbstractSet[str], held: AbstractSet[str]
) -> tuple[Node, ...]:
    """Nodes of at most `limit` characters together: the newest, up to the first that is too long.

    A first choice that is too long is left out, and ends nothing.
    """
    if limit is None:
        return tuple(nodes)
    kept_ids = {node.id for node in nodes if node.id in held}
    room = limit - sum(node.chars for node in nodes if node.id in held)
    for node in _ranked(nodes, first, held):
        if node.chars > room:
            if node.id in first:
                continue
            break
        room -= node.chars
        kept_ids.add(node.id)
    return tuple(node for node in nodes if node.id in kept_ids)


def _note(
    reasons: dict[str, str], before: Sequence[Node], after: Sequence[Node], reason: str
) -> None:
    kept_ids = {node.id for node in after}
    reasons.update((node.id, reason) for node in before if node.id not in kept_ids)
