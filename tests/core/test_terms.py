"""Words and identifiers become terms that a question and a text share."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core import terms
from indexer.core.terms import count_terms, stem, term_of, words_in, words_of


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("parseHTTPResponse", ("pars", "http", "respons", "parsehttprespons")),
        ("snake_case_name", ("snak", "cas", "nam", "snakecasenam")),
        ("__init__", ("init",)),
        ("utf8", ("utf", "utf8")),
        ("größe", ("größe",)),
        ("x", ()),
        ("the", ()),
    ],
)
def test_an_identifier_is_its_parts_and_itself(identifier: str, parts: tuple[str, ...]) -> None:
    assert words_of(identifier) == parts


@pytest.mark.parametrize(
    "group",
    [
        ("parse", "parses", "parsed", "parsing"),
        ("directory", "directories"),
        ("log", "logs", "logged", "logging"),
        ("encode", "encoded", "encoding", "encodes"),
        ("class", "classes"),
        ("box", "boxes"),
    ],
)
def test_the_forms_of_a_word_are_one_term(group: tuple[str, ...]) -> None:
    assert len({stem(word) for word in group}) == 1


def test_words_that_only_end_alike_stay_apart() -> None:
    assert len({stem(word) for word in ("string", "thing", "status", "state", "bus", "red")}) == 6


def test_a_question_in_words_finds_an_identifier() -> None:
    text = count_terms("class TemporaryDirectory(object) -- Create and clean up.")
    for question in ("temporary directories", "TemporaryDirectory", "temporary_directory"):
        assert all(term_of(word) in text for word in words_in(question)), question


def test_counts_are_of_occurrences() -> None:
    counts = count_terms("socket Socket SOCKET open_socket")
    assert counts[term_of("socket")] == 4
    assert counts[term_of("open")] == 1


def test_only_the_beginning_of_a_long_text_is_indexed() -> None:
    text = "alpha " * terms.MAX_CHARACTERS + "omega"
    counts = count_terms(text)
    assert term_of("omega") not in counts
    assert counts[term_of("alpha")] <= terms.MAX_CHARACTERS


@given(st.text())
def test_any_text_has_terms_and_they_are_the_same_twice(text: str) -> None:
    first = count_terms(text)
    terms._known.clear()
    assert count_terms(text) == first
    assert all(0 <= term < 1 << 32 and count > 0 for term, count in first.items())
    assert {term_of(word) for word in words_in(text)} == set(first)


@given(
    st.lists(st.text(max_size=12) | st.sampled_from(("HTMLParser", "a_b2C", "__init__", "Σ_ΑΣ")))
)
def test_identifiers_are_learned_together_as_each_alone(names: list[str]) -> None:
    # A declared name may be any text, line ends among it.
    terms._known.clear()
    counted = {name.encode(): 1 for name in names}
    assert set(terms.terms_of(counted)) == {
        term_of(word) for name in names for word in words_of(name)
    }


@given(st.binary() | st.text().map(str.encode))
def test_identifiers_are_counted_as_the_text_has_them(text: bytes) -> None:
    words = re.findall(r"\w+", text.decode("utf-8", "replace"))
    expected = Counter(word.encode() for word in words)
    counted = terms.count_identifiers(text)
    assert list(counted.items()) == list(expected.items())
