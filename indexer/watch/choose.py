"""The watcher for this platform."""

from __future__ import annotations

import platform
from pathlib import Path

from indexer.watch.sink import Sink, Watcher


def start_watcher(root: Path, cookies: Path, sink: Sink) -> Watcher:
    """Start watching; raises OSError when the system has no watch left to give."""
    if platform.system() == "Linux":
        from indexer.watch.inotify import InotifyWatcher

        return InotifyWatcher(root, cookies, sink)
    from indexer.watch.observer import ObserverWatcher

    return ObserverWatcher(root, cookies, sink)
