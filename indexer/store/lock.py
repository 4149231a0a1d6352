"""The owner's lock: at most one process has the database open at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Final

from indexer.errors import LockedError, UncheckedError
from indexer.store.own_folder import PRIVATE_FILE, open_own_file, own_folder, read_own_file

DEFAULT_WAIT: Final = 30.0
"""Seconds a command waits for another one to let go of the index."""


_LOOKS: Final = 20
"""How often the name of a holder is looked for."""


class OwnerLock:
    """An flock on `.merkle/lock`, taken before the database is opened."""

    def __init__(self, path: Path, role: str) -> None:
        self._path = path
        self._role = role
        self._descriptor: int | None = None
        self.read_only = False
        """Whether nothing can be written here: then it is shared with others who only read."""

    def acquire(self, wait: float) -> None:
        """Take the lock, trying again for up to `wait` seconds; then name the holder."""
        deadline = time.monotonic() + wait
        pause = 0.005
        while not self._try():
            if time.monotonic() >= deadline:
                raise locked_by(self._holder())
            # Imported late: most find it free.
            import random

            # Jitter, so that ten waiting commands do not knock in step.
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, 0.1)

    def _try(self) -> bool:
        try:
            with own_folder(self._path.parent) as folder:
                descriptor = self._open(folder)
        except OSError as error:
            raise UncheckedError(
                f"cannot open {self._path}: {error.strerror or error}",
                hint="merkle needs to write in .merkle to work with the index",
            ) from error
        try:
            how = fcntl.LOCK_SH if self.read_only else fcntl.LOCK_EX
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        if not self.read_only:
            # Only a name for others to be told; on a full disk there is no room for it.
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, PRIVATE_FILE)
                os.ftruncate(descriptor, 0)
                note = json.dumps({"pid": os.getpid(), "role": self._role})
                os.pwrite(descriptor, note.encode(), 0)
        return True

    def _open(self, folder: int) -> int:
        self.read_only = False
        try:
            return open_own_file(folder, self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            self.read_only = True
            return open_own_file(folder, self._path, os.O_RDONLY)

    def _holder(self) -> tuple[int, str] | None:
        """Who holds it; whoever has just taken it may not have written its name yet."""
        for _ in range(_LOOKS):
            found = holder(self._path)
            if found is not None:
                return found
            time.sleep(0.01)
        return None

    def identity(self) -> tuple[int, int]:
        """Device and inode of the lock file that is held."""
        assert self._descriptor is not None
        stat = os.fstat(self._descriptor)
        return stat.st_dev, stat.st_ino

    def release(self) -> None:
        """Let go; harmless when not held."""
        if self._descriptor is not None:
            if not self.read_only:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> OwnerLock:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


SERVICE_ROLE: Final = "watch"
"""The role of an owner that stays: there is no waiting for it."""


def holder(path: Path) -> tuple[int, str] | None:
    """Pid and role of whoever wrote its name into the lock file last."""
    try:
        note = json.loads(read_own_file(path))
        return int(note["pid"]), str(note["role"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def locked_by(who: tuple[int, str] | None) -> LockedError:
    """The error for a lock that somebody else holds."""
    if who is None:
        return LockedError(
            "another process is using this index", hint="try again when it has finished"
        )
    pid, role = who
    stop = f"`kill {pid}`"
    return LockedError(
        f"the index is in use by process {pid} ({role})",
        hint=f"other commands use it by themselves; {stop} stops it"
        if role == SERVICE_ROLE
        else f"wait for it, or stop it with {stop}",
    )
