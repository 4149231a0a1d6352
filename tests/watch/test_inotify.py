"""One watch per folder, on the folder that is there now, and no event lost without a word."""

from __future__ import annotations

import errno
import os
import platform
import random
import shutil
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import watchdog.version

if platform.system() != "Linux":
    pytest.skip("inotify is Linux's own", allow_module_level=True)

from watchdog.observers.inotify_c import INOTIFY_ALL_CONSTANTS

from indexer.watch import inotify
from indexer.watch.inotify import InotifyAhead, InotifyWatcher
from indexer.watch.watcher import start_watcher


@pytest.fixture
def watcher(root: Path, cookies: Path, sink: Any) -> Iterator[InotifyWatcher]:
    started = InotifyWatcher(root, cookies, sink)
    started.add("")
    yield started
    started.stop()
    assert not started.is_alive()


def watched(watcher: InotifyWatcher) -> set[str]:
    """The watched paths, with the bookkeeping checked on the way."""
    assert {path: wd for wd, path in watcher._path_of.items()} == watcher._watch_of
    assert {at for below in watcher._below.values() for at in below} == set(watcher._watch_of) - {
        ""
    }
    # The kernel agrees: its own list is these folders and the one for cookies.
    info = Path(f"/proc/self/fdinfo/{watcher._descriptor.number}").read_text()
    assert info.count("inotify wd:") == len(watcher._path_of) + 1
    return set(watcher._watch_of)


def test_this_platform_gets_it(root: Path, cookies: Path, sink: Any) -> None:
    started = start_watcher(root, cookies, sink)
    assert isinstance(started, InotifyWatcher)
    assert started.is_alive()
    started.stop()


def test_the_numbers_are_those_that_others_know() -> None:
    ours = {name[1:]: number for name, number in vars(inotify).items() if name.startswith("_IN_")}
    assert len(ours) == 15
    assert ours.items() <= INOTIFY_ALL_CONSTANTS.items()


def test_the_library_is_bound_to_the_minor_release_that_was_tested() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    (bound,) = (each for each in project["project"]["dependencies"] if each.startswith("watchdog"))
    major, minor = watchdog.version.VERSION_MAJOR, watchdog.version.VERSION_MINOR
    assert bound == f"watchdog>={major}.{minor},<{major}.{minor + 1}"


def test_what_is_told(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    (root / "file").write_text("x")
    assert sink.paths() == {"file"}
    (root / "file").rename(root / "other")
    assert sink.paths() == {"file", "other"}
    (root / "other").chmod(0o600)
    assert sink.paths() == {"other"}
    (root / "folder").mkdir()
    sink.until(lambda: sink.told)
    assert sink.told == [("folder", True, True)]
    assert sink.paths() == {"folder"}
    (root / "folder" / "inside").write_text("not watched")
    assert sink.paths() == set()
    watcher.add("folder")
    (root / "folder" / "inside").unlink()
    assert sink.paths() == {"folder/inside"}
    (root / "folder").rmdir()
    sink.until(lambda: sink.told)
    assert ("folder", True, False) in sink.told


def test_reading_tells_nothing(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    (root / "file").write_text("x")
    sink.paths()
    (root / "file").read_text()
    os.listdir(root)
    assert sink.paths() == set()


def test_names_keep_their_bytes(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    raw = os.fsencode(root)
    for name in (b"line\nbreak", b"\xff", b"back\\slash", "e\u0301".encode(), b"n" * 255):
        os.mkdir(raw + b"/" + name)
    told = sink.paths()
    assert told == {"line\\x0abreak", "\\xff", "back\\x5cslash", "e\u0301", "n" * 255}
    for path in told:
        watcher.add(path)
    assert watched(watcher) == told | {""}
    Path(os.fsdecode(raw + b"/\xff/file")).write_text("x")
    assert sink.paths() == {"\\xff/file"}


def test_only_what_was_added_is_watched(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    for name in ("src", "node_modules/pkg"):
        (root / name).mkdir(parents=True)
    watcher.add("src")
    assert watched(watcher) == {"", "src"}
    sink.paths()
    (root / "node_modules" / "pkg" / "file").write_text("x")
    (root / "node_modules" / "new").mkdir()
    assert sink.paths() == set()
    assert watcher.count == 2


def test_adding_again_is_harmless(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    (root / "a").mkdir()
    for _ in range(3):
        watcher.add("a")
    assert watched(watcher) == {"", "a"}
    sink.paths()
    (root / "a" / "x").touch()
    assert sink.paths() == {"a/x"}


def test_folder_made_anew_is_watched_anew(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    for number in range(50):
        (root / "a" / "b").mkdir(parents=True)
        watcher.add("a")
        watcher.add("a/b")
        # The end of the last folder "a" may be read only now, and take the new watches along; but
        # then its arrival is told after that, and whoever is told looks and watches again.
        told = sink.paths()
        assert "a" in told
        watcher.add("a")
        watcher.add("a/b")
        if number % 2:
            sink.paths()
        (root / "a" / "b" / "file").touch()
        assert "a/b/file" in sink.paths()
        shutil.rmtree(root / "a")
    sink.paths()
    assert watched(watcher) == {""}


def test_added_before_the_old_folders_end_was_read(
    root: Path, watcher: InotifyWatcher, sink: Any
) -> None:
    (root / "a").mkdir()
    watcher.add("a")
    sink.paths()
    sink.gate.clear()
    (root / "held").touch()
    (root / "a").rmdir()
    (root / "a").mkdir()
    # The kernel's word about the old folder is still unread.
    watcher.add("a")
    sink.gate.set()
    assert sink.paths() >= {"a"}
    # Its arrival was told after its leaving, so the walk that follows watches it for good.
    watcher.add("a")
    (root / "a" / "file").touch()
    assert sink.paths() == {"a/file"}
    assert watched(watcher) == {"", "a"}


def test_moved_out_tells_nothing_more(
    root: Path, watcher: InotifyWatcher, sink: Any, tmp_path: Path
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    watcher.add("a")
    watcher.add("a/b")
    (root / "a").rename(tmp_path / "out")
    assert sink.paths() == {"a"}
    (tmp_path / "out" / "b" / "file").touch()
    (tmp_path / "out" / "file").touch()
    assert sink.paths() == set()
    assert watched(watcher) == {""}


def test_moved_out_and_made_anew_unread(
    root: Path, watcher: InotifyWatcher, sink: Any, tmp_path: Path
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    watcher.add("a")
    watcher.add("a/b")
    sink.gate.clear()
    (root / "held").touch()
    (root / "a").rename(tmp_path / "out")
    (root / "a").mkdir()
    watcher.add("a")
    sink.gate.set()
    sink.paths()
    watcher.add("a")
    (tmp_path / "out" / "file").touch()
    (tmp_path / "out" / "b" / "file").touch()
    assert sink.paths() == set()
    assert watched(watcher) == {"", "a"}


def test_renamed_inside_keeps_one_name(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    (root / "a" / "b").mkdir(parents=True)
    watcher.add("a")
    watcher.add("a/b")
    sink.gate.clear()
    (root / "held").touch()
    (root / "a").rename(root / "z")
    # A walk finds the new name before the old one's leaving was read.
    watcher.add("z")
    watcher.add("z/b")
    sink.gate.set()
    assert sink.paths() >= {"a", "z"}
    assert watched(watcher) == {"", "z", "z/b"}
    (root / "z" / "b" / "file").touch()
    assert sink.paths() == {"z/b/file"}


def test_watches_survive_any_order(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    """Folders are renamed at random while another thread adds whatever it finds."""
    names = [f"n{number}" for number in range(5)]
    (root / "n0" / "x" / "y").mkdir(parents=True)
    stop = threading.Event()

    def add_all() -> None:
        while not stop.is_set():
            add_what_is_there(root, watcher)

    adding = threading.Thread(target=add_all)
    adding.start()
    chance = random.Random(3)
    here = root / "n0"
    try:
        for _ in range(1500):
            there = root / chance.choice(names)
            if not there.exists():
                here.rename(there)
                here = there
    finally:
        stop.set()
        adding.join()
    sink.paths()
    add_what_is_there(root, watcher)
    assert watched(watcher) >= {"", here.name, f"{here.name}/x", f"{here.name}/x/y"}
    walked = {"", here.name, f"{here.name}/x", f"{here.name}/x/y"}
    watcher.retain("", walked.__contains__)
    assert watched(watcher) == walked
    (here / "x" / "y" / "file").touch()
    assert sink.paths() == {f"{here.name}/x/y/file"}


def add_what_is_there(root: Path, watcher: InotifyWatcher) -> None:
    for folder, folders, _ in os.walk(root):
        if ".merkle" in folders:
            folders.remove(".merkle")
        relative = os.path.relpath(folder, root)
        watcher.add("" if relative == "." else relative)


def test_retain_drops_the_rest(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    for name in ("a/b", "ab", "c"):
        (root / name).mkdir(parents=True)
    for name in ("a", "a/b", "ab", "c"):
        watcher.add(name)
    watcher.retain("a", {"a"}.__contains__)
    assert watched(watcher) == {"", "a", "ab", "c"}
    sink.paths()
    (root / "a" / "b" / "file").touch()
    assert sink.paths() == set()
    watcher.retain("", {"", "c"}.__contains__)
    assert watched(watcher) == {"", "c"}


def test_root_reached_by_a_link(root: Path, sink: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    started = InotifyWatcher(tmp_path / "link", tmp_path / "link" / ".merkle" / "cookies", sink)
    try:
        started.add("")
        assert started.count == 1
        (root / "file").touch()
        assert sink.paths() == {"file"}
    finally:
        started.stop()


def test_links_inside_are_not_followed(
    root: Path, watcher: InotifyWatcher, sink: Any, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    watcher.add("link")
    assert watched(watcher) == {""}
    assert watcher.unwatched == 0


def test_folders_that_were_watched_ahead_leave_with_those_around_them(
    root: Path, cookies: Path, sink: Any, tmp_path: Path
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "c").mkdir()
    ahead = InotifyAhead(root)
    numbers = {path: ahead.add(path) for path in ("", "a", "a/b", "c")}
    # It had another name when it was watched first.
    started = InotifyWatcher(root, cookies, sink, ahead, {"old": numbers["c"], **numbers})
    try:
        assert watched(started) == {"", "a", "a/b", "c"}
        (root / "a").rename(tmp_path / "out")
        assert sink.paths() == {"a"}
        assert watched(started) == {"", "c"}
        (root / "c" / "file").touch()
        assert sink.paths() == {"c/file"}
    finally:
        started.stop()


def test_overflow_is_told(watcher: InotifyWatcher, sink: Any) -> None:
    watcher.on_event(-1, inotify._IN_Q_OVERFLOW, b"")
    assert sink.losses == ["the kernel's event queue overflowed"]


def test_real_overflow_is_told(root: Path, watcher: InotifyWatcher, sink: Any) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 200_000:
        pytest.skip("the queue is too long to fill in a test")
    sink.gate.clear()
    (root / "held").touch()
    # Two files in turn: the kernel folds equal events that follow each other.
    for _ in range(most // 2 + 2000):
        os.close(os.open(root / "one", os.O_WRONLY | os.O_CREAT))
        os.close(os.open(root / "two", os.O_WRONLY | os.O_CREAT))
    sink.gate.set()
    sink.until(lambda: sink.losses)
    assert watcher.is_alive()
    (root / "after").touch()
    assert "after" in sink.paths()


def test_root_moved_or_deleted_is_told(
    root: Path, watcher: InotifyWatcher, sink: Any, tmp_path: Path
) -> None:
    root.rename(tmp_path / "moved")
    sink.until(lambda: sink.losses)
    shutil.rmtree(tmp_path / "moved")
    sink.until(lambda: len(sink.losses) > 1)


def test_cookie_folder_deleted_is_told(
    root: Path, cookies: Path, watcher: InotifyWatcher, sink: Any
) -> None:
    shutil.rmtree(cookies)
    sink.until(lambda: sink.losses)


def refuse(monkeypatch: pytest.MonkeyPatch, name: bytes, code: int) -> None:
    """Let the kernel refuse a watch for one folder."""
    real = inotify.inotify_add_watch

    def add_watch(fd: int, path: bytes, mask: int) -> int:
        if path.endswith(name):
            inotify.ctypes.set_errno(code)
            return -1
        return real(fd, path, mask)

    monkeypatch.setattr(inotify, "inotify_add_watch", add_watch)


def test_out_of_watches_is_counted(
    root: Path, watcher: InotifyWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").mkdir()
    with monkeypatch.context() as patched:
        refuse(patched, b"/a", errno.ENOSPC)
        watcher.add("a")
        watcher.add("a")
        assert watcher.unwatched == 1
        assert watched(watcher) == {""}
    watcher.add("a")
    assert watcher.unwatched == 0
    assert watched(watcher) == {"", "a"}


def test_unwatched_folder_that_goes_is_not_counted(
    root: Path, watcher: InotifyWatcher, sink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").mkdir()
    with monkeypatch.context() as patched:
        refuse(patched, b"/a", errno.ENOSPC)
        watcher.add("a")
        (root / "a").rmdir()
        sink.paths()
        assert watcher.unwatched == 0
        (root / "a").mkdir()
        watcher.add("a")
        assert watcher.unwatched == 1
        watcher.retain("", {""}.__contains__)
        assert watcher.unwatched == 0


def test_unreadable_folder_needs_no_watch(
    root: Path, watcher: InotifyWatcher, sink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be listed either, and its parent tells when its permissions change."""
    (root / "a").mkdir()
    with monkeypatch.context() as patched:
        refuse(patched, b"/a", errno.EACCES)
        watcher.add("a")
    assert watcher.unwatched == 0
    sink.paths()
    (root / "a").chmod(0o700)
    sink.until(lambda: sink.told)
    assert sink.told == [("a", True, True)]


def test_root_without_a_watch_is_counted(
    root: Path, watcher: InotifyWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, os.fsencode(root), errno.EACCES)
    watcher.add("")
    assert watcher.unwatched == 1


def test_no_descriptor_is_left_behind(root: Path, sink: Any) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(FileNotFoundError):
            InotifyWatcher(root, root / "no such folder", sink)
    assert len(os.listdir("/proc/self/fd")) == before


def test_reader_that_dies_is_told(
    root: Path, watcher: InotifyWatcher, sink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, is_folder: bool, deep: bool) -> None:
        raise RuntimeError("by accident")

    monkeypatch.setattr(sink, "changed", fail)
    (root / "file").touch()
    sink.until(lambda: sink.losses)
    assert "by accident" in sink.losses[0]
    sink.until(lambda: not watcher.is_alive())
