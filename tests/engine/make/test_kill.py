"""kill -9 in the middle of a regeneration: what was stored is right, and a rerun completes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.errors import LockedError
from tests.support.engines import Engine
from tests.support.processes import Forked
from tests.support.space import Space, python

SCRIPT = """
import sys
from pathlib import Path
from indexer.engine.make import one_pass as regeneration
from tests.support.engines import Engine

regeneration.CHUNK = 4
stop_after = int(sys.argv[2])
with Engine(Path(sys.argv[1])) as engine:
    engine.scan()
    engine.add_agent("ann", "writer")
    written = engine.put_frame("src/p0/m0.py", "kept", frame_type="note", agent="ann")
    print("noted", written["frame_id"], flush=True)
    done = 0
    def progress(count):
        global done
        done += 1
        if done == stop_after:
            print("here", flush=True)
            sys.stdin.read()
    engine.regenerate(progress=progress)
print("end", flush=True)
"""


def run(root: Path, stop_after: int) -> Forked:
    return Forked(
        [sys.executable, "-c", SCRIPT, os.fspath(root), str(stop_after)],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def check_kill(space: Space, stop_after: int) -> None:
    for number in range(24):
        space.write(f"src/p{number % 4}/m{number}.py", python(f"f{number}"))
    space.engine.close()
    process = run(space.root, stop_after)
    assert process.stdout is not None
    noted = process.stdout.readline().split()
    assert noted[0] == "noted"
    assert process.stdout.readline() == "here\n"
    # Another process waits for the lock, and is told who has it.
    with pytest.raises(LockedError) as locked:
        Engine(space.root, wait=0.2)
    assert str(process.pid) in locked.value.message
    process.send_signal(signal.SIGKILL)
    process.communicate()
    space.open()
    assert space.engine.validate()["errors"] == []
    assert space.frame("src/p0/m0.py", "note")["frame_id"] == noted[1]
    made = space.engine.status()["types"].get("outline", {"total": 0})["total"]
    assert made == 4 * stop_after
    log = space.events()
    assert len(log) == 30 - made
    assert set(space.labels().values()) == {"fresh"}
    assert space.events() == []
    space.valid()
    clone = space.clone()
    try:
        clone.settle()
        for path in ("", "src", "src/p0/m0.py"):
            frame_id = clone.frame(path)["frame_id"]
            assert space.frame(path, "outline")["frame_id"] == frame_id
    finally:
        clone.close()


def test_regeneration_is_resumable_after_a_kill(space: Space) -> None:
    check_kill(space, 3)


@pytest.mark.soak
@pytest.mark.parametrize("stop_after", [1, 2, 4, 5, 6, 7])
def test_regeneration_is_resumable_after_a_kill_anywhere(space: Space, stop_after: int) -> None:
    check_kill(space, stop_after)


@pytest.mark.soak
def test_kills_at_random_moments_lose_nothing_acknowledged(space: Space) -> None:
    for number in range(24):
        space.write(f"src/p{number % 4}/m{number}.py", python(f"f{number}"))
    space.engine.close()
    chance = random.Random(7)
    for turn in range(12):
        space.write("src/p0/m0.py", python("m", args=f"x{turn}"))
        process = run(space.root, 10**9)
        assert process.stdout is not None
        first = process.stdout.readline().split()
        try:
            process.wait(timeout=chance.random() * 0.4)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        space.open()
        assert space.engine.validate()["errors"] == []
        assert space.frame("src/p0/m0.py", "note")["frame_id"] == first[1]
        space.engine.close()
    space.open()
    space.events()
    assert set(space.labels().values()) == {"fresh"}
    space.valid()


def test_a_second_process_waits_for_the_lock(space: Space) -> None:
    space.write("src/p0/m0.py", python())
    space.engine.scan()
    process = run(space.root, 10**9)
    assert process.stdout is not None
    # It cannot have got further while this process holds the lock.
    space.engine.regenerate()
    space.engine.close()
    assert process.stdout.readline().startswith("noted")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.endswith("end\n")
    space.open()
    assert space.events() == []
    space.valid()
