"""Writing a file as a whole: a reader or a crash finds the old one or the new one, never half."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def write_atomically(
    target: Path,
    content: bytes,
    *,
    within: Path | None = None,
    mode: int | None = None,
    durable: bool = True,
) -> None:
    """Write a file as a whole; raises OSError and leaves the old one where it cannot.

    One that is not durable may be empty after a power cut, and costs no sync.
    """
    with replacing(target, within=within, mode=mode, durable=durable) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(
    target: Path, *, within: Path | None = None, mode: int | None = None, durable: bool = True
) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the target's place, and its permissions, when it is whole.

    It is written beside the target, or in another folder of the same file system. A target that
    is a link is replaced itself, not what it points to. With `mode` its permissions are these.
    """
    temporary = (within or target.parent) / f".merkle-{os.urandom(8).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o666 if mode is None else mode), "wb") as file:
        try:
            if mode is None:
                _take_permissions(file.fileno(), target)
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    if durable:
        sync_folder(target.parent)


def _take_permissions(descriptor: int, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(target).st_mode
        if stat.S_ISREG(mode):
            os.fchmod(descriptor, mode & 0o777)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
