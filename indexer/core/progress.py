"""How far long work has come: told by whoever does it, read by whoever waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")

Progress = Callable[[int], None]
"""Told how many more are done. One that is a `Meter` is also told of what, and of how many."""


class Reading(NamedTuple):
    """What is being done at a moment."""

    doing: str = ""
    """In words for people; empty before the work has begun."""
    what: str = ""
    """What is counted; empty where nothing is."""
    done: int = 0
    total: int | None = None
    """None where nobody can know it yet."""
    seconds: float = 0.0
    """How long it has been going on."""

    @property
    def amount(self) -> str:
        """`12 of 340 files`, as far as it is known; empty where nothing is counted."""
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{self.done:,}{of} {self.what}" if self.what else ""

    @property
    def rate(self) -> float:
        """How many a second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that are left at this rate; None where that cannot be told."""
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.done) / self.rate


class Meter:
    """Counts what one piece of work after the other has done; read on any thread meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        # Replaced as a whole, so that whoever reads it never sees half of it.
        self._reading = Reading()

    def begin(self, doing: str, what: str = "", total: int | None = None, done: int = 0) -> None:
        """The next piece of work, with what is counted and how many there are."""
        self._began = self._clock()
        self._reading = Reading(doing, what, done, total)

    def __call__(self, more: int) -> None:
        """Count what is done; what has come since it was counted makes the total more."""
        now = self._reading
        done = now.done + more
        total = None if now.total is None else max(now.total, done)
        self._reading = now._replace(done=done, total=total)

    def end(self) -> None:
        """Nothing is being done any more."""
        self._reading = Reading()

    def read(self) -> Reading:
        """How far it is."""
        return self._reading._replace(seconds=self._clock() - self._began)

    def show(self, reading: Reading) -> None:
        """Take over what another meter read, elsewhere."""
        self._began = self._clock() - reading.seconds
        self._reading = reading


def meter_of(progress: Progress | None) -> Meter | None:
    """The meter that is told; None where a plain function is, which takes numbers, or nobody."""
    return progress if isinstance(progress, Meter) else None


def begin(progress: Progress | None, doing: str, what: str = "", total: int | None = None) -> None:
    """Tell whoever wants to know more than numbers what is done from here on."""
    meter = meter_of(progress)
    if meter is not None:
        meter.begin(doing, what, total)


def counted(things: Iterable[T], progress: Progress | None) -> Iterator[T]:
    """Pass things on, and count each one when the next is asked for."""
    for each in things:
        yield each
        if progress is not None:
            progress(1)
