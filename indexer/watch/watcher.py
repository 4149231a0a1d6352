"""What a watcher is, what it tells, and which one this platform gets."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol


class Sink(Protocol):
    """Takes what a watcher noticed; called on the watcher's thread, must be quick, never raises."""

    def changed(self, path: str, is_folder: bool, deep: bool) -> None:
        """Something may have happened at a path; `deep`: also anywhere below it."""
        ...

    def cookie(self, name: str) -> None:
        """A cookie file came by: every event before it has been told."""
        ...

    def lost(self, reason: str) -> None:
        """Events were lost; nothing short of a scan can tell what they were."""
        ...


class Watcher(Protocol):
    """Watches folders until it is stopped."""

    @property
    def count(self) -> int:
        """How many folders are watched."""
        ...

    @property
    def unwatched(self) -> int:
        """How many folders could be read but not watched."""
        ...

    def add(self, path: str) -> None:
        """Watch a folder; harmless to repeat."""
        ...

    def retain(self, folder: str, wanted: Callable[[str], bool]) -> None:
        """Of a folder and all below it, keep watching only what is wanted."""
        ...

    def is_alive(self) -> bool:
        """Whether events can still arrive."""
        ...

    def stop(self) -> None:
        """Stop watching and let go of everything."""
        ...


class WatchesAhead(Protocol):
    """Watches that are set before there is anybody to tell."""

    @property
    def number(self) -> int:
        """The descriptor that another process needs to set them."""
        ...

    def add(self, path: str) -> int:
        """Watch a folder; gives the number of the watch, or raises OSError."""
        ...

    def discard(self) -> None:
        """Let go of them, unless a watcher has taken them over."""
        ...


def watches_ahead(root: Path) -> WatchesAhead | None:
    """Where watches can be set by one process for another; raises OSError like `start_watcher`."""
    if platform.system() == "Linux":
        from indexer.watch.inotify import InotifyAhead

        return InotifyAhead(root)
    return None


def start_watcher(
    root: Path,
    cookies: Path,
    sink: Sink,
    ahead: WatchesAhead | None = None,
    watched: Mapping[str, int] = MappingProxyType({}),
) -> Watcher:
    """Start watching; raises OSError when the system has no watch left to give.

    With `ahead`, folders are watched already, under these numbers.
    """
    if platform.system() == "Linux":
        from indexer.watch.inotify import InotifyAhead, InotifyWatcher

        assert ahead is None or isinstance(ahead, InotifyAhead)
        return InotifyWatcher(root, cookies, sink, ahead, watched)
    from indexer.watch.observer import ObserverWatcher

    return ObserverWatcher(root, cookies, sink)
