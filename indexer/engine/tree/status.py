"""What `status` tells: the disk against the index, without changing either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from indexer.core.changes import Summary, summarize, tree_changes
from indexer.core.garbage import no_cycle_collection
from indexer.core.progress import Progress
from indexer.core.tree import Tree
from indexer.engine.tree.lost import lost_documents
from indexer.engine.tree.results import (
    COUNTED,
    ChangesDocument,
    StatusDocument,
    status_document,
)
from indexer.engine.tree.root import UnavailableError
from indexer.engine.tree.scan import look
from indexer.store.roots import Remarks

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

LARGEST: Final = 5
_NO_CHANGES: Final = Summary((), (), (), ())


def status(
    engine: Engine, *, wait: bool = True, progress: Progress | None = None
) -> StatusDocument:
    """Compare the disk with the index; with a service, first wait until it has seen all.

    Without a service there is nothing to wait for: the disk itself is looked at.
    """
    with no_cycle_collection():
        return present_status(engine, progress)[0]


def present_status(
    engine: Engine, progress: Progress | None = None
) -> tuple[StatusDocument, Tree | None]:
    """The same, with the tree that is on disk where it could be looked at."""
    if engine.trees.head() is None:
        return describe(engine, "missing", _NO_CHANGES, [], [], None), None
    try:
        looked = look(engine, accept_empty=False, progress=progress)
    except UnavailableError as error:
        remarks = [("", error.message)]
        return describe(engine, "unavailable", _NO_CHANGES, [], remarks, None), None
    summary = _NO_CHANGES
    if looked.tree is not None:
        summary = summarize(tree_changes(engine.tree, looked.tree))
    present = looked.tree or engine.tree
    state = "stale" if summary else "current"
    document = describe(engine, state, summary, looked.skipped, looked.unreadable, present)
    if looked.tree is None and not looked.unreadable:
        engine.keep_counts({key: document[key] for key in COUNTED})
    return document, present


def recorded_status(engine: Engine, state: str) -> StatusDocument:
    """The status of an index that is known to have caught up with the disk."""
    remarks = engine.recorded.remarks
    present = engine.tree if state == "current" else None
    return describe(engine, state, _NO_CHANGES, remarks.skipped, remarks.unreadable, present)


def describe(
    engine: Engine,
    state: str,
    changes: Summary,
    skipped: Sequence[tuple[str, str]],
    unreadable: Sequence[tuple[str, str]],
    present: Tree | None,
) -> StatusDocument:
    """Put the document together."""
    head = engine.trees.head()
    states = engine.frames.states.of(present, engine.tree if head else None)
    counted: dict[str, Any] = {
        "frames": states.totals,
        "types": states.types,
        "agents": states.agents,
        "not_fresh": states.stale,
        "largest": engine.recorded.largest(LARGEST) if head else [],
        "lost": lost_documents(engine.trees),
    }
    moved: ChangesDocument = {
        "added": list(changes.added),
        "modified": list(changes.modified),
        "removed": list(changes.removed),
    }
    return status_document(
        str(engine.root), engine.algorithm.name, head, state, moved,
        Remarks(tuple(skipped), tuple(unreadable)), counted, read_only=engine.read_only,
    )  # fmt: skip
