"""Which mounts a workspace lies on, and whether changes there are told at all."""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core import paths

TABLE: Final = "/proc/self/mountinfo"
"""Where the kernel tells its mounts; other systems have no such file, and nothing is told."""

_SILENT: Final = re.compile(
    r"fuse.*|nfs\d?|cifs|smb.*|ncpfs|9p|virtiofs|drvfs|afs|ceph|coda|glusterfs|lustre|beegfs"
    r"|orangefs|gfs2|ocfs2|vboxsf|vmhgfs|prl_fs"
)
"""File systems whose files others change without the kernel here taking part."""

_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def is_silent(kind: str) -> bool:
    """Whether files on a file system of that type can change without an event here."""
    return _SILENT.fullmatch(kind) is not None


class Mounts:
    """The mounts at, around and below a workspace, as they were when last read."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(os.path.realpath(root))
        self._lock = threading.Lock()
        self._table: int | None = None
        self._poll = select.poll()
        self._known: dict[str, _Mount] = {}
        """The mounts by their paths in the workspace; the root's is empty."""
        self.silent: str | None = None
        """Why events cannot be relied on: the first place that does not tell of changes."""
        with contextlib.suppress(OSError):
            self._table = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
            # The kernel marks the open table when it changes.
            self._poll.register(self._table, select.POLLPRI)
        self.have_changed()

    def have_changed(self) -> bool:
        """Whether something was mounted or unmounted here since the last call."""
        with self._lock:
            if self._table is None or (self._known and not self._poll.poll(0)):
                return False
            before, self._known = self._known, self._read(self._table)
            if before != self._known:
                self.silent = self._why_silent()
            return before != self._known

    def _why_silent(self) -> str | None:
        known = sorted(self._known.items())
        for place, (kind, _, _, _) in known:
            if is_silent(kind):
                where = f"below {paths.on_screen(place)}" if place else "in this workspace"
                return f"no events tell what others change {where}, a file system of type {kind}"
        for (_, one), (place, other) in combinations(known, 2):
            if one.shows_some_of(other):
                # The kernel watches a folder once, and tells of it by one of its names.
                return f"what is mounted at {paths.on_screen(place)} is here by another name too"
        return None

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            if self._table is not None:
                os.close(self._table)
                self._table = None

    def _read(self, table: int) -> dict[str, _Mount]:
        """What the root is on, and what is mounted below."""
        os.lseek(table, 0, os.SEEK_SET)
        pieces = []
        while piece := os.read(table, 1 << 16):
            pieces.append(piece)
        found: dict[str, _Mount] = {}
        around = b""
        for line in b"".join(pieces).splitlines():
            place, mount = _parsed(line)
            if _is_within(self._root, place) and len(place) >= len(around):
                # The innermost one counts, and of several at one place the last.
                inside = self._root[len(place.rstrip(b"/")) :]
                shown = (mount.shown.rstrip(b"/") + inside) or b"/"
                around, found[paths.ROOT] = place, mount._replace(shown=shown)
            elif place.startswith(self._root.rstrip(b"/") + b"/"):
                below = place[len(self._root.rstrip(b"/")) + 1 :]
                found[paths.bytes_to_text(below)] = mount
        return found


class _Mount(NamedTuple):
    """One line of the table, as far as it matters here."""

    kind: str
    """The type of the file system."""
    number: bytes
    """What tells one mount from the next."""
    device: bytes
    shown: bytes
    """Which folder of the file system, or which file, is to be seen here."""

    def shows_some_of(self, other: _Mount) -> bool:
        """Whether a file is to be seen through both."""
        return self.device == other.device and (
            _is_within(self.shown, other.shown) or _is_within(other.shown, self.shown)
        )


def _parsed(line: bytes) -> tuple[bytes, _Mount]:
    """The place of one line of the table, and what is mounted there."""
    before, _, after = line.partition(b" - ")
    number, _, device, shown, place = before.split(b" ")[:5]
    kind = os.fsdecode(after.split(b" ")[0])
    return _plain(place), _Mount(kind, number, device, _plain(shown))


def _plain(text: bytes) -> bytes:
    return _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), text)


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")
