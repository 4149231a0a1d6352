"""Large files are read on a thread of their own: nobody who asks about others waits for them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.hashing import WorkspaceHash
from indexer.errors import UncheckedError
from indexer.scan.reading import Reading, TornReadError, hash_file, open_folder

LARGE: Final = 64 << 20
"""Bytes from which on a file is large: what a disk gives in a fraction of a second."""

BEING_READ: Final = "is being read"
"""How the remark on a file begins whose content is not known yet."""

_MOST_REST: Final = 60.0
"""Seconds that a file which keeps changing is left alone for at most."""

_SETTLE: Final = 0.05
"""Seconds after which a stamp tells any later write apart."""


class BeingReadError(UncheckedError):
    """The file is large; somebody reads it, and until then nobody knows what is in it."""

    code = "being_read"


class _LeftError(Exception):
    """Nobody wants to know any more."""


class _Asked(NamedTuple):
    """One reading of one file as it was."""

    path: str
    packed: bytes


class LargeFiles:
    """Reads what it is asked for one after the other, and tells when it is done."""

    def __init__(
        self, root: Path, algorithm: WorkspaceHash, on_read: Callable[[str], None]
    ) -> None:
        self._root = root
        self._algorithm = algorithm
        self._on_read = on_read
        self._lock = threading.Condition()
        self._wanted: dict[str, _Asked] = {}
        self._now: _Asked | None = None
        self._found: dict[str, tuple[_Asked, Reading | Exception]] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, path: str, seen: os.stat_result) -> Reading:
        """What was read of a file with this stat; raises BeingReadError until that is known."""
        asked = _Asked(path, filestat.pack(seen))
        with self._lock:
            known = self._found.get(path)
            if known is not None and known[0] == asked:
                if not isinstance(known[1], Exception):
                    # Kept: not every look is recorded, and the next one must not read it again.
                    return known[1]
                del self._found[path]
                raise known[1]
            if self._now != asked:
                self._wanted[path] = asked
                self._lock.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="merkle-large", daemon=True)
                self._thread.start()
        raise BeingReadError(f"{BEING_READ} ({seen.st_size} bytes)")

    def close(self) -> None:
        """Break off what is being read."""
        self._closed.set()
        with self._lock:
            self._lock.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        last, taken = "", 0.0
        while (asked := self._next()) is not None:
            if asked.path == last:
                # As long a rest as the work: it keeps changing.
                self._closed.wait(min(taken, _MOST_REST))
            started = time.monotonic()
            answer = self._answer(asked)
            last, taken = asked.path, time.monotonic() - started
            with self._lock:
                self._now = None
                if answer is not None:
                    self._found[asked.path] = (asked, answer)
            if answer is not None:
                self._on_read(asked.path)

    def _next(self) -> _Asked | None:
        with self._lock:
            while not self._wanted and not self._closed.is_set():
                self._lock.wait()
            if self._closed.is_set():
                return None
            self._now = self._wanted.pop(next(iter(self._wanted)))
            return self._now

    def _answer(self, asked: _Asked) -> Reading | Exception | None:
        """What is in a file that has the stat it was asked for with; None: nobody wants it."""
        try:
            self._closed.wait(_SETTLE)
            parent, name = paths.split(asked.path)
            folder = open_folder(self._root, parent)
            try:
                os_name, began = paths.text_to_os(name), time.time_ns()
                seen = os.stat(os_name, dir_fd=folder, follow_symlinks=False)
                if filestat.pack(seen) != asked.packed:
                    return TornReadError(f"{name} keeps changing while it is read")
                content_id, seen, is_open = hash_file(
                    self._algorithm, os_name, folder, seen,
                    between=lambda: self._check(asked), attempts=1,
                )  # fmt: skip
            finally:
                os.close(folder)
            return content_id, seen, is_open or filestat.is_racy(seen, began)
        except _LeftError:
            return None
        except (OSError, TornReadError) as error:
            return error

    def _check(self, asked: _Asked) -> None:
        if self._closed.is_set() or asked.path in self._wanted:
            raise _LeftError
