"""Rows about the tree: scan, status, one edit, memory and start-up."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import REPOSITORY, Row, merkle, run, take_turns
from benchmarks.trees import TreeSpec, edit_one, make_tree
from indexer.engine.tree.scan import reconcile, scan
from indexer.engine.workspace import Engine
from indexer.service.client import connect

GIT_ENV = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def _forget(root: Path) -> None:
    shutil.rmtree(root / ".merkle", ignore_errors=True)


def _floor(mode: str, root: Path) -> Callable[[], object]:
    return lambda: run([sys.executable, "-m", "benchmarks.floor", mode, root], cwd=REPOSITORY)


def _git(root: Path, *arguments: str) -> Callable[[], object]:
    return lambda: run(["git", "-C", root, *arguments], env=GIT_ENV)


def scan_rows(root: Path, rounds: int) -> Iterator[Row]:
    """Cold scan, scan with nothing changed, against the floor and against git."""
    warm = _floor("hash", root)
    warm()
    cold, floor = take_turns(
        [(lambda: _forget(root), lambda: run(merkle(root, "scan"))), (None, warm)], rounds
    )
    yield Row("cold scan, process start to exit", cold, "s", "walk+stat+read+xxh3", floor, 2.0)

    shutil.rmtree(root / ".git", ignore_errors=True)
    _git(root, "init", "-q")()
    started = time.perf_counter()
    _git(root, "add", "-A")()
    _git(root, "write-tree")()
    git_cold = time.perf_counter() - started
    yield Row("git add -A && git write-tree", git_cold, "s", "cold scan", cold, 5.0, at_least=True)

    again, walk, status = take_turns(
        [
            (None, lambda: run(merkle(root, "scan"))),
            (None, _floor("walk", root)),
            (None, _git(root, "status", "--porcelain")),
        ],
        rounds,
    )
    yield Row("scan with nothing changed", again, "s", "walk+stat", walk, 2.0)
    yield Row("scan with nothing changed", again, "s", "git status", status, None)


@contextmanager
def service(root: Path) -> Iterator[int]:
    """A running service; yields its pid."""
    process = subprocess.Popen(
        merkle(root, "--quiet", "watch"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    try:
        while connect(root) is None:
            if process.poll() is not None:
                raise RuntimeError("the service did not start")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def service_rows(root: Path, rounds: int) -> Iterator[Row]:
    """`status` through the service, and what the service weighs; the tree alone, no frames."""
    (root / "merkle.toml").write_text("[types]\n")
    with service(root) as pid:
        # The first status waits for the first scan.
        run(merkle(root, "status"))
        through, git = take_turns(
            [
                (None, lambda: run(merkle(root, "status"))),
                (None, _git(root, "status", "--porcelain")),
            ],
            rounds,
        )
        yield Row("status through the service", through, "s", "git status", git, 0.5)
        yield Row("service memory", resident_megabytes(pid), "MB", "300 MB", 300, 1.0)
    (root / "merkle.toml").unlink()


def edit_seconds(root: Path, spec: TreeSpec, edits: int) -> float:
    """Median engine time of one edited file: look, hash, path to the root, transaction."""
    times = []
    with Engine.create(root) as engine:
        scan(engine)
        _ = engine.tree
        for number in range(edits):
            path = edit_one(root, spec, number * 7919 % len(spec.files))
            dirty = [(str(path), False)]
            started = time.perf_counter()
            _, changes, _ = reconcile(engine, dirty)
            times.append(time.perf_counter() - started)
            assert changes
    return statistics.median(times)


def edit_rows(big: Path, big_spec: TreeSpec, work: Path, edits: int) -> Iterator[Row]:
    """One edit in trees of different sizes."""
    small_spec = make_tree(work / "t1k", 1000)
    flat_spec = make_tree(work / "flat10k", 10_000, flat=True)
    small = edit_seconds(work / "t1k", small_spec, edits)
    flat = edit_seconds(work / "flat10k", flat_spec, edits)
    large = edit_seconds(big, big_spec, edits)
    yield Row("one edit, engine time, 100k files", large * 1e3, "ms", "1k files", small * 1e3, 1.5)
    yield Row("one edit, flat folder of 10k files", flat * 1e3, "ms", "1k files", small * 1e3, 1.5)


def start_rows(rounds: int) -> Iterator[Row]:
    """How soon a command answers."""
    (version,) = take_turns([(None, lambda: run([*merkle(Path(), "--version")]))], rounds)
    yield Row("merkle --version", version * 1e3, "ms", "80 ms", 80, 1.0)
