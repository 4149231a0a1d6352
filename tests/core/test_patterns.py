"""A pattern that is compiled late finds what one that is compiled at once does."""

from __future__ import annotations

import re

import pytest

from indexer.core.patterns import pattern


def test_it_is_compiled_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def noted(source: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(source)
        return compile_now(source, flags)

    compile_now = re.compile
    monkeypatch.setattr("indexer.core.patterns.re.compile", noted)
    late = pattern(r"(?P<word>[a-z]+)\d", re.IGNORECASE)
    assert compiled == []
    assert late.findall("A1 b2") == ["A", "b"]
    assert late.sub(r"\1", "A1 b2") == "A b"
    found = late.search("x9")
    assert found is not None
    assert found["word"] == "x"
    assert (late.pattern, late.groups) == (r"(?P<word>[a-z]+)\d", 1)
    assert compiled[0] == r"(?P<word>[a-z]+)\d"


def test_bytes_are_matched_as_bytes() -> None:
    assert pattern(rb"a+").fullmatch(b"aaa") is not None
