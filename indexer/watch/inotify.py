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
from pathlib import Path
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
from indexer.watch.sink import Sink

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
    | InotifyConstants.IN_DONT_FOLLOW
    | InotifyConstants.IN_ONLYDIR
)
_SELF: Final = InotifyConstants.IN_DELETE_SELF | InotifyConstants.IN_MOVE_SELF
_ARRIVED: Final = InotifyConstants.IN_CREATE | InotifyConstants.IN_MOVED_TO
_LEFT: Final = InotifyConstants.IN_MOVED_FROM | InotifyConstants.IN_DELETE
_ID: Final = CallbackId(1)


class _Descriptor(InotifyFD):
    """The library's descriptor, except that watching a folder again is no mistake.

    A folder may be deleted and made anew before its last event was read: asking the kernel each
    time is the only way to know that the watch is on the folder that is there now.
    """

    def _add_callback(
        self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId
    ) -> WatchDescriptor:
        wd = inotify_add_watch(self._inotify_fd, path, mask)
        if wd == -1:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        watch = self._watch_for_wd.setdefault(wd, Watch(wd, mask, path))
        watch.callbacks[id_] = callback
        return wd


class InotifyWatcher:
    """Watches the folders it is told to, and tells a sink what happened in them."""

    def __init__(self, root: Path, cookies: Path, sink: Sink) -> None:
        self._root = os.fsencode(root)
        self._sink = sink
        self._lock = threading.Lock()
        self._path_of: dict[WatchDescriptor, str] = {}
        self._watch_of: dict[str, WatchDescriptor] = {}
        self._unwatched: set[str] = set()
        self._descriptor = _Descriptor()
        self._cookies = self._descriptor.add_callback(os.fsencode(cookies), _MASK, self, _ID)
        self._descriptor.start()

    @property
    def count(self) -> int:
        """How many folders of the workspace are watched."""
        return len(self._watch_of)

    @property
    def unwatched(self) -> int:
        """How many folders could not be watched, for lack of watches or of permission."""
        return len(self._unwatched)

    def add(self, path: str) -> None:
        """Watch a folder of the workspace."""
        raw = paths.text_to_bytes(path)
        full = os.path.join(self._root, raw) if raw else self._root
        with self._lock:
            try:
                wd = self._descriptor.add_callback(full, _MASK, self, _ID)
            except OSError as error:
                # A folder that has gone again is told by its parent's events.
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    self._unwatched.add(path)
                return
            self._unwatched.discard(path)
            stale = self._path_of.get(wd)
            if stale is not None and self._watch_of.get(stale) == wd:
                del self._watch_of[stale]
            self._path_of[wd] = path
            self._watch_of[path] = wd

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
        if event.wd == self._cookies:
            if event.mask & _ARRIVED:
                self._sink.cookie(os.fsdecode(event.name))
            return
        folder = self._path_of.get(event.wd)
        if folder is None:
            return
        mask = event.mask
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
            path = self._path_of.pop(wd, None)
            if path is not None and self._watch_of.get(path) == wd:
                del self._watch_of[path]

    def on_queue_overflow(self) -> None:
        """The kernel dropped events."""
        self._sink.lost("the kernel's event queue overflowed")

    def _forget(self, path: str) -> None:
        """Stop watching a folder that left, and everything below: its events would lie."""
        prefix = path + "/"
        with self._lock:
            gone = [known for known in self._watch_of if known == path or known.startswith(prefix)]
            watches = [self._watch_of.pop(known) for known in gone]
            for wd in watches:
                self._path_of.pop(wd, None)
        with contextlib.suppress(OSError):
            self._descriptor.remove_callbacks([(wd, _ID) for wd in watches])
