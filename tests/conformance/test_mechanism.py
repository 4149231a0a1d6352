"""The conformance table itself: every statement has one test, and the table says how it went."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.conformance import Specification

REPOSITORY = Path(__file__).parents[2]

FILE = """
from tests.support.conformance import Specification

statement = Specification("small.md", {"§1": "One holds.", "§2": "Two is ruled.", "§3": "Three."})

@statement("§1")
def test_one() -> None:
    pass

@statement("§2", ruled="DESIGN §8.3")
def test_two() -> None:
    pass
"""
THIRD = """
@statement("§3")
def test_three() -> None:
    assert False
"""


def run(folder: Path, *more: str) -> str:
    # Without the plugins that are nothing to it: loading them takes longer than the run.
    unused = ("cacheprovider", "schemathesis", "hypothesispytest", "anyio", "timeout")
    without = [word for name in unused for word in ("-p", f"no:{name}")]
    line = [sys.executable, "-m", "pytest", "-q", *without, *more, str(folder)]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_a_run_ends_with_a_table_and_misses_nothing(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "conformance"
    folder.mkdir()
    (folder / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    (folder / "test_small.py").write_text(FILE)
    if workers == "-n0":
        assert "small.md: no test shows §3" in run(folder, workers)
    (folder / "test_small.py").write_text(FILE + THIRD)
    told = run(folder, workers)
    rows = [line.split("  ") for line in told.splitlines() if line.startswith("§")]
    assert [(row[0], row[1].strip()) for row in rows] == [
        ("§1", "works"), ("§2", "ruled DESIGN §8.3"), ("§3", "DOES NOT HOLD")
    ]  # fmt: skip
    assert "1 work, 1 are ruled, 1 do not hold" in told


def test_a_statement_is_shown_once_and_there(tmp_path: Path) -> None:
    statement = Specification("small.md", {"§1": "One holds."})
    statement("§1")
    for place in ("§1", "§2"):
        with pytest.raises(ValueError, match=place):
            statement(place)


@pytest.mark.parametrize(
    "ruling", ["DESIGN §8", "DESIGN §8.20", "DESIGN §8.1, §8.0", "DESIGN §12", "docs: what is live",
               "docs/sessions.md: What is not there"],
)  # fmt: skip
def test_a_ruling_names_where_it_is_written(ruling: str) -> None:
    statement = Specification("small.md", {"§1": "One holds."})
    with pytest.raises(ValueError, match="no ruling"):
        statement("§1", ruled=ruling)
