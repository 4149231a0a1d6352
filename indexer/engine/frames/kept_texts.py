"""Bodies that questions show again and again, by their hashes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from indexer.core.frames import BodyHash

KEPT: Final = 1 << 20
"""Characters of the texts that are kept for the next question."""


class KeptTexts:
    """The texts that were read last, until they are too long together."""

    def __init__(self, read: Callable[[Iterable[BodyHash]], dict[BodyHash, str]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._texts: dict[BodyHash, str] = {}
        self.size = 0
        """Characters that they have."""

    def of(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, str]:
        """The contents of some bodies, without those that are not there."""
        with self._lock:
            found = {content: self._texts.get(content) for content in wanted}
        known = {content: text for content, text in found.items() if text is not None}
        read = self._read([content for content in found if content not in known])
        size = sum(map(len, read.values()))
        with self._lock:
            if self.size + size > KEPT:
                self._texts, self.size = {}, 0
            if size <= KEPT:
                self._texts |= read
                self.size = sum(map(len, self._texts.values()))
        return known | read

    def clear(self) -> None:
        """Keep none of them."""
        with self._lock:
            self._texts, self.size = {}, 0
