"""The rules in force in each folder, kept while walks and events go on."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from indexer.core.hashing import HASHES
from indexer.scan import scopes as module
from indexer.scan.previous import NothingBefore
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Walker


def rules(workspace: Path, **files: str) -> Scopes:
    for folder, text in files.items():
        where = workspace / folder.replace("_", "/").removeprefix("root")
        where.mkdir(parents=True, exist_ok=True)
        (where / ".gitignore").write_text(text)
    return Scopes(workspace)


def test_a_single_path_is_judged_without_a_walk(workspace: Path) -> None:
    scopes = rules(workspace, root="*.log\n/out/\n", a_b="!keep.log\n")
    assert scopes.ignores("x.log", False)
    assert scopes.ignores("a/x.log", False)
    assert scopes.ignores("a/b/x.log", False)
    assert not scopes.ignores("a/b/keep.log", False)
    assert scopes.ignores("out", True)
    assert not scopes.ignores("out", False)
    assert scopes.ignores("out/anything/below", False)
    assert not scopes.ignores("a/out", True)
    assert not scopes.ignores("", True)


def test_the_deciding_rule_is_named(workspace: Path) -> None:
    scopes = rules(workspace, root="# first\n*.log\n", a="tmp/\n")
    rule = scopes.judge("a/b/x.log", False)
    assert rule is not None
    assert (rule.pattern, rule.source, rule.line) == ("*.log", ".gitignore", 2)
    rule = scopes.judge("a/tmp/deep/file", False)
    assert rule is not None
    assert (rule.source, rule.line) == ("a/.gitignore", 1)
    assert scopes.judge("a/b", True) is None


def test_walks_and_single_judgements_agree(workspace: Path) -> None:
    scopes = rules(workspace, root="*.o\n", a="!x.o\ny\n", a_b="*\n!z\n")
    for name in ("x.o", "y", "z", "q"):
        for folder in ("", "a", "a/b"):
            (workspace / folder / name).write_bytes(b"")
    walked = Scopes(workspace)
    observed = Walker(workspace, HASHES["xxh3_128"], walked, NothingBefore(), 0).walk()
    kept = {
        f"{path}/{name}".lstrip("/")
        for path, seen in observed.folders.items()
        for name in seen.entries or {}
    }
    everything = [
        str(path.relative_to(workspace)) for path in workspace.rglob("*") if path.is_file()
    ]
    for each in (scopes, walked):
        assert {path for path in everything if not each.ignores(path, False)} == kept


def test_info_exclude_is_read(workspace: Path) -> None:
    (workspace / ".git" / "info").mkdir(parents=True)
    (workspace / ".git" / "info" / "exclude").write_text("private\n")
    rule = Scopes(workspace).judge("private", False)
    assert rule is not None
    assert rule.source == ".git/info/exclude"


def test_info_exclude_has_moved_whatever_its_time_says(workspace: Path) -> None:
    exclude = workspace / ".git" / "info" / "exclude"
    exclude.parent.mkdir(parents=True)
    exclude.write_text("private\n")
    before = exclude.stat()
    scopes = Scopes(workspace)
    assert scopes.ignores("private", False)
    time.sleep(0.025)
    exclude.write_text("another\n")
    os.utime(exclude, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert scopes.exclude_changed()
    time.sleep(0.025)
    scopes.forget("")
    assert scopes.ignores("another", False)
    assert not scopes.exclude_changed()


def test_info_exclude_that_was_read_as_it_was_written_is_read_again(workspace: Path) -> None:
    """A second writing within one tick of the clock leaves the same stamp."""
    exclude = workspace / ".git" / "info" / "exclude"
    exclude.parent.mkdir(parents=True)
    exclude.write_text("private\n")
    # As if it were that moment.
    os.utime(exclude, (time.time() + 60, time.time() + 60))
    scopes = Scopes(workspace)
    assert scopes.ignores("private", False)
    assert scopes.exclude_changed()


def test_rules_are_kept_until_forgotten(workspace: Path) -> None:
    scopes = rules(workspace, root="*.log\n", a="*.tmp\n")
    assert scopes.ignores("a/x.tmp", False)
    (workspace / "a" / ".gitignore").write_text("")
    assert scopes.ignores("a/x.tmp", False)
    scopes.forget("a")
    assert not scopes.ignores("a/x.tmp", False)
    assert scopes.ignores("a/x.log", False)


def test_rule_files_behind_links_are_not_read(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "deep"
    outside.mkdir(parents=True)
    for folder in (outside, outside.parent):
        (folder / ".gitignore").write_text("*\n")
    (workspace / "link").symlink_to(outside.parent)
    (workspace / "d").mkdir()
    (workspace / "d" / ".gitignore").symlink_to(outside / ".gitignore")
    scopes = Scopes(workspace)
    for path in ("link/x", "link/deep/x", "d/x"):
        assert not scopes.ignores(path, False)


def test_a_folder_that_is_not_there_has_its_parents_rules(workspace: Path) -> None:
    scopes = rules(workspace, root="*.log\n")
    assert scopes.ignores("not/yet/there.log", False)
    assert not scopes.ignores("not/yet/there.txt", False)


def test_an_oversized_rule_file_is_cut_off(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RULE_FILE_LIMIT", 8)
    scopes = rules(workspace, root="one\ntwo\nthree\n")
    assert scopes.ignores("two", False)
    assert not scopes.ignores("three", False)


def test_what_was_read_before_does_not_replace_what_is_known_since(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event is judged on its own thread while a walk reads new rules."""
    scopes = rules(workspace, root="*.log\n")
    (workspace / "a").mkdir()
    real = Scopes._load
    reading, go_on = threading.Event(), threading.Event()

    def slow(self: Scopes, folder: str) -> object:
        scope = real(self, folder)
        if folder == "a" and threading.current_thread() is not threading.main_thread():
            reading.set()
            assert go_on.wait(10)
        return scope

    monkeypatch.setattr(Scopes, "_load", slow)
    judge = threading.Thread(target=lambda: scopes.ignores("a/x.log", False))
    judge.start()
    assert reading.wait(10)
    (workspace / ".gitignore").write_text("")
    scopes.forget("")
    Walker(workspace, HASHES["xxh3_128"], scopes, NothingBefore(), 0).walk()
    go_on.set()
    judge.join()
    assert not scopes.ignores("a/x.log", False)


def test_forgetting_while_another_thread_judges(workspace: Path) -> None:
    scopes = rules(workspace, root="*.log\n")
    stop = threading.Event()
    problems: list[BaseException] = []

    def judge() -> None:
        try:
            for number in range(1_000_000):
                if stop.is_set():
                    return
                scopes.ignores(f"d{number % 700}/e/x.log", False)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=judge)
    thread.start()
    for number in range(400):
        scopes.forget(f"d{number % 5}" if number % 20 else "")
    stop.set()
    thread.join()
    assert problems == []
