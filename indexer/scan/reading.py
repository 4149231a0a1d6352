"""Reading one file so that a torn or foreign read is never taken for its content."""

from __future__ import annotations

import errno
import os
import stat as modes
from pathlib import Path
from typing import Final

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.errors import UncheckedError

PIECE: Final = 256 * 1024
# O_NONBLOCK: a FIFO put in the file's place must not hang the scan.
OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_ATTEMPTS: Final = 4


class TornReadError(UncheckedError):
    """The file changed each time while it was being read."""

    code = "torn_read"


# A bare tuple: it is made once per file of a scan.
Reading = tuple[ContentId, os.stat_result]
"""A file's content id together with the stat it belongs to."""


def hash_file(algorithm: WorkspaceHash, name: str, folder: int, seen: os.stat_result) -> Reading:
    """Hash a regular file of an open folder; `seen` is what lstat said before.

    The stat after the read must equal the one before it, inode included, so that a file that
    was replaced or written meanwhile is read again. Raises OSError as the system does.
    """
    for _ in range(_ATTEMPTS):
        size = seen.st_size
        descriptor = os.open(name, OPEN_FILE, dir_fd=folder)
        try:
            if size < PIECE:
                # One byte more than expected: a short answer is the end of the file.
                content = os.read(descriptor, size + 1)
                if len(content) == size:
                    content_id: ContentId | None = algorithm.of_file(content)
                else:
                    # Written meanwhile, or a file system that answers in smaller pieces.
                    content_id = _hash_pieces(algorithm, descriptor, size, content)
            else:
                content_id = _hash_pieces(algorithm, descriptor, size)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if content_id is not None and _same(seen, after):
            return content_id, seen
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not modes.S_ISREG(seen.st_mode):
            raise OSError(errno.ELOOP, "no longer a regular file", name)
    raise TornReadError(f"{name} keeps changing while it is read", hint="scan again later")


def _hash_pieces(
    algorithm: WorkspaceHash, descriptor: int, size: int, first: bytes = b""
) -> ContentId | None:
    """Hash a file piece by piece after `first`; None when there is more or less than `size`."""
    running, left = algorithm.running(), size - len(first)
    running.update(first)
    while left >= 0 and (piece := os.read(descriptor, PIECE)):
        running.update(piece)
        left -= len(piece)
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
