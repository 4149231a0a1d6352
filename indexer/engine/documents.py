"""What operations give: the same document locally, over HTTP and as `--json`.

A document whose keys are known stands beside the operation that gives it.
"""

from __future__ import annotations

from typing import Any, TypedDict

JsonObject = dict[str, Any]


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
