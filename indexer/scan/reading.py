"""Reading one file so that a torn or foreign read is never taken for its content."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat as modes
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.errors import UncheckedError

if TYPE_CHECKING:
    from indexer.core.tree import Entry

PIECE: Final = 256 * 1024
# O_NONBLOCK: a FIFO put in the file's place must not hang the scan.
OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_ATTEMPTS: Final = 4

# A change is stamped when it begins: one long write, or pages that stay mapped, go on under the
# same stamp. The kernel writes mapped pages back, and stamps the next change, well within this.
_YOUNG_NS: Final = 60 * 1_000_000_000
# The same where the system does not tell who writes: then a file is read twice while it is young.
_YOUNG_UNTOLD_NS: Final = 2 * 1_000_000_000
_HARMLESS: Final = int(signal.SIGURG)


class TornReadError(UncheckedError):
    """The file changed each time while it was being read."""

    code = "torn_read"


# A bare tuple: it is made once per file of a scan.
Reading = tuple[ContentId, os.stat_result, bool]
"""A file's content id, the stat it belongs to, and whether somebody may still be writing it."""


Between = Callable[[], None]
"""Called between two pieces of a long file; what it raises breaks the reading off."""


def hash_file(
    algorithm: WorkspaceHash,
    name: str,
    folder: int,
    seen: os.stat_result,
    between: Between | None = None,
    attempts: int = _ATTEMPTS,
) -> Reading:
    """Hash a regular file of an open folder; `seen` is what lstat said before.

    The stat after the read must equal the one before it, inode included, so that a file that
    was replaced or written meanwhile is read again. Where somebody may be writing without that
    showing, it is read twice, and both must agree. Raises OSError as the system does.
    """
    for _ in range(attempts):
        size = seen.st_size
        descriptor = os.open(name, OPEN_FILE, dir_fd=folder)
        try:
            # Asked before the reading: whoever comes later leaves another stamp.
            open_to_others = _may_be_written(descriptor, seen)
            content_id = _hash_once(algorithm, descriptor, size, between)
            if open_to_others and modes.S_ISREG(os.fstat(descriptor).st_mode):
                os.lseek(descriptor, 0, os.SEEK_SET)
                if _hash_once(algorithm, descriptor, size, between) != content_id:
                    content_id = None
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if content_id is not None and _same(seen, after):
            return content_id, seen, open_to_others
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not modes.S_ISREG(seen.st_mode):
            raise OSError(errno.ELOOP, "no longer a regular file", name)
    raise TornReadError(f"{name} keeps changing while it is read", hint="scan again later")


def _may_be_written(descriptor: int, seen: os.stat_result) -> bool:
    """Whether a file that changed lately is open, or mapped, for writing."""
    age = time.time_ns() - max(seen.st_mtime_ns, seen.st_ctime_ns)
    if age > _YOUNG_NS:
        return False
    if not hasattr(fcntl, "F_SETLEASE"):
        return age <= _YOUNG_UNTOLD_NS
    control = fcntl.fcntl
    try:
        # A lease for reading is given only where nobody has the file open for writing. Who
        # opens it in the moment it is held sends us a signal: one that does nothing.
        control(descriptor, fcntl.F_SETSIG, _HARMLESS)
        control(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        control(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        # Somebody else's files, and some file systems, give no leases.
        return error.errno == errno.EAGAIN or age <= _YOUNG_UNTOLD_NS
    return False


def _hash_once(
    algorithm: WorkspaceHash, descriptor: int, size: int, between: Between | None
) -> ContentId | None:
    """Hash a file from where its descriptor stands; None when it has not that size."""
    if size >= PIECE:
        return _hash_pieces(algorithm, descriptor, size, between)
    # One byte more than expected: a short answer is the end of the file.
    content = os.read(descriptor, size + 1)
    if len(content) == size:
        return algorithm.of_file(content)
    # Written meanwhile, or a file system that answers in smaller pieces.
    return _hash_pieces(algorithm, descriptor, size, between, content)


def _hash_pieces(
    algorithm: WorkspaceHash,
    descriptor: int,
    size: int,
    between: Between | None,
    first: bytes = b"",
) -> ContentId | None:
    """Hash a file piece by piece after `first`; None when there is more or less than `size`."""
    running, left = algorithm.running(), size - len(first)
    running.update(first)
    while left >= 0 and (piece := os.read(descriptor, PIECE)):
        running.update(piece)
        left -= len(piece)
        if between is not None:
            between()
    return ContentId(running.digest()) if left == 0 else None


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (
        before.st_mtime_ns == after.st_mtime_ns
        and before.st_ctime_ns == after.st_ctime_ns
        and before.st_ino == after.st_ino
        and before.st_size == after.st_size
        # A FIFO may get the inode of the file it replaced, within one tick of the clock.
        and modes.S_ISREG(after.st_mode)
    )


def open_folder(root: Path, path: str) -> int:
    """A descriptor of a folder of the workspace, reached without following any link inside it."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not path:
        return descriptor
    for name in path.split("/"):
        try:
            below = os.open(paths.text_to_os(name), OPEN_FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


@contextlib.contextmanager
def opened(descriptor: int) -> Iterator[int]:
    """A descriptor that is closed in the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_bytes(name: str, folder: int, limit: int) -> bytes | None:
    """The content of a small regular file of an open folder, or None when there is none."""
    try:
        descriptor = os.open(name, OPEN_FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        if not modes.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        pieces, total = [], 0
        while total <= limit and (piece := os.read(descriptor, PIECE)):
            pieces.append(piece)
            total += len(piece)
        return b"".join(pieces)[:limit]
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_recorded(root: Path, algorithm: WorkspaceHash, path: str, entry: Entry) -> bytes | None:
    """A file's bytes, if they are what is recorded; None where they are not, or cannot be read."""
    try:
        content = read_content(root, path, entry.size)
    except OSError:
        return None
    same = content is not None and algorithm.of_file(content) == entry.content_id
    return content if same else None


def read_content(root: Path, path: str, size: int) -> bytes | None:
    """A file's bytes, reached without following any link; None when it has another size."""
    parent, name = paths.split(path)
    folder = open_folder(root, parent)
    try:
        descriptor = os.open(paths.text_to_os(name), OPEN_FILE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        state = os.fstat(descriptor)
        if not modes.S_ISREG(state.st_mode) or state.st_size != size:
            return None
        pieces, left = [], size
        while left > 0 and (piece := os.read(descriptor, left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
