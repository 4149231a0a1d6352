"""How fresh an answer is as a whole, and what keeps it within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Document = dict[str, Any]

NOTHING: Final = "none"
"""The label of an answer without a single frame: nothing in it could be stale."""

RECORDED: Final = "recorded"
"""The label of what a session, a manifest or a past root holds: true of its own moment."""

_WORST_FIRST: Final = ("unknown", "stale", "orphaned", "unmanaged", "fresh")
_STATES: Final = {"current": "fresh", "stale": "stale"}
LONGEST: Final = 500
"""Entries of the longest list in an answer."""


def worst(labels: Iterable[str]) -> str:
    """The label for several frames together: that of the one to trust least."""
    present = set(labels)
    for label in _WORST_FIRST:
        if label in present:
            return label
    return "unknown" if present else NOTHING


def of_state(state: str) -> str:
    """The label for the index as a whole, from the state that `status` tells."""
    return _STATES.get(state, "unknown")


def bounded(document: Document, *names: str, most: int = LONGEST) -> Document:
    """The document with its long lists cut; `cut` then tells how many entries each had."""
    cut: Document = {}
    for name in names:
        if len(document[name]) > most:
            cut[name] = len(document[name])
            document[name] = document[name][:most]
    if cut:
        document["cut"] = cut
    return document


def within_tokens(frames: list[Document], budget: int) -> list[Document]:
    """Frames in their order, without the content of those that do not fit any more."""
    kept = []
    for frame in frames:
        fits = frame["tokens"] <= budget
        if fits:
            budget -= frame["tokens"]
        kept.append(frame if fits else {**frame, "content": None, "left_out": "max_tokens"})
    return kept
