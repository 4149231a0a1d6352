"""What `scan` and `status` give, put together from what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core.tree import Totals
from indexer.engine.documents import JsonObject
from indexer.engine.tree.lost import LostDocument
from indexer.store.roots import Remarks, Root

if TYPE_CHECKING:
    from indexer.scan.walk import Remark

NO_SERVICE: Final = {"running": False, "pid": None, "watches": 0, "degraded": None, "web": None}


class RemarkDocument(TypedDict):
    """A path that was left out or could not be read."""

    path: str
    reason: str


class ScanDocument(TypedDict):
    """Result of `scan`."""

    root: str
    content_id: str
    nodes: int
    files: int
    directories: int
    links: int
    bytes: int
    hashed: int
    added: int
    modified: int
    removed: int
    renamed: int
    carried: int
    skipped: list[RemarkDocument]
    unreadable: list[RemarkDocument]
    seconds: float


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


COUNTED: Final = ("frames", "types", "agents", "not_fresh", "largest", "lost")
"""What of a status is counted from the database, and stays as it is as long as that does."""


def pairs(remarks: Iterable[Remark]) -> tuple[tuple[str, str], ...]:
    """Remarks in the order in which they are stored and told."""
    return tuple(sorted((remark.path, remark.reason) for remark in remarks))


def remark_documents(remarks: Iterable[tuple[str, str]]) -> list[RemarkDocument]:
    """Remarks as JSON has them."""
    return [{"path": path, "reason": reason} for path, reason in sorted(remarks)]


def scan_document(
    root: Root, since: Sequence[Root], read: int, carried: int, remarks: Remarks, seconds: float
) -> ScanDocument:
    """A root, what the roots since an earlier one count, and what was left out."""
    return {
        "root": root.root.hex(),
        "content_id": root.content_id.hex(),
        "nodes": root.totals.nodes,
        "files": root.totals.files,
        "directories": root.totals.directories,
        "links": root.totals.links,
        "bytes": root.totals.bytes,
        "hashed": read,
        "added": sum(each.added for each in since),
        "modified": sum(each.modified for each in since),
        "removed": sum(each.removed for each in since),
        "renamed": sum(each.renamed for each in since),
        "carried": carried,
        "skipped": remark_documents(remarks.skipped),
        "unreadable": remark_documents(remarks.unreadable),
        "seconds": round(seconds, 3),
    }


def status_document(
    workspace: str,
    hash_name: str,
    head: Root | None,
    state: str,
    changes: ChangesDocument,
    remarks: Remarks,
    counted: dict[str, Any],
    *,
    read_only: bool,
) -> StatusDocument:
    """A root beside what is on disk, and what was counted about it (the keys of `COUNTED`)."""
    totals = head.totals if head else Totals(0, 0, 0, 0)
    return {
        "workspace": workspace,
        "scanned": head is not None,
        "state": state,
        "root": head.root.hex() if head else None,
        "content_id": head.content_id.hex() if head else None,
        "hash": hash_name,
        "nodes": totals.nodes,
        "files": totals.files,
        "directories": totals.directories,
        "links": totals.links,
        "bytes": totals.bytes,
        "changes": changes,
        "skipped": remark_documents(remarks.skipped),
        "unreadable": remark_documents(remarks.unreadable),
        "frames": counted["frames"],
        "types": counted["types"],
        "agents": counted["agents"],
        "not_fresh": counted["not_fresh"],
        "largest": counted["largest"],
        "read_only": read_only,
        "lost": counted["lost"],
        "service": dict(NO_SERVICE),
    }
