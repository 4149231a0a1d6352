"""What the fault campaign shares: its size, the rows of its table, and running `merkle`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.processes import Forked

FULL: Final = os.environ.get("MERKLE_CAMPAIGN") == "full"
"""Whether the whole campaign is asked for; otherwise a small, seeded part of each fault."""

COLUMNS: Final = ("acknowledged", "lost", "stale as fresh", "tracebacks", "hung")


def sized(small: int, full: int) -> int:
    """How often something is done."""
    return full if FULL else small


class Ran(NamedTuple):
    """What a command left behind."""

    code: int | None
    """None: it did not end."""
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def has_traceback(self) -> bool:
        return "Traceback" in self.err or (self.code is not None and self.code < 0)


def merkle(root: Path, *arguments: object, patience: float = 120, stdin: str = "") -> Ran:
    """Run a command; one that does not end is ended."""
    command = [sys.executable, "-m", "indexer.cli", "-C", root, *arguments]
    return run_python(command, patience, stdin)


def run_python(command: list[Any], patience: float = 120, stdin: str = "") -> Ran:
    """Run a Python process in the same way."""
    with Forked(
        [str(each) for each in command], cwd="/", text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(stdin, timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return Ran(None, out, err)
    return Ran(process.returncode, out, err)


class Tally:
    """One row of the table: what a fault was met with, counted."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.runs = 0
        self.counts: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        """What was said of the fault, by how often."""
        self.wrong: list[str] = []
        """Every single thing that must not be."""

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def fail(self, what: str, why: str) -> None:
        """Something that must not be, counted under one of the columns or by itself."""
        self.counts[what] += 1
        self.wrong.append(f"{what}: {why}")

    def saw(self, ran: Ran, doing: str) -> Ran:
        """Look for what no command may leave behind."""
        if ran.code is None:
            self.fail("hung", doing)
        elif ran.has_traceback:
            self.fail("tracebacks", f"{doing} ended with {ran.code}: {ran.err[-1500:]}")
        return ran

    def as_text(self) -> str:
        """As it travels from the process that counted to the one that prints."""
        return json.dumps([self.fault, self.runs, self.counts, self.told])


def table(rows: list[str]) -> str:
    """The rows of a campaign, one line for each fault; other counts stand at its end."""
    faults: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for text in rows:
        fault, runs, counts, told = json.loads(text)
        total = faults.setdefault(fault, (Counter(), Counter()))
        total[0].update({"runs": runs, **counts})
        total[1].update(told)
    lines = [("fault", "runs", *COLUMNS, "besides")]
    for fault, (total, told) in sorted(faults.items()):
        besides = {name: n for name, n in total.items() if name not in ("runs", *COLUMNS)}
        words = ", ".join(f"{name} {n}" for name, n in sorted({**besides, **told}.items()))
        lines.append((fault, *(str(total[name]) for name in ("runs", *COLUMNS)), words))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 0 < place < len(widths) - 1 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
