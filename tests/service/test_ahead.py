"""The first look of a service by another process, which watches before it looks."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.tree.scan import scan
from indexer.engine.workspace import Engine
from indexer.errors import LockedError
from indexer.scan import shared_walk
from indexer.service.ahead import Ahead
from indexer.service.writing_thread import WritingThread
from indexer.watch.debounce import Timing
from indexer.watch.inotify import InotifyAhead
from tests.support.space import with_index

FAST = Timing(quiet=0.01, longest=0.1, settle=0.05, longest_settle=0.5)


@pytest.fixture(params=["by one", "by several"])
def indexed(sample: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A workspace that was scanned. The tests may run beside a thread, which does no harm here."""
    monkeypatch.setattr("indexer.scan.shared_walk._may_fork", lambda: True)
    if request.param == "by several":
        monkeypatch.setattr("indexer.scan.shared_walk._WORTH", 0)
        monkeypatch.setattr("indexer.scan.shared_walk._WORTH_WATCHING", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    (sample / ".gitignore").write_text("*.log\n")
    time.sleep(0.025)
    with Engine(with_index(sample)) as engine:
        scan(engine)
    return sample


@pytest.fixture
def serve(until: Callable[..., Any]) -> Iterator[Callable[[Path, Ahead], WritingThread]]:
    """Start what keeps a workspace true; stopped in the end whatever happened."""
    started: list[WritingThread] = []

    def begin(root: Path, ahead: Ahead) -> WritingThread:
        engine = Engine(root, owned=ahead.owned)
        keeper = WritingThread(engine, timing=FAST, ahead=ahead)
        started.append(keeper)
        keeper.start()
        until(lambda: keeper.health().state != "starting", "the first look is taken over")
        return keeper

    yield begin
    for keeper in started:
        keeper.stop()
        keeper.engine.close()


def _folders(root: Path) -> int:
    return sum(".merkle" not in Path(folder).parts for folder, _, _ in os.walk(root))


def test_nothing_is_looked_at_again(
    indexed: Path, serve: Callable[[Path, Ahead], WritingThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    monkeypatch.setattr("indexer.engine.tree.scan.Walker", None)
    with closing(ahead):
        keeper = serve(indexed, ahead)
        assert keeper.health().state == "watching"
        assert keeper.health().watches == _folders(indexed)
        assert keeper.catch_up()


def _caught_up(keeper: WritingThread) -> str:
    """The root once everything that was written is recorded."""
    assert keeper.catch_up()
    head = keeper.engine.trees.head()
    assert head is not None
    return head.root.hex()


def _edit(root: Path) -> None:
    (root / "pkg0" / "new.py").write_text("x = 1\n")


def _move(root: Path) -> None:
    (root / "pkg0").rename(root / "moved")
    (root / "moved" / "new.py").write_text("x = 1\n")


def _replace(root: Path, name: str = "pkg0") -> None:
    shutil.rmtree(root / name)
    (root / name / "deep").mkdir(parents=True)
    (root / name / "deep" / "new.py").write_text("x = 1\n")


BY, CHANGES = ("by one", "by several"), (_edit, _move, _replace)
WHEN = ("before", "after the look", "later")


@pytest.mark.parametrize(
    ("indexed", "change", "when"),
    [
        # Of all threes, one in three, with every pair of two changes and times, or ways to look.
        pytest.param(
            BY[by], change, WHEN[when], marks=[pytest.mark.soak] if (by + n + when) % 3 else []
        )
        for by in range(2)
        for n, change in enumerate(CHANGES)
        for when in range(3)
    ],
    indirect=["indexed"],
)
def test_whatever_happens_is_seen(
    indexed: Path,
    serve: Callable[[Path, Ahead], WritingThread],
    from_nothing: Callable[[Path], str],
    change: Callable[[Path], None],
    when: str,
) -> None:
    if when == "before":
        change(indexed)
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        if when == "after the look":
            # It is over, and nobody reads the events yet.
            seen = ahead.take()
            assert seen is not None
            ahead.take = lambda: seen  # type: ignore[method-assign]  # a stand-in
            change(indexed)
        keeper = serve(indexed, ahead)
        if when == "later":
            change(indexed)
        assert _caught_up(keeper) == from_nothing(indexed)
        assert keeper.health().watches == _folders(indexed)
        # What comes after that, too, and what a rule leaves out not.
        (indexed / "pkg1" / "more.py").write_text("y = 2\n")
        (indexed / "pkg1" / "more.log").write_text("left out\n")
        assert _caught_up(keeper) == from_nothing(indexed)


def test_the_rules_of_git_are_followed(
    indexed: Path,
    serve: Callable[[Path, Ahead], WritingThread],
    from_nothing: Callable[[Path], str],
) -> None:
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        keeper = serve(indexed, ahead)
        (indexed / ".git" / "info").mkdir(parents=True)
        (indexed / ".git" / "info" / "exclude").write_text("*.txt\n")
        assert _caught_up(keeper) == from_nothing(indexed)


@pytest.fixture
def while_looking(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something in the midst of the look: the root is behind it, another folder before it."""

    def do(work: Callable[[], object]) -> None:
        add = InotifyAhead.add

        def add_and_do(watches: InotifyAhead, path: str) -> int:
            if path == "pkg1":
                work()
            return add(watches, path)

        monkeypatch.setattr(InotifyAhead, "add", add_and_do)

    return do


def test_rules_of_git_that_come_while_others_look_are_followed(
    indexed: Path,
    serve: Callable[[Path, Ahead], WritingThread],
    from_nothing: Callable[[Path], str],
    while_looking: Callable[[Callable[[], object]], None],
) -> None:
    """No watch covers them: what counts is how they were before the look."""
    exclude = indexed / ".git" / "info" / "exclude"
    exclude.parent.mkdir(parents=True)
    while_looking(lambda: exclude.write_text("*.txt\n"))
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        keeper = serve(indexed, ahead)
        assert exclude.exists()
        assert _caught_up(keeper) == from_nothing(indexed)


def test_what_is_mounted_while_others_look_is_seen(
    indexed: Path,
    tmp_path: Path,
    serve: Callable[[Path, Ahead], WritingThread],
    from_nothing: Callable[[Path], str],
    while_looking: Callable[[Callable[[], object]], None],
) -> None:
    """A mount is no event of the folder that it hides."""
    over, under = tmp_path / "over", indexed / "pkg0"
    over.mkdir()
    (over / "new.py").write_text("x = 1\n")
    mount = ["mount", "--bind", str(over), str(under)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    subprocess.run(["umount", str(under)], check=True)
    while_looking(lambda: subprocess.run(mount, check=True))
    try:
        ahead = Ahead.begin(indexed)
        assert ahead is not None
        with closing(ahead):
            keeper = serve(indexed, ahead)
            assert (under / "new.py").exists()
            assert _caught_up(keeper) == from_nothing(indexed)
    finally:
        subprocess.run(["umount", "-l", str(under)], check=True)


@pytest.mark.parametrize("indexed", ["by several"], indirect=True)
def test_what_is_replaced_once_another_process_has_looked_at_it_is_seen(
    indexed: Path,
    tmp_path: Path,
    serve: Callable[[Path, Ahead], WritingThread],
    from_nothing: Callable[[Path], str],
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder around it was watched before that."""
    add, look_at, put_all = InotifyAhead.add, shared_walk._look_at, shared_walk._Queue.put_all
    other, given, looked, replaced = list[int](), list[Any](), list[str](), tmp_path / "replaced"

    def note_and_look(*work: Any) -> bytes:
        other.append(os.getpid())
        looked.clear()
        return look_at(*work)

    def put_and_note(line: Any, parts: Any) -> set[str]:
        given.extend(parts)
        return put_all(line, parts)

    def add_in_turn(watches: InotifyAhead, path: str) -> int:
        if other and looked and "/" not in path and not replaced.exists():
            _replace(indexed, looked[0])
            replaced.touch()
        looked.append(path)
        if given and not path:
            until(replaced.exists, "the other process has looked at one folder and replaced it")
        return add(watches, path)

    monkeypatch.setattr(shared_walk, "_look_at", note_and_look)
    monkeypatch.setattr(shared_walk._Queue, "put_all", put_and_note)
    monkeypatch.setattr(InotifyAhead, "add", add_in_turn)
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        keeper = serve(indexed, ahead)
        assert replaced.exists()
        assert _caught_up(keeper) == from_nothing(indexed)


def test_a_folder_with_two_names_is_looked_at_again(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was moved in the midst of the look, and is known by the name that it had last."""
    add = InotifyAhead.add
    moved = {"pkg1": "pkg0"}
    monkeypatch.setattr(
        InotifyAhead, "add", lambda watches, path: add(watches, moved.get(path, path))
    )
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        assert ahead.take() is None


def test_a_process_that_is_killed_while_it_tells_what_it_saw_is_no_trouble(
    indexed: Path, serve: Callable[[Path, Ahead], WritingThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    tells = shared_walk._look_and_watch
    monkeypatch.setattr(shared_walk, "_look_and_watch", lambda *given: tells(*given)[:-1])
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        assert serve(indexed, ahead).health().state == "watching"


def test_watches_that_nobody_needs_are_given_back(
    indexed: Path, serve: Callable[[Path, Ahead], WritingThread]
) -> None:
    """There are only so many: where the service looks itself, it has one for each folder."""
    _edit(indexed)
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with closing(ahead):
        keeper = serve(indexed, ahead)
        told = [info.read_text() for info in Path("/proc/self/fdinfo").iterdir() if info.exists()]
        # One more for the folder of cookies.
        assert sum(text.count("inotify wd:") for text in told) == keeper.health().watches + 1


def test_what_nobody_takes_over_is_let_go_of(indexed: Path) -> None:
    before = os.listdir("/proc/self/fd")
    ahead = Ahead.begin(indexed)
    assert ahead is not None
    with pytest.raises(LockedError):
        Engine(indexed, wait=0)
    ahead.close()
    Engine(indexed, wait=0).close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_there_is_nothing_to_begin_with(indexed: Path, tmp_path: Path) -> None:
    """Without an index, while somebody else has it, and where it has never been scanned."""
    (tmp_path / "new").mkdir()
    assert Ahead.begin(tmp_path / "new") is None
    with Engine(indexed):
        assert Ahead.begin(indexed) is None
    Engine.create(tmp_path / "new").close()
    assert Ahead.begin(tmp_path / "new") is None
    Engine(tmp_path / "new", wait=0).close()
