"""Rows about questions to a real tree, which is copied first: with a service, and without one."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.context_rows import BUDGET, resident_mb
from benchmarks.measure import REPOSITORY, Row
from benchmarks.real_rows import Service, Side, copied
from indexer import Workspace
from indexer.core.roles import Role, role_of
from indexer.core.terms import words_in

ASKED = 100
"""How many questions a service is asked."""

_LARGE = 20_000
"""Files from which on the limits for a large tree count."""

_FIRST = (1.0, 4.0)
_ALONE = (0.7, 1.5)
_SERVED_MS = (60.0, 150.0)
_MEMORY_MB = 300.0


def questions(tree: Path, number: int) -> list[str]:
    """Questions in the words that the sources' own paths have, the same in every run."""
    paths = []
    for folder, below, names in os.walk(tree):
        below[:] = sorted(name for name in below if not name.startswith("."))
        inside = os.path.relpath(folder, tree)
        paths += [os.path.normpath(os.path.join(inside, name)) for name in sorted(names)]
    sources = [path for path in paths if role_of(path) is Role.SOURCE and words_in(path)]
    random = Random(7)
    made = []
    for path in random.choices(sources or paths, k=number):
        words = words_in(os.path.splitext(path)[0].replace("/", " "))
        made.append("how does " + " ".join(words[-3:]) + " work")
    return made


def rows(tree: Path, work: Path, rounds: int) -> Iterator[Row]:
    """The first question, others without a service, and many to a service that stays."""
    side = Side("here", REPOSITORY, copied(tree, work / "asked"))
    asked = questions(side.tree, ASKED)
    side.first_pass()()
    alone = [asked_alone(side, question) for question in asked[: max(4, rounds + 1)]]
    with Service(side) as process, Workspace.open(side.tree) as workspace:
        status = workspace.status()
        large = status["files"] > _LARGE
        frames = f"{status['frames']['total']:,} frames"
        workspace.compose(query="warm up")
        times = []
        for question in asked:
            started = time.perf_counter()
            workspace.compose(query=question, budget=BUDGET)
            times.append((time.perf_counter() - started) * 1e3)
        memory = resident_mb(process)
    yield _limited("first question after a first pass", alone[0], "s", _FIRST[large])
    rest = statistics.median(alone[1:])
    yield _limited("compose without a service", rest, "s", _ALONE[large])
    yield _limited(f"compose in a service, p95, {frames}", p95(times), "ms", _SERVED_MS[large])
    yield _limited(f"service memory after {ASKED} questions, {frames}", memory, "MB", _MEMORY_MB)


def p95(times: list[float]) -> float:
    """What at least 95 of a hundred keep below."""
    return sorted(times)[int(0.95 * len(times))]


def asked_alone(side: Side, question: str) -> float:
    """Seconds of a question by a command of its own."""
    command = side.merkle("compose", "--query", question, "--budget", str(BUDGET))
    started = time.perf_counter()
    command()
    return time.perf_counter() - started


def _limited(name: str, value: float, unit: str, limit: float) -> Row:
    return Row(name, value, unit, f"limit of {limit:g} {unit}", limit, 1.0)
