"""This state of the program beside a commit of it: every row of the tables, taking turns.

Each has its own copy of the tree. What is asked of a service is asked by the program that the
service belongs to, in a process of its own that stays (`asker`).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.context_rows import BUDGET, resident_mb
from benchmarks.measure import REPOSITORY, Row, cpu_seconds, run
from benchmarks.question_rows import ASKED, asked_alone, p95, questions
from benchmarks.real_rows import (
    SETTLED,
    Service,
    Side,
    compiled,
    copied,
    edits,
    floor,
    start_seconds,
    without_frames,
)

Sides = tuple[Side, Side]


def rows(tree: Path, work: Path, rounds: int, commit: str) -> Iterator[Row]:
    """Every row, on a copy of the tree for each of the two."""
    other = work / "program"
    git = ["git", "-C", str(REPOSITORY)]
    run([*git, "worktree", "add", "--detach", other, commit])
    try:
        named = run([*git, "rev-parse", "--short", commit]).stdout.decode().strip()
        sides = (
            Side("here", compiled(REPOSITORY), copied(tree, work / "here")),
            Side(named, compiled(other), copied(tree, work / "there")),
        )
        for side in sides:
            floor("hash", side.tree)()
        yield from _command_rows(sides, max(3, rounds))
        yield from _service_rows(sides, max(3, rounds))
        yield from _pass_rows(sides, max(3, rounds))
        yield from _served_rows(sides)
    finally:
        run([*git, "worktree", "remove", "--force", other])


def _command_rows(sides: Sides, rounds: int) -> Iterator[Row]:
    yield from _commands("first scan", sides, rounds, "scan", prepare=Side.forget)
    yield from _commands("scan with nothing changed", sides, rounds, "scan")
    yield from _commands("status without a service", sides, rounds, "status")
    yield from _commands("validate --content", sides, rounds, "validate", "--content")


def _service_rows(sides: Sides, rounds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        for side in sides:
            stack.enter_context(without_frames(side))
            side.merkle("scan")()
        starts = [[start_seconds(side) for side in sides] for _ in range(rounds)]
        yield _row("service start to first answer", sides, "s", starts)
        for side in sides:
            stack.enter_context(Service(side))
        time.sleep(SETTLED)
        yield from _commands("scan with a service", sides, rounds * 2, "scan")
        yield from _commands("status with a service", sides, rounds * 2, "status")


def _pass_rows(sides: Sides, rounds: int) -> Iterator[Row]:
    """A first pass, the questions after it, and one edit; the last two take the index it made."""
    asked = questions(sides[0].tree, max(4, rounds + 1))
    passes: list[list[float]] = []
    first: list[list[float]] = []
    for _ in range(rounds):
        passes.append([])
        first.append([])
        for side in sides:
            side.forget()
            passes[-1].append(_seconds(side.first_pass()))
            first[-1].append(asked_alone(side, asked[0]))
    yield _row("first pass, watch --once", sides, "s", passes)
    yield _row("first question after a first pass", sides, "s", first)
    alone = [[asked_alone(side, question) for side in sides] for question in asked[1:]]
    yield _row("compose without a service", sides, "s", alone)
    edit = {side.name: edits(side.tree) for side in sides}
    yield from _commands(
        "one body edit, watch --once", sides, rounds, "watch", "--once",
        prepare=lambda side: edit[side.name](), findings=True,
    )  # fmt: skip


def _served_rows(sides: Sides) -> Iterator[Row]:
    """Questions to two services, one and then the other."""
    with ExitStack() as stack:
        services = [stack.enter_context(Service(side)) for side in sides]
        askers = [stack.enter_context(_Asker(side)) for side in sides]
        for asker in askers:
            asker.seconds("warm up")
        times = [
            [asker.seconds(question) * 1e3 for asker in askers]
            for question in questions(sides[0].tree, ASKED)
        ]
        memory = [resident_mb(process) for process in services]
    here, there = map(list, zip(*times, strict=True))
    name = sides[1].name
    yield _row("compose in a service, median", sides, "ms", times)
    yield Row("compose in a service, p95", p95(here), "ms", name, p95(there), None)
    yield Row(f"service memory after {ASKED} questions", memory[0], "MB", name, memory[1], None)


class _Asker:
    """A process of one side that stays, and takes the time of questions to its service."""

    def __init__(self, side: Side) -> None:
        self._side = side

    def __enter__(self) -> _Asker:
        script = REPOSITORY / "benchmarks" / "asker.py"
        self._process = subprocess.Popen(
            [sys.executable, "-P", script, self._side.tree, str(BUDGET)],
            env={**os.environ, **self._side.environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def seconds(self, question: str) -> float:
        """How long the answer took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(question, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def __exit__(self, *exception: object) -> None:
        self._process.communicate(timeout=60)


def _commands(
    what: str,
    sides: Sides,
    rounds: int,
    *arguments: str,
    prepare: Callable[[Side], object] = lambda side: None,
    findings: bool = False,
) -> Iterator[Row]:
    """A command by each in turn: the time it takes, and that of processors."""
    walls: list[list[float]] = []
    used: list[list[float]] = []
    for _ in range(rounds):
        walls.append([])
        used.append([])
        for side in sides:
            prepare(side)
            processor = cpu_seconds()
            walls[-1].append(_seconds(side.merkle(*arguments, findings=findings)))
            used[-1].append(cpu_seconds() - processor)
    yield _row(what, sides, "s", walls)
    yield _row(what, sides, "s of processor", used)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _row(what: str, sides: Sides, unit: str, rounds: list[list[float]]) -> Row:
    """The medians of what was measured of the two in each round."""
    here, there = map(statistics.median, zip(*rounds, strict=True))
    return Row(what, here, unit, sides[1].name, there, None)
