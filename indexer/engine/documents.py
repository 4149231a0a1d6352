"""What operations give: the same document locally, over HTTP and as `--json`.

A document whose keys are known stands beside the operation that gives it.
"""

from __future__ import annotations

from typing import Any, TypedDict

JsonObject = dict[str, Any]


def keys_of(document: Any) -> tuple[str, ...]:
    """The keys that a declared document always has, in their order."""
    return tuple(key for key in document.__annotations__ if key in document.__required_keys__)


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
    symbols: list[JsonObject]
    """What came, went and changed in files whose symbols are known on both sides."""
    frames: list[JsonObject]
    notes: list[JsonObject]
    """What became of notes: `stale`, `fresh` again, `orphaned`, or `carried` along."""


class ExchangedDocument(TypedDict):
    """What passed between a workspace and its team."""

    fetched: int
    computed: int
    pushed: int
    refused: int
    problem: str | None
