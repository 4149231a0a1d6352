"""How often heads have moved, and which ones did of late."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

_REMEMBERED: Final = 256
"""How many batches back it is known which heads they moved."""


class HeadVersions:
    """Counts the changes of heads; the writing thread adds to it, and others read."""

    def __init__(self) -> None:
        self.now = 0
        self._stepping = threading.Lock()
        """Held for moments only."""
        self._steps: deque[frozenset[str]] = deque(maxlen=_REMEMBERED)
        """The paths whose heads moved, one set per version, newest last."""

    def step(self, moved: frozenset[str] | None) -> None:
        """The next version, and which paths it moved; None when that is not known."""
        with self._stepping:
            if moved is None:
                self._steps.clear()
            else:
                self._steps.append(moved)
            self.now += 1

    def moved_since(self, version: int) -> set[str] | None:
        """The paths whose heads moved after a version; None when that is too long ago."""
        with self._stepping:
            steps = self.now - version
            if steps > len(self._steps):
                return None
            return {
                path for moved in list(self._steps)[len(self._steps) - steps :] for path in moved
            }
