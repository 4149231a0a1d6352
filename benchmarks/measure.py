"""Timing as ratios: contenders take turns in one run, and medians are compared."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: a figure, what it is compared with, and the limit for the ratio."""

    name: str
    value: float
    unit: str
    against: str
    base: float
    limit: float | None
    at_least: bool = False

    @property
    def ratio(self) -> float:
        """Value over base."""
        return self.value / self.base if self.base else float("inf")

    @property
    def holds(self) -> bool:
        """Whether the ratio keeps the limit."""
        if self.limit is None:
            return True
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def as_json(self) -> dict[str, Any]:
        """For the result file."""
        return {**asdict(self), "ratio": round(self.ratio, 3), "holds": self.holds}


def take_turns(
    contenders: Sequence[tuple[Callable[[], object] | None, Callable[[], object]]], rounds: int
) -> list[float]:
    """Median seconds of each contender (an untimed preparation and the timed part)."""
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        for index, (prepare, run) in enumerate(contenders):
            if prepare is not None:
                prepare()
            started = time.perf_counter()
            run()
            times[index].append(time.perf_counter() - started)
    return [statistics.median(each) for each in times]


def cpu_seconds() -> float:
    """Processor time of all finished children so far, which other work hardly moves."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, quietly; a status that is not among `fine` is our failure."""
    fine = options.pop("fine", (0,))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **options.pop("env", {})}
    finished = subprocess.run(
        [str(part) for part in command], capture_output=True, env=environment, **options
    )
    if finished.returncode not in fine:
        raise RuntimeError(f"{command} failed: {finished.stderr.decode()[-2000:]}")
    return finished


def merkle(root: Path, *arguments: str) -> list[str]:
    """The command line of one merkle command."""
    return [*_program(), "-C", str(root), *arguments]


def _program() -> list[str]:
    script = Path(sys.executable).parent / "merkle"
    return [str(script)] if script.exists() else [sys.executable, "-m", "indexer.cli"]


def table(rows: Sequence[Row]) -> str:
    """The rows for reading."""
    lines = [f"{'measured':<58}{'value':>12}  {'compared with':<26}{'ratio':>8}  limit"]
    for row in rows:
        limit = ""
        if row.limit is not None:
            limit = f"{'>=' if row.at_least else '<='} {row.limit:g}" + (
                "" if row.holds else "  MISSED"
            )
        value = f"{row.value:.4g} {row.unit}"
        lines.append(f"{row.name:<58}{value:>12}  {row.against:<26}{row.ratio:>8.2f}  {limit}")
    return "\n".join(lines)


def markdown(rows: Sequence[Row]) -> str:
    """The rows as the table of benchmarks/README.md has them."""
    lines = ["| measured | value | compared with | ratio | limit |", "|---|---|---|---|---|"]
    for row in rows:
        limit = "" if row.limit is None else f"{row.limit:g}{'' if row.holds else ', missed'}"
        value = f"{row.value:.3g} {row.unit}"
        lines.append(f"| {row.name} | {value} | {row.against} | {row.ratio:.2f} | {limit} |")
    return "\n".join(lines)
