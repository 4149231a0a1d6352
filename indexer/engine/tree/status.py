"""What `status` tells: the disk against the index, without changing either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from indexer.core.changes import Summary, summarize, tree_changes
from indexer.core.garbage import no_cycle_collection
from indexer.core.progress import Progress
from indexer.core.tree import Tree
from indexer.engine.tree.disk import UnavailableError
from indexer.engine.tree.lost import lost_documents
from indexer.engine.tree.recorded import RecordedTree
from indexer.engine.tree.results import (
    COUNTED,
    ChangesDocument,
    StatusDocument,
    status_document,
)
from indexer.engine.tree.scan import look
from indexer.store.roots import Remarks

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
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
    """The status, and the tree that is on disk where it could be looked at."""
    recorded = engine.recorded
    if recorded.store.head() is None:
        return describe(engine.frames, recorded, "missing", _NO_CHANGES, Remarks(), None), None
    try:
        looked = look(engine.disk, recorded, progress=progress)
    except UnavailableError as error:
        remarks = Remarks((), (("", error.message),))
        return describe(engine.frames, recorded, "unavailable", _NO_CHANGES, remarks, None), None
    present = looked.tree or recorded.tree
    summary = summarize(tree_changes(recorded.tree, present))
    state = "stale" if summary else "current"
    document = describe(engine.frames, recorded, state, summary, looked.remarks, present)
    if looked.tree is None and not looked.unreadable:
        engine.keep_counts({key: document[key] for key in COUNTED})
    return document, present


def recorded_status(frames: Frames, recorded: RecordedTree, state: str) -> StatusDocument:
    """The status of an index that is known to have caught up with the disk."""
    present = recorded.tree if state == "current" else None
    return describe(frames, recorded, state, _NO_CHANGES, recorded.remarks, present)


def describe(
    frames: Frames,
    recorded: RecordedTree,
    state: str,
    changes: Summary,
    remarks: Remarks,
    present: Tree | None,
) -> StatusDocument:
    """Put the document together."""
    head = recorded.store.head()
    states = frames.states.of(present, recorded.tree if head else None)
    counted: dict[str, Any] = {
        "frames": states.totals,
        "types": states.types,
        "agents": states.agents,
        "not_fresh": states.stale,
        "largest": recorded.largest(LARGEST) if head else [],
        "lost": lost_documents(recorded.store),
    }
    moved: ChangesDocument = {
        "added": list(changes.added),
        "modified": list(changes.modified),
        "removed": list(changes.removed),
    }
    return status_document(
        str(frames.root), frames.algorithm.name, head, state, moved, remarks, counted,
        read_only=frames.store.database.read_only,
    )  # fmt: skip
