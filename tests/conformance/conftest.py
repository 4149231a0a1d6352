"""Conformance: what no test shows is an error, and `pytest tests/conformance` ends with a table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.support.conformance import Specification, Statement

_SHOWN = 78
"""Characters of a statement in the table."""


class _Module(pytest.Module):
    """A file about one specification."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        found = list(super().collect())
        for one in vars(self.obj).values():
            if isinstance(one, Specification) and (missing := one.missing()):
                raise self.CollectError(f"{one.file}: no test shows {', '.join(missing)}")
        return found


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    made: pytest.Module = _Module.from_parent(parent, path=module_path)
    return made


def pytest_itemcollected(item: pytest.Item) -> None:
    """Reports carry which statement a test shows, also from one process to another."""
    shown = getattr(getattr(item, "function", None), "statement", None)
    if shown is not None:
        item.user_properties.append(("statement", list(shown)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table, where the run was of this folder; its own conftest is not loaded otherwise."""
    outcomes: dict[Statement, set[str]] = {}
    for word in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(word, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == "statement":
                    outcomes.setdefault(Statement(*value), set()).add(word)
    for file, group in groupby(sorted(outcomes), key=lambda one: one.file):
        listed = list(group)
        words = {one: _word(one, outcomes[one]) for one in listed}
        width = max(len(one.place) for one in listed)
        wide = max(map(len, words.values()))
        terminalreporter.section(f"{file}: {len(listed)} statements")
        for one in listed:
            text = one.text if len(one.text) <= _SHOWN else one.text[: _SHOWN - 1] + "…"
            terminalreporter.write_line(f"{one.place:{width}}  {words[one]:{wide}}  {text}")
        works = sum(word == "works" for word in words.values())
        ruled = sum(word.startswith("ruled") for word in words.values())
        missing = len(listed) - works - ruled
        terminalreporter.write_line(f"{works} work, {ruled} are ruled, {missing} do not hold")


def _word(statement: Statement, outcomes: set[str]) -> str:
    if outcomes != {"passed"}:
        return "DOES NOT HOLD" if outcomes & {"failed", "error"} else "NOT SHOWN"
    return "works" if statement.ruled is None else f"ruled {statement.ruled}"
