"""Sort keys for a sibling that has to stand right after another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from indexer.sessions.node import EDIT_TYPE, Node


@dataclass(frozen=True, slots=True)
class Slot:
    """Creation time and index of the new sibling, and a prefix its id needs where those tie."""

    created_at_ns: int
    creation_index: int | None
    id_prefix: str = ""


def slot_after(siblings: Sequence[Node], target: Node) -> Slot:
    """A place right after a sibling and after the edits that already follow it."""
    place = next(i for i, node in enumerate(siblings) if node.id == target.id)
    last = target
    for node in siblings[place + 1 :]:
        if node.node_type != EDIT_TYPE or target.id not in node.references:
            return _between(last, node)
        last = node
    return Slot(last.created_at_ns + 1, None)


def _between(last: Node, following: Node) -> Slot:
    """Keys between two neighbours; creation times usually leave room, imported ones may not."""
    same_offset = following.offset == last.offset
    gap = following.created_at_ns - last.created_at_ns
    if not same_offset or gap > 1:
        return Slot(last.created_at_ns + 1, None)
    if gap == 1 or following.creation_index > last.creation_index + 1:
        return Slot(last.created_at_ns, last.creation_index + 1)
    # Only the id is left to decide; "!" sorts before everything ids are usually made of.
    if following.creation_index > last.creation_index or following.id > last.id + "!":
        return Slot(last.created_at_ns, last.creation_index, last.id + "!")
    return Slot(last.created_at_ns, last.creation_index + 1)


def slotted_id(slot: Slot, given: str | None, make: Callable[[], str]) -> str:
    """The id for a slot: the caller's as it is, otherwise one that keeps the place."""
    return given if given is not None else slot.id_prefix + make()
