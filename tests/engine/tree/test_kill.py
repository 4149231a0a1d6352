"""kill -9 at any moment: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indexer.store.layout import initialise
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked

# Edits and records without end, telling each root only when it has been recorded.
WORK = """
import itertools, json, sys
from pathlib import Path
from tests.support.engines import Engine
root, seed = Path(sys.argv[1]), int(sys.argv[2])
print("started", flush=True)
with Engine(root) as engine:
    for step in itertools.count(seed):
        dirty = []
        for number in range(step % 5, 400, 5):
            path = f"d{number % 9}/f{number}"
            full = root / path
            if (number + step) % 11 == 0:
                full.unlink(missing_ok=True)
            else:
                full.parent.mkdir(exist_ok=True)
                full.write_bytes(b"%d %d" % (step, number))
            dirty.append((path, False))
        if step % 2 or not engine.log(1)["roots"]:
            engine.scan()
        else:
            engine.reconcile(dirty)
        if step % 3 == 0:
            engine.recorded.flush()
        newest = engine.log(1)["roots"][0]
        print(json.dumps([newest["seq"], newest["root"]]), flush=True)
"""


def run_and_kill(root: Path, seed: int, delay: float) -> list[tuple[int, str]]:
    """Let it work for a moment, end it, and return what it acknowledged."""
    process = Forked(
        [sys.executable, "-c", WORK, str(root), str(seed)], cwd=REPOSITORY, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        started = process.stdout.readline()
        timer = threading.Timer(delay, process.kill)
        timer.start()
        told = process.stdout.read()
        timer.join()
        error = process.stderr.read()
    assert started == "started\n", error
    assert process.returncode == -9, error
    # The last line may have been cut off in the middle.
    whole = told[: told.rfind("\n") + 1].splitlines()
    return [(seq, root_id) for seq, root_id in map(json.loads, whole)]


def check(root: Path, acknowledged: dict[int, str]) -> int:
    """Open what is left; returns the number of the newest root."""
    with Engine(root, wait=10) as engine:
        recorded = {each["seq"]: each["root"] for each in engine.log(1_000_000)["roots"]}
        for seq, root_id in acknowledged.items():
            assert recorded.get(seq) == root_id, "acknowledged, so it is there"
        newest = max(recorded, default=0)
        assert sorted(recorded) == list(range(1, newest + 1))
        assert newest <= max(acknowledged, default=0) + 1, "at most the batch in flight is more"
        if recorded:
            report = engine.validate()
            assert report["valid"], report
            for seq in {1, newest, (newest + 1) // 2}:
                assert engine.trees.tree_at(seq).root_id.hex() == recorded[seq]
        engine.scan()
        report = engine.validate(content=True)
        assert report["valid"], report
        return int(engine.log(1)["roots"][0]["seq"])


def kill_many(root: Path, times: int, chance: random.Random) -> None:
    for number in range(300):
        folder = root / f"start{number % 20}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_bytes(b"%d" % number)
    initialise(root)
    acknowledged: dict[int, str] = {}
    for number in range(times):
        told = run_and_kill(root, number * 1000, chance.uniform(0.0, 0.35))
        acknowledged.update(told)
        newest = check(root, acknowledged)
        # Our own scan has been acknowledged to us as well.
        with Engine(root, wait=10) as engine:
            acknowledged[newest] = engine.log(1)["roots"][0]["root"]


def test_killed_a_few_times(workspace: Path) -> None:
    kill_many(workspace, 5, random.Random(5))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_killed_a_hundred_times(workspace: Path) -> None:
    kill_many(workspace, 100, random.Random())
