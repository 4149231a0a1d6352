"""Time as a value passed in, so that tests and replays decide what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where wall-clock and monotonic time come from."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Nanoseconds since the epoch, as set."""
        return self._now_ns

    def monotonic(self) -> float:
        """The instant that `now_ns` tells, in seconds."""
        return self._now_ns / 1e9

    def advance(self, seconds: float) -> None:
        """Move the clock forward by some seconds."""
        self._now_ns += round(seconds * 1e9)


def iso_utc(ns: int) -> str:
    """An instant as ISO 8601 in UTC with microseconds, the form used in JSON."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
