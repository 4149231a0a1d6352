"""docs/security.md: every sentence that promises something names a test, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_tests_that_it_names_are_there() -> None:
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", PAGE))
    assert len(named) > 40
    code = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    defined = set(re.findall(r"^ *(?:async )?def (test_[a-z0-9_]+)\(", code, re.MULTILINE))
    assert not named - defined


def test_every_promise_names_one() -> None:
    promised = PAGE.split("## What is not promised")[0]
    # What stands in points is promised; paragraphs say what remains.
    points = re.findall(r"^- ((?:.|\n(?!-|\n|#))*)", promised, re.MULTILINE)
    assert len(points) > 20
    for point in points:
        for sentence in re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(point.split())):
            assert "`test_" in sentence, sentence


def test_every_clause_that_is_said_apart_names_one_too() -> None:
    """A semicolon begins another promise."""
    promised = PAGE.split("## What is not promised")[0]
    for point in re.findall(r"^- ((?:.|\n(?!-|\n|#))*)", promised, re.MULTILINE):
        outside = re.sub(r"\(the table is in [^)]*\)+", "", " ".join(point.split()))
        # Inside brackets it only parts a test from a remark.
        for clause in re.split(r";(?![^(]*\))", outside):
            assert "`test_" in clause, clause
