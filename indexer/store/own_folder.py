"""`.merkle` as a folder that is no link, is this user's, and holds nothing that leads elsewhere.

It may have come with a clone or an archive. Whatever opens something in it asks here first, and
opens it relative to the folder that was looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from indexer.core import paths
from indexer.errors import UncheckedError

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600

OPEN_OWN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDERS: Final = frozenset(
    {"cookies", "journal", "journal.building", "journal.new", "quarantine", "spill"}
)
_LOOKED_INTO: Final = _FOLDERS - {"quarantine"}
"""Folders whose files are opened by name; what was put aside is not."""


class NotOursError(UncheckedError):
    """Something of `.merkle` leads elsewhere or belongs to somebody else; nothing was touched."""

    code = "not_ours"


@contextlib.contextmanager
def own_folder(folder: Path, *, look_over: bool = False) -> Iterator[int]:
    """A descriptor of a folder that is this user's; FileNotFoundError where there is none.

    With `look_over`, everything in it was looked at as well: that comes before any writing.
    """
    try:
        descriptor = os.open(folder, OPEN_OWN_FOLDER)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise _not_a_folder(folder) from error
    try:
        _refuse_foreign(folder, os.fstat(descriptor))
        if look_over:
            _look_over(folder, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _look_over(folder: Path, descriptor: int) -> None:
    with os.scandir(descriptor) as entries:
        for entry in entries:
            path = folder / entry.name
            # A file beside the one that it replaces comes and goes.
            with contextlib.suppress(FileNotFoundError):
                _refuse_kind(path, entry)
                _refuse_foreign(path, entry.stat(follow_symlinks=False))
                if entry.name in _LOOKED_INTO:
                    _look_into(path, os.open(entry.name, OPEN_OWN_FOLDER, dir_fd=descriptor))


def _look_into(folder: Path, descriptor: int) -> None:
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    _refuse_kind(folder / entry.name, entry)
    finally:
        os.close(descriptor)


def _refuse_kind(path: Path, entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        raise NotOursError(
            f"{_shown(path)} is a link; nothing was read or written through it", hint=_away(path)
        )
    is_folder = entry.is_dir(follow_symlinks=False)
    is_file = entry.is_file(follow_symlinks=False)
    if not (is_folder or is_file) or (is_file and entry.name in _FOLDERS):
        # Neither, where it has just gone: then this says so.
        entry.stat(follow_symlinks=False)
        raise NotOursError(f"{_shown(path)} is not what it should be", hint=_away(path))


def _refuse_foreign(path: Path, stat: os.stat_result) -> None:
    if stat.st_uid != os.getuid():
        raise NotOursError(
            f"{_shown(path)} belongs to another user (uid {stat.st_uid})",
            hint=f"run merkle as that user, or {_away(path)}",
        )


def _not_a_folder(folder: Path) -> NotOursError:
    kind = "a link" if os.path.islink(folder) else "no folder"
    return NotOursError(f"{_shown(folder)} is {kind}; nothing was touched", hint=_away(folder))


def _shown(path: Path) -> str:
    return paths.on_screen(paths.bytes_to_text(os.fsencode(path)))


def _away(path: Path) -> str:
    removed = "`rm`" if path.is_symlink() else "`rm -r`"
    return f"remove it with {removed} if you do not know it; it may have come with a clone"


def open_own_file(folder: int, path: Path, flags: int) -> int:
    """Open or make one of the folder's own files; refuses one that has another name elsewhere."""
    descriptor = os.open(path.name, flags | _OPEN_FILE, PRIVATE_FILE, dir_fd=folder)
    try:
        stat = os.fstat(descriptor)
        if not modes.S_ISREG(stat.st_mode) or stat.st_nlink > 1:
            raise NotOursError(
                f"{_shown(path)} is also a file elsewhere (a hard link); nothing was written",
                hint=f"stop what uses the index, then `rm {_shown(path)}`",
            )
        _refuse_foreign(path, stat)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_own_file(path: Path, *, look_over: bool = False) -> bytes:
    """What one of the folder's own files holds; OSError where it cannot be read."""
    with own_folder(path.parent, look_over=look_over) as folder:
        return read_in(folder, path.name)


def read_in(folder: int, name: str) -> bytes:
    """What a file in a folder that is this user's holds."""
    with open(os.open(name, os.O_RDONLY | _OPEN_FILE, dir_fd=folder), "rb") as file:
        return file.read()
