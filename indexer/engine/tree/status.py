"""What `status` tells: the disk against the index, without changing either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core.changes import Summary, summarize, tree_changes
from indexer.core.garbage import no_cycle_collection
from indexer.core.tree import Totals, Tree
from indexer.engine.documents import JsonObject
from indexer.engine.tree.lost import LostDocument, lost_documents
from indexer.engine.tree.root import UnavailableError
from indexer.engine.tree.scan import RemarkDocument, look, remark_documents

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

LARGEST: Final = 5
_NO_CHANGES: Final = Summary((), (), (), ())
NO_SERVICE: Final = {"running": False, "pid": None, "watches": 0, "degraded": None, "web": None}


class ChangesDocument(TypedDict):
    """Paths that differ."""

    added: list[str]
    modified: list[str]
    removed: list[str]


class StatusDocument(TypedDict):
    """Result of `status`."""

    workspace: str
    scanned: bool
    state: str
    root: str | None
    content_id: str | None
    hash: str | None
    nodes: int
    files: int
    directories: int
    links: int
    bytes: int
    changes: ChangesDocument
    skipped: list[RemarkDocument]
    unreadable: list[RemarkDocument]
    frames: dict[str, int]
    types: JsonObject
    agents: list[JsonObject]
    not_fresh: list[JsonObject]
    largest: list[str]
    read_only: bool
    lost: list[LostDocument]
    service: JsonObject


def status(engine: Engine, *, wait: bool = True) -> StatusDocument:
    """Compare the disk with the index; with a service, first wait until it has seen all.

    Without a service there is nothing to wait for: the disk itself is looked at.
    """
    with no_cycle_collection():
        return present_status(engine)[0]


def present_status(engine: Engine) -> tuple[StatusDocument, Tree | None]:
    """The same, with the tree that is on disk where it could be looked at."""
    if engine.trees.head() is None:
        return describe(engine, "missing", _NO_CHANGES, [], [], None), None
    try:
        looked = look(engine, accept_empty=False)
    except UnavailableError as error:
        remarks = [("", error.message)]
        return describe(engine, "unavailable", _NO_CHANGES, [], remarks, None), None
    summary = _NO_CHANGES
    if looked.tree is not None:
        summary = summarize(tree_changes(engine.tree, looked.tree))
    present = looked.tree or engine.tree
    state = "stale" if summary else "current"
    return describe(engine, state, summary, looked.skipped, looked.unreadable, present), present


def recorded_status(engine: Engine, state: str) -> StatusDocument:
    """The status of an index that is known to have caught up with the disk."""
    remarks = engine.trees.remarks()
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
    totals = head.totals if head else Totals(0, 0, 0, 0)
    states = engine.frames.states.of(present, engine.tree if head else None)
    return {
        "workspace": str(engine.root),
        "scanned": head is not None,
        "state": state,
        "root": head.root.hex() if head else None,
        "content_id": head.content_id.hex() if head else None,
        "hash": engine.algorithm.name,
        "nodes": totals.nodes,
        "files": totals.files,
        "directories": totals.directories,
        "links": totals.links,
        "bytes": totals.bytes,
        "changes": {
            "added": list(changes.added),
            "modified": list(changes.modified),
            "removed": list(changes.removed),
        },
        "skipped": remark_documents(skipped),
        "unreadable": remark_documents(unreadable),
        "frames": states.totals,
        "types": states.types,
        "agents": states.agents,
        "not_fresh": states.stale,
        "largest": engine.tree.largest(LARGEST) if head else [],
        "read_only": engine.read_only,
        "lost": lost_documents(engine.trees),
        "service": dict(NO_SERVICE),
    }
