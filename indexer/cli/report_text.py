"""What every form of a report says: the words, the numbers and the lists."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any, Final

from indexer.cli.columns import counted, size
from indexer.core import paths
from indexer.core.paths import on_screen

STATES: Final = ("fresh", "stale", "unknown", "none")
MEANINGS: Final = {
    "fresh": "fresh",
    "stale": "stale",
    "unknown": "unknown",
    "none": "without a frame",
}
CHANGES_SHOWN: Final = 200
"""How many changes of each kind a report lists."""

_TYPE_STATES: Final = ("fresh", "stale", "orphaned", "unmanaged", "unknown")
_STATE_TEXTS: Final = {
    "current": "The index is what is on disk.",
    "unavailable": "The workspace could not be looked at: nothing is known to be fresh.",
}


def headline(document: Mapping[str, Any]) -> str:
    """Whether the index is what is on disk, in a sentence."""
    if document["unreadable"] and document["state"] != "unavailable":
        left = counted(len(document["unreadable"]), "path")
        return f"Not everything could be checked: {left} could not be read."
    if document["state"] == "stale":
        changes = sum(map(len, document["changes"].values()))
        return f"The disk has moved on: {counted(changes, 'path')} changed since the last scan."
    return _STATE_TEXTS.get(document["state"], f"The index is {document['state']}.")


def stats(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The numbers that come first."""
    frames = document["frames"]
    return [
        ("files", f"{document['files']:,}"),
        ("folders", f"{document['directories']:,}"),
        ("size", size(document["bytes"])),
        ("frames", f"{frames['total']:,}"),
        ("fresh frames", f"{frames['fresh']:,}"),
        ("nodes covered", f"{document['coverage']['fresh_pct']} %"),
        ("hash", document["hash"]),
    ]


def type_rows(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Frames per type and state."""
    rows = [
        [on_screen(name), f"{counts['total']:,}", *(f"{counts[state]:,}" for state in _TYPE_STATES)]
        for name, counts in sorted(document["types"].items())
    ]
    return ["type", "frames", *_TYPE_STATES], rows


_NOTES: Final = {
    "stale": "with a note that is stale now",
    "fresh": "with a note that holds again",
    "orphaned": "gone from under a note",
    "carried": "to which a note came along",
}


def change_lists(difference: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Changed paths by kind of change; what a rename took along is told by the rename alone."""
    came = {each["new"] for each in difference["renamed"]}
    went = {each["old"] for each in difference["renamed"]}
    lists: list[tuple[str, list[tuple[str, ...]]]] = [
        ("added", [(one,) for one in difference["added"] if not _among(one, came)]),
        ("modified", [(one,) for one in difference["modified"]]),
        ("removed", [(one,) for one in difference["removed"] if not _among(one, went)]),
        ("renamed", [(each["old"], each["new"]) for each in difference["renamed"]]),
    ]
    for change, words in _NOTES.items():
        notes = [one for one in difference["notes"] if one["change"] == change]
        named = [f"{one['path']} ({one['type']} by {one['agent']})" for one in notes]
        lists.append((words, [(one,) for one in named]))
    return [(word, entries) for word, entries in lists if entries]


def _among(path: str, folders: set[str]) -> bool:
    return not folders.isdisjoint((path, *paths.ancestors(path)))


def weight(node: Mapping[str, Any]) -> int:
    """The area a node of the map asks for: by the root of its size, so that small files show."""
    if node.get("children"):
        return sum(map(weight, node["children"]))
    return isqrt(node["bytes"]) + int(node["nodes"])
