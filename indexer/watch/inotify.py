"""Linux: one inotify watch per folder of the tree, and none for ignored ones.

watchdog's own observer watches everything below a root, ignored folders included, holds moves
back for half a second, and walks new folders itself. Here the tree decides which folders are
watched, and the kernel is asked without a library: a service loads nothing else before its
watches are set, and takes over those of very many folders at once.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final

from indexer.core import paths
from indexer.watch.watcher import Sink

# The numbers of inotify(7).
_IN_MODIFY: Final = 0x2
_IN_ATTRIB: Final = 0x4
_IN_CLOSE_WRITE: Final = 0x8
_IN_MOVED_FROM: Final = 0x40
_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_IN_UNMOUNT: Final = 0x2000
_IN_Q_OVERFLOW: Final = 0x4000
_IN_IGNORED: Final = 0x8000
_IN_ONLYDIR: Final = 0x1000000
_IN_DONT_FOLLOW: Final = 0x2000000
_IN_ISDIR: Final = 0x40000000

_SELF: Final = _IN_DELETE_SELF | _IN_MOVE_SELF
_ARRIVED: Final = _IN_CREATE | _IN_MOVED_TO
_LEFT: Final = _IN_MOVED_FROM | _IN_DELETE
_MASK: Final = (
    _IN_MODIFY | _IN_CLOSE_WRITE | _IN_ATTRIB | _ARRIVED | _LEFT | _SELF | _IN_ONLYDIR
)  # fmt: skip
# A link inside the workspace is never followed; the workspace itself may be reached by one.
_MASK_INSIDE: Final = _MASK | _IN_DONT_FOLLOW

# What the parent's events tell: the folder has gone again, or its permissions keep us out.
_TOLD_BY_PARENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)

_HEADER: Final = struct.Struct("iIII")
"""What stands before a name: watch, kind of event, number of a move, and length of the name."""
_ROOM: Final = 1 << 17
"""Bytes of events that are read at once."""
_LONGEST_END: Final = 10.0
"""Seconds that a reader may take to end with what it is telling."""

_libc: Final = ctypes.CDLL(None, use_errno=True)
_inotify_init: Final = _libc.inotify_init1
_inotify_rm_watch: Final = _libc.inotify_rm_watch
inotify_add_watch: Final = _libc.inotify_add_watch
inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)


def _refused() -> OSError:
    """The error that the kernel has just refused a call with."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


class _Descriptor:
    """The kernel's descriptor, which watches are set on and events are read from."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self._inside = self._root + b"/"
        self.number: int = _inotify_init(os.O_CLOEXEC)
        if self.number == -1:
            raise _refused()

    def watch(self, path: str) -> int:
        """Watch a folder of the workspace; for the same folder the kernel gives the same number.

        A folder may be deleted and made anew before its last event was read: asking each time is
        the only way to know that the watch is on the folder that is there now.
        """
        if not path:
            return self.watch_place(self._root)
        return self.watch_place(self._inside + paths.text_to_bytes(path), _MASK_INSIDE)

    def watch_place(self, full: bytes, mask: int = _MASK) -> int:
        """Watch a folder that may be anywhere."""
        number: int = inotify_add_watch(self.number, full, mask)
        if number == -1:
            raise _refused()
        return number

    def drop(self, number: int) -> None:
        """Take a watch back; one that the kernel has dropped already is no mistake."""
        _inotify_rm_watch(self.number, number)

    def close(self) -> None:
        """Let go of all watches."""
        os.close(self.number)


class InotifyAhead:
    """Watches that another process sets on a descriptor that nobody reads yet."""

    def __init__(self, root: Path) -> None:
        self._descriptor: _Descriptor | None = _Descriptor(root)
        self.number = self._descriptor.number

    def add(self, path: str) -> int:
        """Watch a folder of the workspace."""
        assert self._descriptor is not None
        return self._descriptor.watch(path)

    def take(self) -> _Descriptor:
        """The descriptor, for who reads it from now on."""
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None
        return descriptor

    def discard(self) -> None:
        """Close it, unless somebody has it."""
        if self._descriptor is not None:
            self.take().close()


def _events(read: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The watch, the mask and the name of each event."""
    position = 0
    while position < len(read):
        wd, mask, _, length = _HEADER.unpack_from(read, position)
        position += _HEADER.size
        yield wd, mask, read[position : position + length].rstrip(b"\0")
        position += length


class InotifyWatcher:
    """Watches the folders it is told to, and tells a sink what happened in them."""

    def __init__(
        self,
        root: Path,
        cookies: Path,
        sink: Sink,
        ahead: InotifyAhead | None = None,
        watched: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        # One watch per path and one path per watch, always; a folder that two paths are given for
        # was moved, and is known by its last name.
        self._path_of = dict(zip(watched.values(), watched, strict=True))
        self._watch_of = dict(zip(self._path_of.values(), self._path_of, strict=True))
        self._unwatched: set[str] = set()
        self._descriptor = _Descriptor(root) if ahead is None else ahead.take()
        try:
            self._cookies = self._descriptor.watch_place(os.fsencode(cookies))
            self._ending = os.eventfd(0)
        except BaseException:
            self._descriptor.close()
            raise
        self._reader = threading.Thread(target=self._read, name="merkle-events", daemon=True)
        self._reader.start()

    @cached_property
    def _below(self) -> dict[str, set[str]]:
        """The watched folders directly in each folder: what leaves with it when it leaves.

        Put together when the first one comes or goes, which is after a service's first answer.
        """
        below: dict[str, set[str]] = {}
        for path in filter(None, self._watch_of):
            below.setdefault(paths.split(path)[0], set()).add(path)
        return below

    @property
    def count(self) -> int:
        """How many folders of the workspace are watched."""
        return len(self._watch_of)

    @property
    def unwatched(self) -> int:
        """How many folders could be read but not watched, mostly for lack of watches."""
        return len(self._unwatched)

    def add(self, path: str) -> None:
        """Watch a folder of the workspace."""
        with self._lock:
            try:
                wd = self._descriptor.watch(path)
            except OSError as error:
                self._drop([path])
                if not path or error.errno not in _TOLD_BY_PARENT:
                    self._unwatched.add(path)
                return
            self._unwatched.discard(path)
            if self._watch_of.get(path) != wd:
                # Another folder stands here now, or this one was known by another name.
                self._drop([path])
                self._unbind(wd)
                self._bind(path, wd)

    def retain(self, folder: str, wanted: Callable[[str], bool]) -> None:
        """Of a folder and all below it, keep watching only what is wanted."""
        with self._lock:
            known = [path for path in self._watch_of if paths.is_within(path, folder)]
            self._drop([path for path in known if not wanted(path)])
            self._unwatched = {
                path
                for path in self._unwatched
                if not paths.is_within(path, folder) or wanted(path)
            }

    def is_alive(self) -> bool:
        """Whether the reader thread runs."""
        return self._reader.is_alive()

    def stop(self) -> None:
        """Wait for the reader thread, and let go of all watches."""
        os.eventfd_write(self._ending, 1)
        self._reader.join(_LONGEST_END)
        if not self._reader.is_alive():
            self._descriptor.close()
            os.close(self._ending)

    # -- called by the reader thread

    def _read(self) -> None:
        """Read until told to end; a reader that dies says so, because silence looks like peace."""
        waiting = select.poll()
        waiting.register(self._descriptor.number, select.POLLIN)
        waiting.register(self._ending, select.POLLIN)
        try:
            while self._ending not in dict(waiting.poll()):
                for wd, mask, name in _events(os.read(self._descriptor.number, _ROOM)):
                    self.on_event(wd, mask, name)
        except Exception as error:
            self._sink.lost(f"the reader of events died: {error!r}")

    def on_event(self, wd: int, mask: int, name: bytes) -> None:
        """Turn one event into a path and tell the sink."""
        if mask & _IN_Q_OVERFLOW:
            self._sink.lost("the kernel's event queue overflowed")
            return
        if mask & _IN_IGNORED:
            # The kernel dropped the watch, because its folder is gone.
            with self._lock:
                self._unbind(wd)
            return
        if mask & _IN_UNMOUNT:
            self._sink.lost("a file system was unmounted")
            return
        if wd == self._cookies:
            if mask & _SELF:
                self._sink.lost("the folder of cookies was moved or deleted")
            elif mask & _ARRIVED:
                self._sink.cookie(os.fsdecode(name))
            return
        folder = self._path_of.get(wd)
        if folder is None:
            return
        if mask & _SELF:
            if not folder:
                self._sink.lost("the workspace folder itself was moved or deleted")
            return
        is_folder = bool(mask & _IN_ISDIR)
        if not name:
            # Permissions of the folder itself: its parent is told the same, the root has none.
            if not folder:
                self._sink.changed(folder, True, False)
            return
        path = paths.join(folder, paths.bytes_to_text(name))
        if is_folder and mask & _LEFT:
            self._forget(path)
        self._sink.changed(path, is_folder, is_folder and not mask & _IN_DELETE)

    def _forget(self, path: str) -> None:
        """Stop watching a folder that left, and everything below: its events would lie."""
        with self._lock:
            leaving, found = [path], []
            while leaving:
                found.append(leaving.pop())
                leaving.extend(self._below.get(found[-1], ()))
            self._drop(found)
            if self._unwatched:
                self._unwatched = {at for at in self._unwatched if not paths.is_within(at, path)}

    # -- with the lock held

    def _bind(self, path: str, wd: int) -> None:
        self._path_of[wd], self._watch_of[path] = path, wd
        if path:
            self._below.setdefault(paths.split(path)[0], set()).add(path)

    def _unbind(self, wd: int) -> None:
        path = self._path_of.pop(wd, None)
        if path is None:
            return
        del self._watch_of[path]
        parent = paths.split(path)[0]
        siblings = self._below.get(parent)
        if siblings is not None:
            siblings.discard(path)
            if not siblings:
                del self._below[parent]

    def _drop(self, leaving: Iterable[str]) -> None:
        """Take watches back; under the lock, so that no folder is bound to one that goes."""
        for path in leaving:
            if (wd := self._watch_of.get(path)) is not None:
                self._unbind(wd)
                self._descriptor.drop(wd)
