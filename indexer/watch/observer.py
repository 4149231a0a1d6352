"""Elsewhere than Linux: watchdog's own recursive observer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from indexer.core import paths
from indexer.watch.watcher import Sink

# Without opened and closed-no-write: our own reading would keep the observer busy for ever.
_EVENTS: Final[list[type[FileSystemEvent]]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]


class ObserverWatcher(FileSystemEventHandler):
    """Watches everything below the root; what is ignored is dropped before any work."""

    def __init__(self, root: Path, cookies: Path, sink: Sink) -> None:
        self._root = os.fspath(root)
        self._cookies = os.fspath(cookies)
        self._sink = sink
        self._folders: set[str] = set()
        self._observer = Observer()
        self._observer.schedule(self, self._root, recursive=True, event_filter=_EVENTS)
        self._observer.start()

    @property
    def count(self) -> int:
        """How many folders of the workspace are watched."""
        return len(self._folders)

    @property
    def unwatched(self) -> int:
        """The observer does not tell."""
        return 0

    def add(self, path: str) -> None:
        """Nothing to do but count: the observer watches recursively."""
        self._folders.add(path)

    def retain(self, folder: str, wanted: Callable[[str], bool]) -> None:
        """Count only what is wanted."""
        self._folders = {
            path for path in self._folders if not paths.is_within(path, folder) or wanted(path)
        }

    def is_alive(self) -> bool:
        """Whether the observer and all its emitters run."""
        return self._observer.is_alive() and all(
            emitter.is_alive() for emitter in self._observer.emitters
        )

    def stop(self) -> None:
        """Stop the observer's threads."""
        self._observer.stop()
        self._observer.join(timeout=10)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Tell the sink about both ends of an event."""
        for raw in (event.src_path, event.dest_path):
            if raw:
                self._tell(os.fsdecode(raw), event)

    def _tell(self, full: str, event: FileSystemEvent) -> None:
        if os.path.dirname(full) == self._cookies:
            if isinstance(event, FileCreatedEvent):
                self._sink.cookie(os.path.basename(full))
            return
        if full == self._root:
            return
        path = paths.name_to_text(os.path.relpath(full, self._root))
        # A modified folder says nothing that its entries' own events do not say.
        if not isinstance(event, DirModifiedEvent):
            deep = event.is_directory and not isinstance(event, DirDeletedEvent)
            self._sink.changed(path, event.is_directory, deep)
