"""What failed is left alone for a while, for longer each time."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

FIRST_REST: Final = 30.0
LONGEST_REST: Final = 3600.0
"""Seconds that something rests after its first failure, and after many."""


class Backoff:
    """Remembers what failed, as long as the process lives; a success forgets it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[Hashable, tuple[float, float]] = {}
        """When each may be tried again, and how long it rested last."""
        self._taken_up: set[Hashable] = set()
        """What has rested enough, and for which nobody has to be woken."""

    def failed(self, what: Hashable) -> None:
        """Let what failed rest from now on."""
        _, last = self._rests.get(what, (0.0, FIRST_REST / 2))
        rest = min(2 * last, LONGEST_REST)
        self._rests[what] = (self._clock() + rest, rest)
        self._taken_up.discard(what)

    def worked(self, what: Hashable) -> None:
        """Forget the failures of what worked now."""
        self._rests.pop(what, None)

    def rests(self, what: Hashable) -> bool:
        """Whether it is to be left alone now."""
        until, _ = self._rests.get(what, (0.0, 0.0))
        return self._clock() < until

    def forget(self) -> None:
        """Let everything be tried again: something changed that the failures may hang on."""
        self._rests.clear()

    def next_at(self) -> float | None:
        """When the first of what rests, and was not taken up since, may be tried again."""
        return min(
            (until for what, (until, _) in self._rests.items() if what not in self._taken_up),
            default=None,
        )

    def take_up(self) -> None:
        """Begin to try what has rested, and forget what nobody tried for long."""
        now = self._clock()
        self._rests = {
            what: (until, rest)
            for what, (until, rest) in self._rests.items()
            if until > now - LONGEST_REST
        }
        self._taken_up = {what for what, (until, _) in self._rests.items() if until <= now}
