"""How much of a file counts for the questions that find it."""

from __future__ import annotations

import pytest

from indexer.core.code import CodeSymbol
from indexer.core.terms import term_of, words_of
from indexer.generators import FileInput
from indexer.generators.facts import facts_of
from indexer.generators.file_terms import MOST_CODE, MOST_MADE, MOST_TEXT, file_terms
from indexer.generators.languages import ending_of
from indexer.generators.parsed import parse


def words_found(name: str, content: bytes, *asked: str) -> list[str]:
    """Which of some words a file is found by."""
    file = parse(FileInput(name, content))
    symbols: tuple[CodeSymbol, ...] = facts_of(file).symbols
    made = file_terms(ending_of(name), file, symbols)
    assert made is not None
    return [word for word in asked if term_of(words_of(word)[-1]) in made.terms]


@pytest.mark.parametrize(
    ("name", "filler", "most"),
    [
        ("django.po", b"#\n", MOST_MADE),
        ("yarn.lock", b"#\n", MOST_MADE),
        ("notes.md", b"\n\n", MOST_TEXT),
        ("data.txt", b"\n\n", MOST_TEXT),
        ("a.py", b"x = " + b"1" * 120 + b"\n", MOST_CODE),
    ],
)
def test_so_much_of_a_file_counts_and_no_more(name: str, filler: bytes, most: int) -> None:
    # The second word begins where nothing counts any more.
    content = b"# harbour\n"
    content += filler * ((most - len(content)) // len(filler))
    content = content.ljust(most, b"\n")
    assert words_found(name, content + b"# quay\n", "harbour", "quay") == ["harbour"]
    assert words_found(name, content[: most - 8] + b"\n# quay\n", "quay") == ["quay"]


def test_what_is_no_text_is_found_by_nothing() -> None:
    file = parse(FileInput("a.bin", b"harbour\0\xff"))
    assert file_terms("bin", file, ()) is None
