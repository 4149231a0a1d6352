"""Linux: one inotify watch per folder of the tree, and none for ignored ones.

watchdog's own observer watches everything below a root, ignored folders included, holds moves
back for half a second, and walks new folders itself. Here its descriptor and reader thread
(`InotifyFD`) are used, and the tree decides which folders are watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    Watch,
    WatchCallback,
    WatchDescriptor,
    inotify_add_watch,
)

from indexer.core import paths
from indexer.watch.watcher import Sink

# The library logs what we handle; a workspace with a full queue is told by its status.
logging.getLogger("watchdog.observers.inotify_c").setLevel(logging.ERROR)

_MASK: Final = Mask(
    InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVED_FROM
    | InotifyConstants.IN_MOVED_TO
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
)
# A link inside the workspace is never followed; the workspace itself may be reached by one.
_MASK_INSIDE: Final = Mask(_MASK | InotifyConstants.IN_DONT_FOLLOW)
_SELF: Final = InotifyConstants.IN_DELETE_SELF | InotifyConstants.IN_MOVE_SELF
_ARRIVED: Final = InotifyConstants.IN_CREATE | InotifyConstants.IN_MOVED_TO
_LEFT: Final = InotifyConstants.IN_MOVED_FROM | InotifyConstants.IN_DELETE
_ID: Final = CallbackId(1)

PRIVATE_NAMES: Final = {
    "_add_callback": "overridden: it is where the library refuses to watch a folder twice",
    "_inotify_fd": "read: the kernel's descriptor, to add a watch to",
    "_is_reading": "written: no reader was started, so closing need not wait for one",
    "_watch_for_wd": "read and filled: the library's own list of watches and their callbacks",
}
"""What `_Descriptor` takes from inside `InotifyFD`, and may change with any release of watchdog.

The version is therefore bound to the minor release that was tested, in pyproject.toml.
"""

# What the parent's events tell: the folder has gone again, or its permissions keep us out.
_TOLD_BY_PARENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)


class _Descriptor(InotifyFD):
    """The library's descriptor, except that watching a folder again is no mistake.

    A folder may be deleted and made anew before its last event was read: asking the kernel each
    time is the only way to know that the watch is on the folder that is there now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_death: Callable[[str], None] = lambda reason: None

    def run(self) -> None:
        """Read until stopped; a reader that dies says so, because silence looks like peace."""
        try:
            super().run()
        except Exception as error:
            self.on_death(f"the reader of events died: {error!r}")

    def discard(self) -> None:
        """Close a descriptor whose reader was never started."""
        self._is_reading = False
        self.close()

    def _add_callback(
        self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId
    ) -> WatchDescriptor:
        wd = self.watch(path, mask)
        self.take_over(wd, mask, callback, id_)
        return wd

    @property
    def number(self) -> int:
        """The kernel's descriptor."""
        return self._inotify_fd

    def watch(self, path: bytes, mask: Mask) -> WatchDescriptor:
        """Watch a folder, telling nobody yet."""
        wd = inotify_add_watch(self._inotify_fd, path, mask)
        if wd == -1:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return wd

    def take_over(
        self, wd: WatchDescriptor, mask: Mask, callback: WatchCallback, id_: CallbackId
    ) -> None:
        """Let somebody be told of a folder that is watched."""
        # The library has the path for debugging alone; we know it ourselves, and hold it once.
        watch = self._watch_for_wd.setdefault(wd, Watch(wd, mask, b""))
        watch.callbacks[id_] = callback


class InotifyAhead:
    """Watches that another process sets on a descriptor that nobody reads yet."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self._descriptor: _Descriptor | None = _Descriptor()
        self.number = self._descriptor.number

    def add(self, path: str) -> int:
        """Watch a folder of the workspace."""
        assert self._descriptor is not None
        return self._descriptor.watch(*_place(self._root, path))

    def take(self) -> _Descriptor:
        """The descriptor, for who reads it from now on."""
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None
        return descriptor

    def discard(self) -> None:
        """Close it, unless somebody has it."""
        if self._descriptor is not None:
            self.take().discard()


def _place(root: bytes, path: str) -> tuple[bytes, Mask]:
    """Where a folder is, and how it is watched."""
    raw = paths.text_to_bytes(path)
    return (b"%b/%b" % (root, raw), _MASK_INSIDE) if raw else (root, _MASK)


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
        self._root = os.fsencode(root)
        self._sink = sink
        self._lock = threading.Lock()
        # One watch per path and one path per watch, always.
        self._path_of: dict[WatchDescriptor, str] = {}
        self._watch_of: dict[str, WatchDescriptor] = {}
        self._below: dict[str, set[str]] = {}
        """The watched folders directly in each folder: what leaves with it when it leaves."""
        self._unwatched: set[str] = set()
        self._descriptor = _Descriptor() if ahead is None else ahead.take()
        self._descriptor.on_death = sink.lost
        try:
            self._cookies = self._descriptor.add_callback(os.fsencode(cookies), _MASK, self, _ID)
            for path, number in watched.items():
                wd = WatchDescriptor(number)
                self._descriptor.take_over(wd, _MASK_INSIDE if path else _MASK, self, _ID)
                # A folder that has moved meanwhile is known by its last name, as when it is added.
                self._unbind(wd)
                self._bind(path, wd)
        except BaseException:
            self._descriptor.discard()
            raise
        self._descriptor.start()

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
        full, mask = _place(self._root, path)
        with self._lock:
            try:
                wd = self._descriptor.add_callback(full, mask, self, _ID)
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
        return self._descriptor.is_alive()

    def stop(self) -> None:
        """Close the descriptor and wait for the reader thread."""
        self._descriptor.stop()
        if threading.current_thread() is not self._descriptor:
            self._descriptor.join(timeout=10)

    # -- called by the reader thread

    def on_event(self, event: InotifyEvent) -> None:
        """Turn one event into a path and tell the sink."""
        mask = event.mask
        if mask & InotifyConstants.IN_UNMOUNT:
            self._sink.lost("a file system was unmounted")
            return
        if event.wd == self._cookies:
            if mask & _SELF:
                self._sink.lost("the folder of cookies was moved or deleted")
            elif mask & _ARRIVED:
                self._sink.cookie(os.fsdecode(event.name))
            return
        folder = self._path_of.get(event.wd)
        if folder is None:
            return
        if mask & _SELF:
            if not folder:
                self._sink.lost("the workspace folder itself was moved or deleted")
            return
        is_folder = bool(mask & InotifyConstants.IN_ISDIR)
        if not event.name:
            # Permissions of the folder itself: its parent is told the same, the root has none.
            if not folder:
                self._sink.changed(folder, True, False)
            return
        path = paths.join(folder, paths.bytes_to_text(event.name))
        if is_folder and mask & _LEFT:
            self._forget(path)
        self._sink.changed(path, is_folder, is_folder and not mask & InotifyConstants.IN_DELETE)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """The kernel dropped a watch, because its folder is gone."""
        with self._lock:
            self._unbind(wd)

    def on_queue_overflow(self) -> None:
        """The kernel dropped events."""
        self._sink.lost("the kernel's event queue overflowed")

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

    def _bind(self, path: str, wd: WatchDescriptor) -> None:
        self._path_of[wd], self._watch_of[path] = path, wd
        if path:
            self._below.setdefault(paths.split(path)[0], set()).add(path)

    def _unbind(self, wd: WatchDescriptor) -> None:
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
        watches = [self._watch_of[path] for path in leaving if path in self._watch_of]
        for wd in watches:
            self._unbind(wd)
        with contextlib.suppress(OSError):
            self._descriptor.remove_callbacks([(wd, _ID) for wd in watches])
