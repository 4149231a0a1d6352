"""The shapes of the operations' results: the same document locally, over HTTP and as `--json`."""

from __future__ import annotations

from typing import Any, TypedDict

JsonObject = dict[str, Any]


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
    service: JsonObject


class FindingDocument(TypedDict):
    """One thing that `validate` has to say."""

    code: str
    path: str
    message: str


class ValidateDocument(TypedDict):
    """Result of `validate`."""

    valid: bool
    root: str | None
    node_count: int
    frame_count: int
    errors: list[FindingDocument]
    warnings: list[FindingDocument]
    unchecked: list[FindingDocument]
    hash: str
    note: str


class RootDocument(TypedDict):
    """One line of `log`."""

    seq: int
    root: str
    at: str
    cause: str
    added: int
    modified: int
    removed: int
    renamed: int
    nodes: int


class LogDocument(TypedDict):
    """Result of `log`."""

    roots: list[RootDocument]


class RenameDocument(TypedDict):
    """One rename."""

    old: str
    new: str
    kind: str


class DiffDocument(TypedDict):
    """Result of `diff`."""

    old: str
    new: str
    added: list[str]
    removed: list[str]
    modified: list[str]
    renamed: list[RenameDocument]
    frames: list[JsonObject]


class SqlDocument(TypedDict):
    """Result of `sql`."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


class NodeDocument(TypedDict):
    """Where a node argument leads."""

    path: str
    kind: str
    node_id: str
    content_id: str
    size: int
    superseded: bool
