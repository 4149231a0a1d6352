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
    # A sentence of several lines is one point; those that say what remains are no points.
    for point in re.findall(r"^- (?:.|\n(?!-|\n|#))*", promised, re.MULTILINE):
        assert "`test_" in point, point
