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


class _UnwantedError(Exception):
    """Breaks a reading off whose outcome nobody wants any more."""


class _Wanted(NamedTuple):
    """A file that is to be read, with the stat that it had."""

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
        self._wanted: dict[str, _Wanted] = {}
        self._now: _Wanted | None = None
        self._found: dict[str, tuple[_Wanted, Reading | Exception]] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, path: str, seen: os.stat_result) -> Reading:
        """What was read of a file with this stat; raises BeingReadError until that is known."""
        wanted = _Wanted(path, filestat.pack(seen))
        with self._lock:
            known = self._found.get(path)
            if known is not None and known[0] == wanted:
                if not isinstance(known[1], Exception):
                    # Kept: not every look is recorded, and the next one must not read it again.
                    return known[1]
                del self._found[path]
                raise known[1]
            if self._now != wanted:
                self._wanted[path] = wanted
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
        while (wanted := self._next()) is not None:
            if wanted.path == last:
                # As long a rest as the work: it keeps changing.
                self._closed.wait(min(taken, _MOST_REST))
            started = time.monotonic()
            outcome = self._read(wanted)
            last, taken = wanted.path, time.monotonic() - started
            with self._lock:
                self._now = None
                if outcome is not None:
                    self._found[wanted.path] = (wanted, outcome)
            if outcome is not None:
                self._on_read(wanted.path)

    def _next(self) -> _Wanted | None:
        with self._lock:
            while not self._wanted and not self._closed.is_set():
                self._lock.wait()
            if self._closed.is_set():
                return None
            self._now = self._wanted.pop(next(iter(self._wanted)))
            return self._now

    def _read(self, wanted: _Wanted) -> Reading | Exception | None:
        """What is in a file that still has the stat it had; None where nobody wants it any more."""
        try:
            self._closed.wait(_SETTLE)
            parent, name = paths.split(wanted.path)
            folder = open_folder(self._root, parent)
            try:
                os_name, began = paths.text_to_os(name), time.time_ns()
                seen = os.stat(os_name, dir_fd=folder, follow_symlinks=False)
                if filestat.pack(seen) != wanted.packed:
                    return TornReadError(f"{name} keeps changing while it is read")
                content_id, seen, is_open = hash_file(
                    self._algorithm, os_name, folder, seen,
                    between=lambda: self._check(wanted), attempts=1,
                )  # fmt: skip
            finally:
                os.close(folder)
            return content_id, seen, is_open or filestat.is_racy(seen, began)
        except _UnwantedError:
            return None
        except (OSError, TornReadError) as error:
            return error

    def _check(self, wanted: _Wanted) -> None:
        if self._closed.is_set() or wanted.path in self._wanted:
            raise _UnwantedError
