"""Which files are ranked by more than their own words."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from indexer.compose.relevance import ALONE, covered, make_question, percent_of
from indexer.core.roles import Role
from indexer.engine.search.ranking import _HIGH, Ranking

# What a file has of each word: its role, and a gain or nothing.
FILES = st.lists(
    st.tuples(
        st.sampled_from(list(Role)),
        st.tuples(*[st.none() | st.sampled_from([1, 40, 254, 255]) for _ in range(4)]),
    ),
    max_size=60,
)


@given(
    files=FILES,
    weights=st.tuples(*[st.integers(0, 5) | st.integers(0, 20_000) for _ in range(4)]),
    pool=st.integers(1, 8),
)
# One that is about few of the words comes before one that has all of them in passing.
@example(
    files=[(Role.SOURCE, (1, 1, 1, 1)), (Role.SOURCE, (255, None, None, None))],
    weights=(4000, 2000, 2000, 2000),
    pool=1,
)
def test_the_best_are_those_that_are_worth_most_in_their_roles(
    files: Sequence[tuple[Role, tuple[int | None, ...]]], weights: tuple[int, ...], pool: int
) -> None:
    ranking, question = Ranking.__new__(Ranking), make_question("anything")
    ranking._question, ranking._total = question, sum(weights)
    ranking._sums, expected = [], {}
    for number, (role, gains) in enumerate(files):
        has = [(weight, gain) for weight, gain in zip(weights, gains, strict=True) if gain]
        words, text = sum(weight for weight, _ in has), sum(weight * gain for weight, gain in has)
        ranking._sums.append((words << _HIGH) + text)
        if words:
            worth = covered(text, words, sum(weights), ALONE)
            expected[number] = worth * percent_of(role, question)
    roles = SimpleNamespace(roles=lambda numbers: {number: files[number][0] for number in numbers})
    # All that is asked of files here is their role.
    ranking._files = roles  # type: ignore[assignment]
    last = sorted(expected.values(), reverse=True)[pool - 1 : pool] or [0]
    best = [number for number, worth in expected.items() if worth >= last[0]]
    assert sorted(ranking._best(pool)) == best
