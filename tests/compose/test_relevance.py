"""What a question's words are worth in the parts of files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.compose.relevance import UnitScores
from indexer.core.terms import count_terms, term_of, words_in

_PARTS = st.sampled_from(["query", "queries", "Set", "lazy", "getValue", "model", "remodel", "é"])
_NAMES = st.lists(_PARTS, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from(["", "_"]).map(lambda joint: joint.join(parts))
)
_TEXTS = st.lists(_NAMES, max_size=12).flatmap(
    lambda names: st.sampled_from([" ", "\n", "(", ".", "-> "]).map(lambda mark: mark.join(names))
)


@given(text=_TEXTS, question=_TEXTS)
def test_a_text_is_searched_only_for_the_words_that_its_terms_say_it_has(
    text: str, question: str
) -> None:
    weights = dict.fromkeys(words_in(question), 1)
    terms = count_terms(text)
    had = [word for word in weights if term_of(word) in terms]
    everything = UnitScores(weights).found_in(text.encode(), weights)
    assert sorted(UnitScores(weights).found_in(text.encode(), had)) == sorted(everything)
    assert {word for _, words in everything for word in words} == set(had)
