"""How much memory the database may use: little at rest, a share of the machine while it is needed.

DuckDB keeps what it has read until its limit is reached, and a service runs for days: its limit at
rest is small. Texts are another matter: a look at a column takes as many of them at once as
there are in 2,048 rows, and a text can have a megabyte. Whoever needs room for that takes it for as
long as it lasts; what was kept in it is let go of afterwards. Of a small index all may be kept:
DuckDB gives everything back to the system at each change of its limit, and asks for it again.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from indexer.store.driver import duckdb
from indexer.store.parsed import parsed

AT_REST: Final = 32_000_000
"""Bytes that suffice for an index of 100,000 nodes; what a query needs beyond it is spilled."""

SERVED: Final = 16 << 20
"""Bytes at rest in a service, which keeps what it is asked for most in its own memory."""

KEPT_WHOLE: Final = 64 << 20
"""Bytes of an index that may be kept as a whole, so that its limit never changes."""

_SHARE: Final = 2
"""The database takes at most one part in so many of what there is."""

_PATIENCE: Final = 30.0
"""Seconds for which whoever needs room waits for those who read without."""

_PAUSE: Final = 0.01

_HEAPS: Final = -8
"""`M_ARENA_MAX` of glibc; other libraries have no such function, or do not know the number."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_LIMITS: Final = ("memory.max", "memory.limit_in_bytes")


class Room:
    """The limit of one open database, raised while somebody is inside."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        most: int,
        size: Callable[[], int],
        rest: int | None = None,
    ) -> None:
        self._cursor = connection.cursor()
        self._most, self._size, self._rest = most, size, rest
        self._limit = most
        """What was set last; a connection begins with the most."""
        self._inside = 0
        self._lock = threading.Lock()
        self._lower()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """While this lasts, the database may use as much as it ever may."""
        with self._lock:
            if not self._inside:
                self._raise()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._lower()

    def rest_with(self, rest: int) -> None:
        """Set how many bytes may be used at rest from now on."""
        with self._lock:
            self._rest = rest
            if not self._inside:
                self._lower()

    def close(self) -> None:
        """Let go of the connection."""
        self._cursor.close()

    def _raise(self) -> None:
        """Allow the most. That takes memory, too: where others have all of it, wait for them."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._set(self._most)
            except duckdb.OutOfMemoryException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def _lower(self) -> None:
        if self._size() > KEPT_WHOLE:
            # Refused while somebody outside reads more than that: whoever leaves next tries again.
            with contextlib.suppress(duckdb.Error):
                self._set(self._rest or AT_REST)

    def _set(self, limit: int) -> None:
        if limit != self._limit:
            self._cursor.execute(parsed(self._cursor, f"SET memory_limit = '{limit}B'"))
            self._limit = limit


def keep_one_heap() -> None:
    """Let all threads of this process, which has no other yet, take memory from one heap.

    Each would have one of its own, and what is freed in one is of no use to the others.
    """
    # Imported late: only the service itself.
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_HEAPS, 1)


def most_memory(group: Path | None = None) -> int:
    """Bytes that a database may use at most: a share of what this process can have at all."""
    there = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    there += [soft for soft, _ in (resource.getrlimit(resource.RLIMIT_AS),) if soft > 0]
    folder = group or _own_group()
    while folder is not None and folder.is_relative_to(_CGROUPS if group is None else group):
        there += _limits_in(folder)
        folder = folder.parent
    return max(AT_REST, min(there) // _SHARE)


def _own_group() -> Path | None:
    """The folder of the control group that this process is in."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                return _CGROUPS / controllers / path.lstrip("/")
    return None


def _limits_in(folder: Path) -> list[int]:
    found = []
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int((folder / name).read_text()))
    return found
