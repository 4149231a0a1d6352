"""A tree as it stood at one moment, and the walks that every reader of it shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from indexer.sessions.history import HistoryView
from indexer.sessions.node import AH, BLOCK, CORE, REGIONS, SEQ, SYS, TURN, Node, SortKey

DocumentKey: TypeAlias = tuple[SortKey, ...]


View: TypeAlias = HistoryView
"""One snapshot of a tree; reading never changes it."""


def preorder(view: View, start: str) -> Iterator[Node]:
    """A node and everything below it in canonical order."""
    first = view.node(start)
    if first is None:
        return
    pending = [first]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(view.children(node.id)))


def path(view: View, node_id: str) -> list[str]:
    """Ids from the root down to a node, itself included."""
    ids = [node_id]
    while (above := view.parent(ids[-1])) is not None:
        ids.append(above)
    ids.reverse()
    return ids


def document_key(view: View, node_id: str) -> DocumentKey:
    """A key by which nodes of one view sort into canonical document order."""
    keys: list[SortKey] = []
    for step in path(view, node_id)[1:]:
        node = view.node(step)
        assert node is not None
        # Regions stand in render order whatever their headers say.
        rank = REGIONS.index(node.node_type) if node.node_type in REGIONS else -1
        keys.append(node.sort_key if rank < 0 else (rank, 0, 0, ""))
    return tuple(keys)


def region_of(view: View, node_id: str) -> str | None:
    """The alias of the region a node stands in; the root stands in none."""
    ids = path(view, node_id)
    node = view.node(ids[1]) if len(ids) > 1 else None
    return node.node_type if node is not None else None


def is_turn(node: Node) -> bool:
    """Whether a node is laid out as a turn: sealed, or the active head."""
    return node.node_type == AH or node.canonical == TURN


def core_of(view: View, turn_id: str) -> Node | None:
    """The explicit core of a turn, if it has one."""
    return next((node for node in view.children(turn_id) if node.canonical == CORE), None)


def implicit_core(view: View, turn: Node) -> list[Node]:
    """The blocks of a turn's implicit core; empty where the turn has a core of its own."""
    if not is_turn(turn) or core_of(view, turn.id) is not None:
        return []
    return [n for n in view.children(turn.id) if n.offset == 0 and n.canonical == BLOCK]


def in_sealed_core(view: View, node_id: str) -> bool:
    """Whether a node is, or is part of, the core of a sealed turn."""
    ids = path(view, node_id)
    if len(ids) < 4 or ids[1] != view.region_id(SEQ):
        return False
    member = view.node(ids[3])
    if member is None or member.canonical == CORE:
        return member is not None
    return member.offset == 0 and core_of(view, ids[2]) is None


def blocks(view: View) -> Iterator[tuple[Node, str]]:
    """Content blocks as a provider reads them, each with its role: system, turns, active head."""
    for region in view.children(view.root_id):
        role = "system" if region.node_type == SYS else "user"
        for node in preorder(view, region.id):
            if node.content is not None and node.canonical == BLOCK:
                yield node, node.role if node.role is not None else role
