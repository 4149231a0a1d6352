"""Cookies: files whose events prove that everything written before them has been told."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from indexer.store.own_folder import PRIVATE_FILE


class Cookies:
    """The cookies that are under way, each with somebody who waits for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[str, threading.Event] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    @contextlib.contextmanager
    def sent(self) -> Iterator[threading.Event]:
        """Write a cookie; the event is set once it came by. OSError where it cannot be written."""
        name = f"{os.getpid()}-{next(self._numbers)}"
        path = self._folder / name
        seen = self._waiting[name] = threading.Event()
        if self._closed:
            seen.set()
        try:
            # One of a service with the same pid that was killed may be there.
            path.unlink(missing_ok=True)
            path.touch(mode=PRIVATE_FILE, exist_ok=False)
            yield seen
        finally:
            del self._waiting[name]
            with contextlib.suppress(OSError):
                path.unlink()

    def came_by(self, name: str) -> None:
        """The watcher saw a cookie."""
        seen = self._waiting.get(name)
        if seen is not None:
            seen.set()

    def release(self) -> None:
        """Events were lost, and a scan of everything follows: nobody has to wait for one."""
        for seen in list(self._waiting.values()):
            seen.set()

    def close(self) -> None:
        """Nobody looks for cookies any more, so nobody may wait for one."""
        self._closed = True
        self.release()
