"""Many writers and readers of frames through one service, also while it is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import ExitCode
from indexer.service.client import connect
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked
from tests.support.waiting import PATIENCE

FILES = [f"src/module_{number}.py" for number in range(12)]

WRITER = """
import json, random, sys, time
from indexer.errors import MerkleError
from indexer.service.workspace import Workspace

# Write notes and read them back until the time is up; say which were acknowledged.
root, number, seconds, files = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
choose = random.Random(number)
deadline = time.monotonic() + seconds
written = []
count = 0
while time.monotonic() < deadline:
    node = choose.choice(files)
    count += 1
    try:
        # As a command does: who kept a workspace open while no service runs would own it.
        with Workspace.open(root, wait=60) as workspace:
            answer = workspace.put_frame(
                node, f"note {count} by {number}", frame_type="note", agent=f"agent-{number}"
            )
            written.append((node, answer["frame_id"]))
            read = workspace.get_head(node, frame_type="note", agent=f"agent-{number}")
            assert read["heads"][0]["frame_id"] == answer["frame_id"]
    except MerkleError:
        # The service was killed between two answers: only acknowledged writes count.
        time.sleep(0.05)
print(json.dumps(written))
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    for number, name in enumerate(FILES):
        (root / name).write_text(f'"""Module {number}."""\n\n\ndef f_{number}():\n    return 1\n')
    with Engine.create(root) as engine:
        engine.scan()
        for number in range(8):
            engine.add_agent(f"agent-{number}", "writer")
    return root


def _start(root: Path) -> Forked:
    """Start the service; while eight others take the index in turns, it may have to ask again."""
    deadline = time.monotonic() + 60
    while True:
        process = Forked(
            [sys.executable, "-m", "indexer.cli", "-C", str(root), "--quiet", "watch"],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        while process.poll() is None:
            if connect(root) is not None:
                return process
            assert time.monotonic() < deadline
            time.sleep(0.02)
        _, errors = process.communicate()
        assert process.returncode == ExitCode.LOCKED, errors.decode()


def _stop(process: Forked) -> None:
    process.terminate()
    process.wait(60)
    if process.stderr:
        process.stderr.close()


def _check(root: Path, written: dict[int, list[tuple[str, str]]]) -> None:
    with Engine(root) as engine:
        for number, frames in written.items():
            known: dict[str, list[str]] = {}
            last: dict[str, str] = {}
            for node, frame_id in frames:
                if node not in known:
                    listed = engine.list_frames(node, frame_type="note")["frames"]
                    known[node] = [f["frame_id"] for f in listed if f["agent"] == f"agent-{number}"]
                assert frame_id in known[node]
                last[node] = frame_id
            for node, newest in last.items():
                # A write that was under way at the end may have come after the last answer.
                assert known[node].index(newest) <= 1
        found = engine.validate()
        assert found["valid"], found
        assert json.dumps(found)


def _run_writers(root: Path, seconds: float, meanwhile: Any) -> dict[int, list[tuple[str, str]]]:
    writers = [
        Forked(
            [sys.executable, "-c", WRITER, str(root), str(number), str(seconds), *FILES],
            stdout=subprocess.PIPE, text=True,
        )
        for number in range(8)
    ]  # fmt: skip
    try:
        meanwhile()
        told = [writer.communicate(timeout=seconds + PATIENCE)[0] for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 8
    return {number: json.loads(one) for number, one in enumerate(told)}


def _load(root: Path, seconds: float) -> None:
    process = _start(root)
    try:
        written = _run_writers(root, seconds, lambda: None)
    finally:
        _stop(process)
    assert sum(map(len, written.values())) >= 8
    _check(root, written)


def _kill_repeatedly(root: Path, kills: int) -> None:
    holder = [_start(root)]
    pauses = random.Random(7)

    def kill_and_restart() -> None:
        for _ in range(kills):
            time.sleep(pauses.uniform(0.2, 1.0))
            holder[0].send_signal(signal.SIGKILL)
            holder[0].wait()
            if holder[0].stderr:
                holder[0].stderr.close()
            holder[0] = _start(root)

    try:
        written = _run_writers(root, kills * 1.5, kill_and_restart)
    finally:
        _stop(holder[0])
    assert any(written.values())
    _check(root, written)


def test_eight_processes_write_and_read_through_the_service(workspace: Path) -> None:
    _load(workspace, 0.3)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_eight_processes_write_and_read_for_a_minute(workspace: Path) -> None:
    _load(workspace, 60)


def test_acknowledged_frames_survive_a_killed_service(workspace: Path) -> None:
    _kill_repeatedly(workspace, 1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_acknowledged_frames_survive_thirty_kills(workspace: Path) -> None:
    _kill_repeatedly(workspace, 30)
