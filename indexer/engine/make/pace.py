"""How much of a long work is done at a time, where others wait for the same thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

FIRST: Final = 16
"""Frames of the first piece: nobody knows yet what one takes."""

SHORT: Final = 0.04
"""Seconds below which a piece was too short to be worth its transaction."""

LONG: Final = 0.08
"""Seconds above which somebody who waits may notice."""


class Pace:
    """The size of the next piece, by how long the ones before it took."""

    def __init__(self, monotonic: Callable[[], float], most: int) -> None:
        self.size = FIRST
        self._monotonic = monotonic
        self._most = most

    @contextlib.contextmanager
    def piece(self) -> Iterator[int]:
        """Do one piece of the size that this gives."""
        started = self._monotonic()
        yield self.size
        taken = self._monotonic() - started
        if taken > LONG:
            self.size = max(1, self.size // 2)
        elif taken < SHORT:
            self.size = min(self._most, 2 * self.size)
