"""Outlines of believable samples, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.generators import FileInput, make_generator

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = sorted(path.name.removesuffix(".sample") for path in GOLDEN.glob("*.sample"))


@pytest.mark.parametrize("name", SAMPLES)
def test_outline_of_sample(name: str) -> None:
    content = (GOLDEN / f"{name}.sample").read_bytes()
    expected = (GOLDEN / f"{name}.outline").read_text("utf-8")
    assert make_generator("outline").generate(FileInput(name, content)) == expected


def test_every_language_has_a_sample() -> None:
    suffixes = {name.rpartition(".")[2] for name in SAMPLES}
    assert suffixes >= {"py", "js", "ts", "tsx", "go", "rs", "java", "h", "md", "rst", "json"}


def test_no_line_numbers_and_no_bodies() -> None:
    for name in SAMPLES:
        content = (GOLDEN / f"{name}.sample").read_bytes()
        moved = make_generator("outline").generate(FileInput(name, b"\n\n" + content))
        if name.endswith((".py", ".js", ".ts", ".tsx", ".go", ".java", ".h")):
            assert moved == (GOLDEN / f"{name}.outline").read_text("utf-8")


def test_windows_line_ends_change_nothing() -> None:
    for name in SAMPLES:
        content = (GOLDEN / f"{name}.sample").read_bytes()
        dos = make_generator("outline").generate(FileInput(name, content.replace(b"\n", b"\r\n")))
        assert dos == (GOLDEN / f"{name}.outline").read_text("utf-8"), name
