"""Frames on a terminal: how fresh they are and why, and bodies that cannot harm it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from indexer.cli.columns import counted
from indexer.core.paths import on_screen

_COLOURS: Final = {
    "fresh": "green",
    "stale": "yellow",
    "orphaned": "magenta",
    "unmanaged": "blue",
    "unknown": "red",
}

_WHO_MAKES_THEM: Final = "`merkle regenerate` or a running service makes them"


def state(freshness: str) -> str:
    """The word for a freshness, in its colour."""
    return click.style(on_screen(freshness), fg=_COLOURS.get(freshness, "red"))


def freshness(frame: Mapping[str, Any]) -> str:
    """The state of a frame with the reason for it."""
    because = frame["because"]
    return state(frame["freshness"]) + (f" ({on_screen(because)})" if because else "")


def about(frame: Mapping[str, Any]) -> str:
    """What of its file a note is about, as `::Gauge.read, line 12`; nothing for all of it."""
    if frame.get("symbol") is None:
        return ""
    line = "" if frame["line"] is None else f", line {frame['line']}"
    return f"::{on_screen(frame['symbol'])}{line}"


def body(content: str, indent: str = "  ") -> str:
    """A body with its lines as they are and everything else made safe.

    Indented, so that no body can pass for the heading of another frame.
    """
    lines = content.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return "\n".join((indent + on_screen(line)).rstrip() for line in lines)


def moment(stamp: str) -> str:
    """A time to the second."""
    return on_screen(stamp).replace("T", " ")[:19]


def not_made(missing: int, by: str = _WHO_MAKES_THEM) -> str:
    """What to say of frames that declared types ask for and that nobody has made."""
    return f"{counted(missing, 'frame')} not made yet: {by}"


def counts(numbers: dict[str, int]) -> str:
    """`3 fresh, 1 stale`, leaving out the total and what there is none of."""
    kept = [(word, number) for word, number in numbers.items() if number and word != "total"]
    return ", ".join(f"{number:,} {state(word)}" for word, number in kept) or "none"
