"""The portable watcher: everything below the root, told in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.watch.observer import ObserverWatcher


@pytest.fixture
def watcher(root: Path, cookies: Path, sink: Any) -> Iterator[ObserverWatcher]:
    started = ObserverWatcher(root, cookies, sink)
    yield started
    started.stop()
    assert not started.is_alive()


def test_files_are_told(root: Path, watcher: ObserverWatcher, sink: Any) -> None:
    assert watcher.is_alive()
    (root / "file").write_text("x")
    sink.until(lambda: ("file", False, False) in sink.told)
    (root / "file").rename(root / "other")
    sink.until(lambda: ("other", False, False) in sink.told)
    (root / "other").unlink()
    sink.until(lambda: sink.told.count(("other", False, False)) > 1)


def test_folders_are_told_to_be_looked_into(
    root: Path, watcher: ObserverWatcher, sink: Any
) -> None:
    (root / "a").mkdir()
    sink.until(lambda: ("a", True, True) in sink.told)
    (root / "a" / "file").write_text("x")
    sink.until(lambda: "a/file" in {path for path, *_ in sink.told})
    (root / "a").rename(root / "z")
    sink.until(lambda: ("z", True, True) in sink.told)
    sink.until(lambda: "a" in {path for path, *_ in sink.told})


def test_cookies_come_back_and_are_no_change(
    root: Path, cookies: Path, watcher: ObserverWatcher, sink: Any
) -> None:
    (cookies / "mine").touch()
    sink.until(lambda: "mine" in sink.seen)
    assert not [path for path, *_ in sink.told if "cookies" in path]


def test_folders_are_counted(watcher: ObserverWatcher) -> None:
    for path in ("", "a", "a/b", "ab"):
        watcher.add(path)
    assert watcher.count == 4
    watcher.retain("a", {"a"}.__contains__)
    assert watcher.count == 3
    assert watcher.unwatched == 0
