"""Rows about a real tree, which is copied first: what people feel, against git and plain Python.

The rows about scans, status and validation read the whole tree before each round, so that all
contenders find it in the cache; those about a service and an edit come right after.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.measure import REPOSITORY, Row, run, take_turns
from benchmarks.tree_rows import GIT_ENV
from indexer.service.client import connect

DROP = Path("/proc/sys/vm/drop_caches")
_COMMENTS = {".py": "#", ".go": "//", ".js": "//", ".ts": "//", ".rs": "//", ".java": "//"}
_LARGEST_EDITED = 50_000
_STARTING = 300.0
"""Seconds after which a service that cannot be reached is taken for one that never will be."""


SETTLED = 2.0
"""Seconds until a service that has started has its ready process, too: commands come later."""


@dataclass(frozen=True, slots=True)
class Side:
    """One state of the program, and the copy of the tree that it indexes."""

    name: str
    source: Path
    tree: Path

    def merkle(self, *arguments: str, findings: bool = False) -> Callable[[], object]:
        """A command by this program on this copy, to its end; findings are a failure or not."""
        command = [sys.executable, "-P", "-m", "indexer.cli", "-C", str(self.tree), *arguments]
        fine = (0, 1) if findings else (0,)
        return lambda: run(command, env=self.environment, fine=fine, cwd=self.tree)

    def first_pass(self) -> Callable[[], object]:
        """`watch --once`; a file of which no frame can be made is no failure here."""
        return self.merkle("watch", "--once", findings=True)

    @property
    def environment(self) -> dict[str, str]:
        """What makes Python import this program."""
        return {"PYTHONPATH": str(self.source)}

    def forget(self) -> None:
        """Remove the index."""
        shutil.rmtree(self.tree / ".merkle", ignore_errors=True)


def compiled(source: Path) -> Path:
    """A program whose bytecode is there, as an installation has it, whatever this one may write."""
    run([sys.executable, "-m", "compileall", "-q", source / "indexer"])
    return source


def copied(tree: Path, target: Path) -> Path:
    """A copy with a repository of its own, so that `git status` compares with a full index."""
    shutil.copytree(
        tree, target, symlinks=True, ignore=shutil.ignore_patterns(".git", ".merkle")
    )  # fmt: skip
    identity = ["-c", "user.name=benchmarks", "-c", "user.email=benchmarks@localhost"]
    # So many new objects would be packed beside everything that is measured next.
    identity += ["-c", "gc.auto=0", "-c", "maintenance.auto=false"]
    for arguments in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "all"]):
        run(["git", "-C", target, *identity, *arguments], env=GIT_ENV)
    # Otherwise the first to sync anything, which the floor never does, writes the copy too.
    os.sync()
    return target


def small_files(root: Path, files: int) -> Path:
    """Very many very small files, 100 to a folder."""
    for number in range(files):
        folder = root / f"{number // 10_000:03}" / f"{number // 100 % 100:02}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number % 100:02}.txt").write_text(f"the file of number {number}\n")
    return root


def rows(tree: Path, work: Path, rounds: int, *, drop_caches: bool) -> Iterator[Row]:
    """Every row of the table in benchmarks/README.md that is about scans and status."""
    rounds = max(3, rounds)
    side = Side("here", compiled(REPOSITORY), copied(tree, work / "real"))
    yield from _scan_rows(side, rounds, drop_caches)
    yield from _service_rows(side, rounds)
    yield from _edit_rows(side, rounds)


def floor(mode: str, tree: Path) -> Callable[[], object]:
    return lambda: run([sys.executable, "-m", "benchmarks.floor", mode, tree], cwd=REPOSITORY)


def _git_status(side: Side) -> Callable[[], object]:
    return lambda: run(["git", "-C", side.tree, "status", "--porcelain"], env=GIT_ENV)


def _scan_rows(side: Side, rounds: int, drop_caches: bool) -> Iterator[Row]:
    hashing, scan = floor("hash", side.tree), side.merkle("scan")
    hashing()
    first, least = take_turns([(side.forget, scan), (None, hashing)], rounds)
    yield Row("first scan", first, "s", "walk+stat+read+xxh3", least, 2.0)
    if drop_caches:

        def drop() -> None:
            os.sync()
            DROP.write_text("3\n")

        def drop_all() -> None:
            side.forget()
            drop()

        cold, least = take_turns([(drop_all, scan), (drop, hashing)], rounds)
        yield Row("first scan, caches dropped", cold, "s", "walk+stat+read+xxh3", least, None)
    scan()
    # git looks again at files as young as its index, once.
    _git_status(side)()
    again, status, validate, git, least = take_turns(
        [
            (hashing, scan),
            (None, side.merkle("status")),
            (None, side.merkle("validate", "--content")),
            (None, _git_status(side)),
            (None, hashing),
        ],
        rounds,
    )
    yield Row("scan with nothing changed", again, "s", "git status", git, 2.0)
    yield Row("status without a service", status, "s", "git status", git, 2.5)
    yield Row("validate --content", validate, "s", "walk+stat+read+xxh3", least, 1.3)


@contextlib.contextmanager
def without_frames(side: Side) -> Iterator[None]:
    """A workspace that declares no types, so that its service has nothing to make."""
    settings = side.tree / "merkle.toml"
    had = settings.read_bytes() if settings.exists() else None
    settings.write_text("[types]\n")
    try:
        yield
    finally:
        settings.unlink()
        if had is not None:
            settings.write_bytes(had)


def start_seconds(side: Side) -> float:
    """From the start of a service to its first answer; it is ended again."""
    started = time.perf_counter()
    with Service(side):
        side.merkle("status")()
        return time.perf_counter() - started


def _service_rows(side: Side, rounds: int) -> Iterator[Row]:
    """From the start of a service to its first answer, and what it answers then."""
    with without_frames(side):
        side.merkle("scan")()
        starts, scans = [], []
        for _ in range(rounds):
            (alone,) = take_turns([(None, side.merkle("scan"))], 1)
            scans.append(alone)
            starts.append(start_seconds(side))
        yield Row(
            "service start to first answer", statistics.median(starts), "s",
            "scan with nothing changed", statistics.median(scans), 1.5,
        )  # fmt: skip
        with Service(side):
            time.sleep(SETTLED)
            scan, status, git = take_turns(
                [(None, side.merkle("scan")), (None, side.merkle("status")),
                 (None, _git_status(side))],
                rounds * 2,
            )  # fmt: skip
        yield Row("scan with a service", scan, "s", "git status", git, 0.5)
        yield Row("status with a service", status, "s", "git status", git, 0.4)


class Service:
    """A running `merkle watch`, ended by its id."""

    def __init__(self, side: Side) -> None:
        self._side = side

    def __enter__(self) -> int:
        command = [sys.executable, "-P", "-m", "indexer.cli", "-C", str(self._side.tree)]
        self._process = subprocess.Popen(
            [*command, "--quiet", "watch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **self._side.environment}, cwd=self._side.tree,
        )  # fmt: skip
        deadline = time.monotonic() + _STARTING
        while connect(self._side.tree) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"the service of {self._side.name} did not start as it does now")
            time.sleep(0.01)
        return self._process.pid

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.wait(60)


def _edit_rows(side: Side, rounds: int) -> Iterator[Row]:
    """One edit that leaves the outline as it is, by `watch --once` when all frames are there."""
    if _source_of(side.tree) is None:
        return
    edit, once = edits(side.tree), side.first_pass()
    once()
    pair, library = take_turns(
        [(edit, once), (None, lambda: run([sys.executable, "-c", "import duckdb"]))], rounds
    )
    yield Row("one body edit, watch --once", pair, "s", "import duckdb", library, 3.0)


def edits(tree: Path) -> Callable[[], None]:
    """What appends one more comment to a source file with each call."""
    edited, numbers = _source_of(tree), count()
    if edited is None:
        raise RuntimeError(f"{tree} has no source file of a language that is known here")

    def edit() -> None:
        with edited.open("a") as file:
            file.write(f"{_COMMENTS[edited.suffix]} edited {next(numbers)}\n")

    return edit


def _source_of(tree: Path) -> Path | None:
    """The largest source file that is not very large; the first by name of several."""
    found: list[tuple[int, str]] = []
    for folder, below, names in os.walk(tree):
        below[:] = [name for name in below if name not in (".git", ".merkle")]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.splitext(name)[1] in _COMMENTS and not os.path.islink(path):
                size = os.path.getsize(path)
                if size <= _LARGEST_EDITED:
                    found.append((-size, path))
    return Path(min(found)[1]) if found else None
