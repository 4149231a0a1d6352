"""kill -9 in the middle of a run: what was journalled is not asked for again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.asking import OUTLINED, Asking
from tests.support.model_server import ModelServer, answer, held
from tests.support.processes import Forked
from tests.support.space import Space, python

SCRIPT = """
import ctypes, sys
ctypes.CDLL(None).prctl(1, 9)
from pathlib import Path
from tests.support.engines import Engine
with Engine(Path(sys.argv[1])) as engine:
    engine.regenerate(yes=True)
"""
FILES = {f"p{number % 3}/m{number}.py": python(f"f{number}") for number in range(24)}
CONCURRENCY = 4


def run(root: Path) -> Forked:
    return Forked(
        [sys.executable, "-c", SCRIPT, os.fspath(root)],
        env={**os.environ, "PYTHONPATH": os.getcwd()}, stderr=subprocess.PIPE,
    )  # fmt: skip


def space_of(asking: Asking) -> Space:
    return asking(FILES, types=OUTLINED, llm=f"concurrency = {CONCURRENCY}")


def test_a_kill_costs_at_most_what_was_under_way(asking: Asking, server: ModelServer) -> None:
    space = space_of(asking)
    space.engine.close()
    gate = threading.Event()
    # Ten answers, then silence: the process hangs with its calls under way.
    server.then(*[answer] * 10)
    server.always = held(gate)
    process = run(space.root)
    server.wait_for(10 + CONCURRENCY)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gate.set()
    server.always = None
    space.open()
    # With all four slots hanging, every one of the ten answers had been taken in.
    document = space.engine.regenerate()
    assert document["failed"] == []
    assert document["calls"] == 24 - 10
    assert server.calls == 24 + CONCURRENCY
    assert set(space.labels("summary").values()) == {"fresh"}
    space.valid()


def test_a_kill_and_a_lost_database(asking: Asking, server: ModelServer) -> None:
    from tests.support.asking import lose_database

    space = space_of(asking)
    space.engine.close()
    gate = threading.Event()
    server.then(*[answer] * 6)
    server.always = held(gate)
    process = run(space.root)
    server.wait_for(6 + CONCURRENCY)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gate.set()
    server.always = None
    lose_database(space.root)
    space.open()
    space.engine.scan()
    assert space.engine.regenerate()["calls"] == 24 - 6
    space.valid()


@pytest.mark.soak
def test_kills_at_random_moments(asking: Asking, server: ModelServer) -> None:
    space = space_of(asking)
    space.engine.close()
    chance = random.Random(11)
    kills = 0
    for _ in range(6):
        process = run(space.root)
        try:
            process.wait(timeout=0.8 + chance.random())
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.communicate()
        time.sleep(0)
        space.open()
        assert space.engine.validate()["errors"] == []
        space.engine.close()
    space.open()
    space.engine.regenerate()
    assert set(space.labels("summary").values()) == {"fresh"}
    # A kill costs at most the calls that were under way.
    assert 24 <= server.calls <= 24 + kills * CONCURRENCY
