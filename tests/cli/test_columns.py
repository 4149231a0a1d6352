"""Laying text out."""

from __future__ import annotations

import pytest

from indexer.cli.columns import counted, first, pad, size, table, width


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_counts() -> None:
    assert counted(1, "file") == "1 file"
    assert counted(12345, "file") == "12,345 files"
    assert counted(2, "watch", "watches") == "2 watches"


def test_wide_and_combining_characters_are_measured() -> None:
    assert width("足a") == 3
    assert width("e\u0301") == 1
    assert width("\x1b[31mred\x1b[0m") == 3
    assert pad("足", 4) == "足  "
    assert pad("7", 3, right=True) == "  7"


def test_tables_align_without_trailing_space() -> None:
    text = table([["足", "1"], ["abc", "20"]], right=frozenset({1}))
    assert text == "足    1\nabc  20"
    assert table([["a", ""], ["b", "c"]]) == "a\nb  c"


def test_long_lists_stop() -> None:
    assert list(first(["a", "b"], 2)) == ["a", "b"]
    assert list(first(["a", "b", "c"], 1))[-1].endswith("and 2 more\x1b[0m")
