"""Roots that were recorded once and are gone, as everybody who tells of the history says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from indexer.core.clock import iso_utc

if TYPE_CHECKING:
    from indexer.store.trees import TreeStore


class LostDocument(TypedDict):
    """Roots that were recorded and are gone: their numbers, and the id of the last."""

    first: int
    last: int
    root: str
    noticed_at: str


def lost_documents(trees: TreeStore) -> list[LostDocument]:
    """What was recorded within the history and is gone, oldest first."""
    return [
        {
            "first": lost.first,
            "last": lost.last,
            "root": lost.root.hex(),
            "noticed_at": iso_utc(lost.at_ns),
        }
        for lost in trees.lost()
    ]


def lost_text(first: int, last: int) -> str:
    """What to say of roots that are gone."""
    if first == last:
        return f"root {first} was recorded, and the database has lost it"
    return f"roots {first} to {last} were recorded, and the database has lost them"
