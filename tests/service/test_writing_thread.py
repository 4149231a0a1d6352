"""The keeper's loop against everything that can go wrong around it, in one process."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.tree.scan import reconcile
from indexer.service import writing_thread as keeping
from indexer.service.jobs import StoppingError
from indexer.service.writing_thread import WritingThread, WritingThreadError
from indexer.store.database import DamagedError, DatabaseError
from indexer.store.trees import TreeStore
from indexer.watch import inotify
from indexer.watch.debounce import Timing
from tests.support.engines import Engine
from tests.support.space import with_index

FAST = Timing(quiet=0.01, longest=0.1, settle=0.05, longest_settle=0.5)


@pytest.fixture
def engine(sample: Path) -> Iterator[Engine]:
    with Engine(with_index(sample)) as engine:
        yield engine


@pytest.fixture
def start(engine: Engine, until: Callable[..., Any]) -> Iterator[Callable[[], WritingThread]]:
    """Start a keeper on the sample workspace; stopped in the end whatever happened."""
    started: list[WritingThread] = []

    def begin() -> WritingThread:
        keeper = WritingThread(engine, timing=FAST)
        started.append(keeper)
        keeper.start()
        until(lambda: keeper.health().state != "starting", "the first scan is done")
        return keeper

    yield begin
    for keeper in started:
        keeper.stop()
        assert not keeper.is_alive()


@pytest.fixture
def keeper(start: Callable[[], WritingThread]) -> WritingThread:
    return start()


@pytest.fixture
def converged(
    engine: Engine, from_nothing: Callable[[Path], str], until: Callable[..., Any]
) -> Callable[[], None]:
    """Wait until the recorded root is that of a scan from nothing, without asking the keeper."""

    def wait() -> None:
        def same() -> bool:
            try:
                head = engine.trees.head()
            except DatabaseError:
                # Being opened again just now.
                return False
            return head is not None and head.root.hex() == from_nothing(engine.root)

        until(same, "the index equals the disk")

    return wait


def test_catches_up(
    keeper: WritingThread, engine: Engine, from_nothing: Callable[[Path], str]
) -> None:
    for number in range(20):
        (engine.root / "pkg0" / f"new{number}").write_text("x")
        assert keeper.catch_up()
        head = engine.trees.head()
        assert head is not None
        assert head.root.hex() == from_nothing(engine.root)
    assert keeper.health().state == "watching"


def test_whoever_waited_for_the_first_look_is_answered_before_frames_are_made(
    start: Callable[[], WritingThread],
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "FIRST_REST", 3600.0)
    keeper = start()
    (keeper.engine.root / "new").write_text("x")
    assert keeper.catch_up()
    assert keeper.call(keeper._process_all)
    assert keeper.health().state == "watching"
    assert keeper._maintainer is None
    keeper._rest_until = 0.0
    keeper._woken()
    until(lambda: keeper._maintainer and not keeper._maintainer.due, "all frames are made")


def test_who_catches_up_waits_for_the_thread_only_where_something_is_left_to_look_at(
    keeper: WritingThread, engine: Engine, until: Callable[..., Any]
) -> None:
    assert keeper.catch_up()
    running, go = threading.Event(), threading.Event()

    def work() -> None:
        running.set()
        assert go.wait(60)

    working = threading.Thread(target=keeper.call, args=(work,))
    working.start()
    assert running.wait(60)
    try:
        # It is busy, and everything is recorded.
        assert keeper.catch_up()
        changed, answers = engine.root / "pkg0" / "new", list[bool]()
        changed.write_text("x")
        asking = threading.Thread(target=lambda: answers.append(keeper.catch_up()))
        asking.start()
        until(lambda: len(keeper._jobs) == 1, "it has to be looked at")
        assert not answers
    finally:
        go.set()
    for thread in (working, asking):
        thread.join(60)
    assert answers == [True]
    assert engine.tree.get("pkg0/new") is not None


def test_what_is_being_looked_at_is_not_yet_seen(
    keeper: WritingThread, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keeper.catch_up()
    looking, go = threading.Event(), threading.Event()
    really = keeping.reconcile

    def slowly(*arguments: Any, **named: Any) -> Any:
        looking.set()
        assert go.wait(60)
        return really(*arguments, **named)

    monkeypatch.setattr(keeping, "reconcile", slowly)
    (engine.root / "pkg0" / "new").write_text("x")
    assert looking.wait(60)
    # Nothing is pending any more, and nothing is recorded.
    answers = list[bool]()
    asking = threading.Thread(target=lambda: answers.append(keeper.catch_up()))
    asking.start()
    asking.join(0.2)
    assert not answers
    go.set()
    asking.join(60)
    assert answers == [True]
    assert engine.tree.get("pkg0/new") is not None


def test_jobs_left_at_the_end_are_refused(keeper: WritingThread, until: Callable[..., Any]) -> None:
    running, go = threading.Event(), threading.Event()
    outcomes: list[Any] = []

    def first() -> str:
        running.set()
        go.wait(60)
        return "finished"

    def ask(work: Callable[[], Any]) -> None:
        try:
            outcomes.append(keeper.call(work))
        except StoppingError:
            outcomes.append("refused")

    asking = [threading.Thread(target=ask, args=(first,))]
    asking[0].start()
    assert running.wait(60)
    asking += [threading.Thread(target=ask, args=(lambda: "too late",)) for _ in range(5)]
    for thread in asking[1:]:
        thread.start()
    until(lambda: len(keeper._jobs) == 5, "they are queued")
    stopping = threading.Thread(target=keeper.stop)
    stopping.start()
    until(lambda: keeper._stopping, "it is told to stop")
    go.set()
    for thread in [*asking, stopping]:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(outcomes) == ["finished"] + ["refused"] * 5


def test_nobody_hangs_on_a_keeper_that_has_ended(keeper: WritingThread) -> None:
    keeper.stop()
    for ask in (keeper.catch_up, lambda: keeper.call(lambda: None)):
        with pytest.raises(StoppingError):
            ask()
    assert keeper.health().state == "stopped"
    keeper.stop()


def test_an_error_in_a_job_is_the_askers(keeper: WritingThread, engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError):
        keeper.call(lambda: 1 // 0)
    (engine.root / "still").write_text("kept")
    assert keeper.catch_up()


def test_the_unexpected_ends_it_visibly(
    keeper: WritingThread,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(keeping, "reconcile", fail)
    (engine.root / "edit").write_text("x")
    until(lambda: not keeper.is_alive(), "it ended")
    assert isinstance(keeper.fatal, WritingThreadError)
    assert isinstance(keeper.fatal.__cause__, RuntimeError)
    assert "nobody thought of this" in str(keeper.health().reason)
    with pytest.raises(StoppingError):
        keeper.catch_up()


def test_a_service_that_fails_says_so(sample: Path, services: Callable[..., Any]) -> None:
    inject = """
from indexer.service import writing_thread
def fail(*arguments, **options): raise RuntimeError("nobody thought of this")
writing_thread.reconcile = fail
"""
    service = services(sample, inject=inject).ready()
    (sample / "edit").write_text("x")
    assert service.wait() == 3
    assert "nobody thought of this" in service.output()


def test_database_that_fails_once_is_opened_again(
    keeper: WritingThread,
    engine: Engine,
    converged: Callable[[], None],
    until: Callable[..., Any],
) -> None:
    failed = []

    def fail(batch: Any) -> None:
        failed.append(batch)
        raise DamagedError("the database has been invalidated")

    # Of this store only: opened again, there is another one.
    engine.trees.record = fail  # type: ignore[method-assign]  # a failure on demand
    (engine.root / "edit").write_text("x")
    converged()
    assert len(failed) == 1
    # The look that recorded it has more to do: it proves that events arrive again.
    until(lambda: keeper.health().state == "watching", "it is well again")
    assert keeper.catch_up()
    # By the thread that writes, as a service does it: frames are being made.
    found = keeper.call(lambda: engine.validate(content=True))
    assert found["valid"], found["errors"]


def test_database_that_keeps_failing_ends_it(
    keeper: WritingThread,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
) -> None:
    monkeypatch.setattr(keeping, "DEGRADED_POLL", 0.05)

    def fail(self: TreeStore, batch: Any) -> None:
        raise DatabaseError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(TreeStore, "record", fail)
        (engine.root / "edit").write_text("x")
        until(lambda: not keeper.is_alive(), "it gave up")
    assert isinstance(keeper.fatal, DatabaseError)
    assert "no space left" in str(keeper.health().reason)


def test_database_that_recovers_later(
    keeper: WritingThread,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
) -> None:
    real, failures = TreeStore.record, []

    def fail_twice(self: TreeStore, batch: Any) -> Any:
        if len(failures) < 2:
            failures.append(batch)
            raise DatabaseError("no space left on device")
        return real(self, batch)

    monkeypatch.setattr(keeping, "DEGRADED_POLL", 0.3)
    monkeypatch.setattr(TreeStore, "record", fail_twice)
    (engine.root / "edit").write_text("x")
    until(lambda: keeper.health().state == "unhealthy", "it says so")
    until(lambda: keeper.health().state in ("watching", "stopped"), "it recovered")
    assert keeper.fatal is None
    assert keeper.catch_up()


def refuse_watches(monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    real = inotify.inotify_add_watch

    def add_watch(fd: int, path: bytes, mask: int) -> int:
        if path.endswith(name):
            inotify.ctypes.set_errno(errno.ENOSPC)
            return -1
        return real(fd, path, mask)

    monkeypatch.setattr(inotify, "inotify_add_watch", add_watch)


def test_too_few_watches_degrade_it_until_there_are_more(
    start: Callable[[], WritingThread],
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
    converged: Callable[[], None],
) -> None:
    monkeypatch.setattr(keeping, "DEGRADED_POLL", 0.1)
    with monkeypatch.context() as patched:
        refuse_watches(patched, b"/pkg0/inner")
        keeper = start()
        assert keeper.health().state == "degraded"
        assert "1 folders cannot be watched" in str(keeper.health().reason)
        (engine.root / "pkg0" / "inner" / "unseen").write_text("found by the next scan")
        converged()
        assert keeper.health().state == "degraded"
    until(lambda: keeper.health().state == "watching", "it recovered")
    (engine.root / "pkg0" / "inner" / "seen").write_text("x")
    assert keeper.catch_up()
    converged()


def test_no_watcher_at_all(
    start: Callable[[], WritingThread],
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
    converged: Callable[[], None],
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(keeping, "DEGRADED_POLL", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(keeping, "start_watcher", fail)
        keeper = start()
        assert keeper.health().state == "degraded"
        assert "no events" in str(keeper.health().reason)
        (engine.root / "unseen").write_text("found by the next scan")
        converged()
        assert not keeper.catch_up()
    until(lambda: keeper.health().state == "watching", "it recovered")
    (engine.root / "seen").write_text("x")
    assert keeper.catch_up()
    converged()


def test_cookies_that_do_not_come_back(
    keeper: WritingThread,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
    converged: Callable[[], None],
) -> None:
    monkeypatch.setattr(keeping, "DEGRADED_POLL", 0.1)
    monkeypatch.setattr(keeping, "COOKIE_PATIENCE", 0.2)
    with monkeypatch.context() as patched:
        patched.setattr(keeper._cookies, "came_by", lambda name: None)
        patched.setattr(keeper._cookies, "release", lambda: None)
        (engine.root / "edit").write_text("x")
        assert not keeper.catch_up(patience=0.2)
        until(lambda: keeper.health().state == "degraded", "it says so")
        converged()
    until(lambda: keeper.health().state == "watching", "it recovered")
    assert keeper.catch_up()


def test_cookies_that_cannot_be_written(
    keeper: WritingThread,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
) -> None:
    def fail(self: Path, *arguments: Any, **options: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(keeping, "DEGRADED_POLL", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "touch", fail)
        assert not keeper.catch_up()
        until(lambda: keeper.health().state == "degraded", "it says so")
        assert "read-only" in str(keeper.health().reason).lower()
    until(lambda: keeper.health().state == "watching", "it recovered")


def test_who_waits_for_a_cookie_is_released_when_events_are_lost(
    keeper: WritingThread,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
) -> None:
    monkeypatch.setattr(keeping, "COOKIE_PATIENCE", 0.2)
    monkeypatch.setattr(keeper._cookies, "came_by", lambda name: None)
    answers: list[bool] = []
    (engine.root / "edit").write_text("x")
    waiting = threading.Thread(target=lambda: answers.append(keeper.catch_up(patience=60)))
    waiting.start()
    until(lambda: keeper._cookies._waiting, "it waits")
    keeper.lost("the queue overflowed")
    waiting.join(60)
    assert answers == [True]
    assert engine.tree.get("edit") is not None


def test_dead_reader_is_replaced(
    keeper: WritingThread, engine: Engine, until: Callable[..., Any]
) -> None:
    for number in range(3):
        watcher = keeper._watcher
        assert isinstance(watcher, inotify.InotifyWatcher)
        # What the reader is told next kills it.
        watcher.on_event = None  # type: ignore[assignment]  # a handler that cannot be called
        (engine.root / f"edit{number}").write_text("x")
        until(lambda old=watcher: keeper._watcher not in (None, old), "there is a new one")
        assert keeper.catch_up()
        assert engine.tree.get(f"edit{number}") is not None


def test_lost_events_are_made_up_for_by_a_scan(
    keeper: WritingThread, engine: Engine, converged: Callable[[], None]
) -> None:
    watcher = keeper._watcher
    assert watcher is not None
    watcher.retain("", lambda path: False)
    (engine.root / "pkg0" / "unseen").write_text("x")
    keeper.lost("on purpose")
    converged()
    assert keeper._watcher is not watcher
    assert keeper.health().watches > 5


def test_file_that_never_settles_does_not_hold_up_who_asks(
    keeper: WritingThread, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsettled(engine: Engine, dirty: Any, **options: Any) -> Any:
        root, changes, _ = reconcile(engine, dirty, **options)
        return root, changes, ["README.md"]

    with monkeypatch.context() as patched:
        patched.setattr(keeping, "reconcile", unsettled)
        (engine.root / "README.md").write_text("x")
        assert not keeper.catch_up()
        assert keeper.health().state == "watching"
    assert keeper.catch_up()


def test_too_many_paths_are_one_scan(keeper: WritingThread, engine: Engine) -> None:
    keeper._debounce.max_pending = 50
    for number in range(200):
        (engine.root / "pkg1" / f"many{number}").write_text("x")
    assert keeper.catch_up()
    assert engine.tree.get("pkg1/many199") is not None
    assert keeper.catch_up()


def test_ignored_paths_do_not_wake_it(keeper: WritingThread, engine: Engine) -> None:
    (engine.root / ".gitignore").write_text("*.log\n")
    assert keeper.catch_up()
    (engine.root / "pkg0" / "a.log").write_text("x")
    (engine.root / "node_modules").mkdir()
    (engine.root / "node_modules" / ".gitignore").write_text("*")
    with keeper._cookies.sent() as seen:
        assert seen.wait(60)
    assert not keeper.health().pending


def test_rules_not_yet_read_ignore_nothing(keeper: WritingThread, engine: Engine) -> None:
    """Between the listing of a folder and the reading of its rules, every event counts."""
    (engine.root / "pkg0" / ".gitignore").write_text("*.log\n")
    assert keeper.catch_up()
    assert engine.disk.scopes.surely_ignores("pkg0/a.log", False)
    keeper.call(lambda: keeper._watch("pkg0"))
    assert not engine.disk.scopes.surely_ignores("pkg0/a.log", False)


def test_stopping_breaks_off_a_walk(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any]
) -> None:
    keeper = WritingThread(engine, timing=FAST)
    walking, go = threading.Event(), threading.Event()
    real = keeper._watch

    def watch(path: str) -> None:
        walking.set()
        go.wait(60)
        real(path)

    monkeypatch.setattr(keeper, "_watch", watch)
    keeper.start()
    assert walking.wait(60)
    stopping = threading.Thread(target=keeper.stop)
    stopping.start()
    until(lambda: keeper._stopping, "it is told to stop")
    go.set()
    stopping.join(60)
    assert not keeper.is_alive()
    assert keeper.fatal is None
    assert engine.trees.head() is None
