"""How fresh an answer is as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NOTHING: Final = "none"
"""The label of an answer without a single frame: nothing in it could be stale."""

RECORDED: Final = "recorded"
"""The label of what a session, a manifest or a past root holds, which was true when it was made."""

_WORST_FIRST: Final = ("unknown", "stale", "orphaned", "unmanaged", "fresh")
_STATES: Final = {"current": "fresh", "stale": "stale"}


def worst(labels: Iterable[str]) -> str:
    """The label for several frames together: that of the least fresh one."""
    present = set(labels)
    for label in _WORST_FIRST:
        if label in present:
            return label
    return "unknown" if present else NOTHING


def of_state(state: str) -> str:
    """The label for the index as a whole, from the state that `status` tells."""
    return _STATES.get(state, "unknown")
