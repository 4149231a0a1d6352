"""The owner's lock: one process at a time, named while it holds it, gone when it dies."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indexer.errors import LockedError, UncheckedError
from indexer.store.lock import OwnerLock, holder
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked

HOLD = """
import sys, time
from pathlib import Path
from indexer.store.lock import OwnerLock
lock = OwnerLock(Path(sys.argv[1]), "test")
lock.acquire(5)
print("held", flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def hold(path: Path) -> Forked:
    process = Forked(
        [sys.executable, "-c", HOLD, str(path)], cwd=REPOSITORY, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_is_told_who_holds_it(path: Path) -> None:
    with hold(path) as process:
        with pytest.raises(LockedError, match=rf"process {process.pid} \(test\)") as caught:
            OwnerLock(path, "command").acquire(0.05)
        assert caught.value.exit_code == 6
        assert str(process.pid) in caught.value.hint
        process.kill()


def test_it_goes_with_its_holder(path: Path) -> None:
    with hold(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        lock = OwnerLock(path, "command")
        lock.acquire(5)
        assert holder(path) == (os.getpid(), "command")
        lock.release()


def test_whoever_waits_gets_it(path: Path) -> None:
    with hold(path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"
        with OwnerLock(path, "command") as lock:
            lock.acquire(0)
        process.kill()


def test_within_one_process_too(path: Path) -> None:
    first, second = OwnerLock(path, "one"), OwnerLock(path, "two")
    first.acquire(0)
    with pytest.raises(LockedError):
        second.acquire(0)
    first.release()
    first.release()
    second.acquire(0)
    assert second.identity() == (path.stat().st_dev, path.stat().st_ino)
    second.release()


def test_letting_go_leaves_no_name(path: Path) -> None:
    lock = OwnerLock(path, "one")
    lock.acquire(0)
    assert holder(path) == (os.getpid(), "one")
    lock.release()
    assert holder(path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', "\xff"])
def test_an_unreadable_note_names_nobody(path: Path, text: str) -> None:
    path.write_bytes(text.encode("latin-1"))
    assert holder(path) is None
    assert holder(path.parent / "missing") is None


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UncheckedError, match="cannot open"):
        OwnerLock(tmp_path / "no" / "such" / "folder" / "lock", "x").acquire(0)


def test_a_second_engine_is_refused_and_harms_nothing(workspace: Path) -> None:
    with Engine.create(workspace) as engine:
        first = engine.scan()
        with pytest.raises(LockedError, match=str(os.getpid())):
            Engine(workspace, wait=0)
        assert engine.scan()["root"] == first["root"]
    with Engine(workspace, wait=0) as engine:
        assert engine.scan()["root"] == first["root"]


def test_an_engine_that_could_not_open_lets_go(workspace: Path) -> None:
    Engine.create(workspace).close()
    (workspace / ".merkle" / "index.duckdb").write_bytes(b"garbage" * 10_000)
    for _ in range(2):
        with pytest.raises(Exception, match="valid DuckDB"):
            Engine(workspace, wait=0)
    lock = OwnerLock(workspace / ".merkle" / "lock", "test")
    lock.acquire(0)
    lock.release()


def test_a_holder_that_has_not_written_its_name_yet_is_waited_for(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        note = b'{"pid": 4711, "role": "scan"}'
        late = threading.Timer(0.05, os.pwrite, (descriptor, note, 0))
        late.start()
        with pytest.raises(LockedError, match="in use by process 4711"):
            OwnerLock(path, "command").acquire(0)
        late.join()
    finally:
        os.close(descriptor)
