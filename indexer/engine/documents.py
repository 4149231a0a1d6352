"""What operations give: the same document locally, over HTTP and as `--json`.

A document whose keys are known stands beside the operation that gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

JsonObject = dict[str, Any]

Report = Callable[[str, str, str], None]
"""Takes the code, the path and the message of a finding."""


def keys_of(document: Any) -> tuple[str, ...]:
    """The keys that a declared document always has, in their order."""
    return tuple(key for key in document.__annotations__ if key in document.__required_keys__)


class RenameDocument(TypedDict):
    """One rename."""

    old: str
    new: str
    kind: str


NoteChangeDocument = TypedDict(
    "NoteChangeDocument",
    {
        "path": str,
        "symbol": str | None,
        "type": str,
        "agent": str,
        "frame_id": str,
        "change": str,
        "from": str | None,
    },
)
"""What became of a note: `stale`, `fresh` again, `orphaned`, or `carried` along, from where."""


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
    notes: list[NoteChangeDocument]


class ExchangedDocument(TypedDict):
    """What passed between a workspace and its team."""

    fetched: int
    computed: int
    pushed: int
    refused: int
    problem: str | None
