"""What is recorded of a workspace as a whole, one row for each of its states."""

from __future__ import annotations

from typing import NamedTuple

from indexer.core.ids import ContentId, NodeId
from indexer.core.tree import Totals


class Root(NamedTuple):
    """One recorded state of the workspace."""

    seq: int
    root: NodeId
    content_id: ContentId
    at_ns: int
    cause: str
    totals: Totals
    added: int
    modified: int
    removed: int
    renamed: int


class Remarks(NamedTuple):
    """What the last scan left out or could not read: (path, reason) pairs."""

    skipped: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
