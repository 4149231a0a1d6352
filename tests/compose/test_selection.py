"""Both limits are hard, for any budget down to 0, any counter and any texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.compose.candidates import Candidate, Loaded
from indexer.compose.rendering import message, source_message
from indexer.compose.request import Request
from indexer.compose.selection import (
    _AROUND_HEADING,
    _WORDS_AROUND,
    FIRST_OMITTED,
    SHORTEST,
    Group,
    Omitted,
    Selection,
    Source,
    least_of_source,
    select,
)
from indexer.core.encodings import ENCODINGS, load_encoding
from indexer.core.fence import unfenced
from indexer.core.frames import Freshness
from indexer.core.tokens import REPLY_OVERHEAD, NullTokenCounter, TiktokenCounter, TokenCounter
from tests.support.candidates import candidate, loaded

COUNTER = TiktokenCounter(encoding_name="o200k_base")


class Grumpy:
    """A counter whose messages cost more the more there are of them."""

    def count_text(self, text: str) -> int:
        return len(text)

    def count_messages(self, messages: Sequence[Mapping[str, object]]) -> int:
        return sum(len(str(one["content"])) for one in messages) * (1 + len(messages))


def run(
    texts: Sequence[str | None], request: Request, counter: TokenCounter = COUNTER
) -> tuple[Selection, Omitted, list[Candidate]]:
    rows = [candidate(number) for number in range(len(texts))]
    by_id = {row.frame_id: text for row, text in zip(rows, texts, strict=True)}
    omitted = Omitted()
    return (
        select([Group("", rows)], request, lambda chunk: loaded(chunk, by_id), counter, omitted),
        omitted,
        rows,
    )


TEXTS = st.lists(st.none() | st.text(max_size=60) | st.sampled_from(["word " * 300, "é" * 90]))


@given(
    texts=TEXTS,
    budget=st.integers(0, 400) | st.integers(0, 5000),
    max_frames=st.none() | st.integers(0, 8),
    counter=st.sampled_from([COUNTER, NullTokenCounter(), Grumpy()]),
)
@settings(max_examples=300)
def test_never_above_budget_or_max_frames(
    texts: list[str | None], budget: int, max_frames: int | None, counter: TokenCounter
) -> None:
    request = Request(budget=budget, max_frames=max_frames)
    selection, omitted, rows = run(texts, request, counter)
    messages = selection.messages()
    assert counter.count_messages(messages) == selection.tokens <= budget
    assert max_frames is None or len(messages) <= max_frames
    # Everything is shown or accounted for, once.
    assert len(selection.items) + omitted.counts.total() == len(rows)
    shown = {item.loaded.candidate for item in selection.items}
    assert shown.isdisjoint(left for left, _, _ in omitted.first)
    assert len(omitted.first) == min(FIRST_OMITTED, omitted.counts.total())


@pytest.mark.parametrize("budget", range(30))
def test_every_small_budget_is_kept_and_used(budget: int) -> None:
    smallest = COUNTER.count_messages([message("src/f0.py", "outline", "ann", "fresh", "a")])
    selection, omitted, _ = run(["a", "b", "c"], Request(budget=budget))
    assert selection.tokens <= budget
    assert bool(selection.items) == (budget >= smallest)
    if budget < smallest:
        assert (selection.tokens, omitted.counts["budget"]) == (0, 3)


def test_the_tokens_of_the_items_add_up_with_the_reply() -> None:
    selection, _, _ = run(["one", "two two", "three"], Request())
    assert selection.tokens == sum(item.tokens for item in selection.items) + 3
    assert selection.tokens == COUNTER.count_messages(selection.messages())


def test_what_is_too_large_does_not_keep_out_what_fits() -> None:
    selection, omitted, rows = run(["word " * 500, "small"], Request(budget=100))
    assert [item.loaded.candidate for item in selection.items] == [rows[1]]
    assert omitted.counts == {"budget": 1}


def test_many_misses_do_not_keep_out_what_fits() -> None:
    """A small frame is found behind any number that are too large."""
    texts = ["word " * 500] * 50 + ["small"]
    selection, omitted, rows = run(texts, Request(budget=70))
    assert [item.loaded.candidate for item in selection.items if item.loaded] == [rows[-1]]
    assert omitted.counts == {"budget": 50}


def test_lines_are_looked_up_for_all_that_was_loaded_at_once_and_only_where_one_fits() -> None:
    asked: list[list[Candidate]] = []
    rows = [candidate(number) for number in range(60)]

    def lines_of(many: Sequence[Loaded]) -> list[tuple[int, ...]]:
        asked.append([one.candidate for one in many])
        return [(7, 0) for _ in many]

    def shown(budget: int, body: str) -> Selection:
        asked.clear()
        return select(
            [Group("", rows)], Request(budget=budget),
            lambda chunk: [Loaded(row, body, Freshness.FRESH, "") for row in chunk],
            COUNTER, Omitted(), lines_of=lines_of,
        )  # fmt: skip

    selection = shown(24_000, "one\ntwo")
    assert len(selection.items) == 60
    assert [row for many in asked for row in many] == rows
    assert len(asked) == 1
    assert all("\n\n7: one\ntwo" in one["content"] for one in selection.messages())
    # Each says once what its lines are, as that decides what is shown.
    assert sorted(selection.labels) == sorted((row.frame_id, "lines (7, 0)") for row in rows)
    assert not shown(300, "word " * 400 + "\ntwo").items
    assert asked == []


def test_what_has_no_room_for_its_heading_is_not_even_read() -> None:
    asked: list[int] = []
    rows = [candidate(number) for number in range(500)]

    def load(chunk: Sequence[Candidate]) -> list[Loaded]:
        asked.append(len(chunk))
        return [Loaded(row, "word", Freshness.FRESH, "") for row in chunk]

    omitted = Omitted()
    selection = select([Group("", rows)], Request(budget=12), load, COUNTER, omitted)
    assert not selection.items
    assert omitted.counts == {"budget": 500}
    assert not asked


def test_a_body_that_is_gone_is_skipped_with_a_reason() -> None:
    selection, omitted, rows = run(["a", None, "c"], Request())
    assert [item.loaded.candidate for item in selection.items] == [rows[0], rows[2]]
    assert omitted.first == [(rows[1], rows[1].path, "missing")]


@pytest.mark.parametrize("state", [s for s in Freshness if s is not Freshness.FRESH])
def test_what_is_not_fresh_says_so_or_stays_out(state: Freshness) -> None:
    rows = [candidate(0)]
    for strict in (False, True):
        omitted = Omitted()
        selection = select(
            [Group("", rows)],
            Request(require_fresh=strict),
            lambda chunk: [Loaded(row, "text", state, "why") for row in chunk],
            COUNTER,
            omitted,
        )
        assert selection.labels == [(rows[0].frame_id, state.value)]
        if strict or state in (Freshness.ORPHANED, Freshness.UNMANAGED):
            assert not selection.items
            (reason,) = omitted.counts
            assert state.value in reason
        else:
            assert (
                f", {state.value})" in unfenced(selection.messages()[0]["content"]).splitlines()[0]
            )


def test_messages_stand_in_the_order_of_storing_whatever_was_chosen_first() -> None:
    rows = [candidate(number, seq=9 - number) for number in range(5)]
    by_id = {row.frame_id: row.path for row in rows}
    selection = select(
        [Group("", rows)], Request(), lambda chunk: loaded(chunk, dict(by_id)), COUNTER, Omitted()
    )
    assert [item.loaded.candidate for item in selection.items] == rows
    shown = [unfenced(one["content"]).rpartition("\n\n")[2] for one in selection.messages()]
    assert shown == [row.path for row in reversed(rows)]


@pytest.mark.parametrize("path", ["", "a.py", "ä/日本/" + "x" * 300, "\x7f\u0300/🜁🜂", "9" * 200])
@pytest.mark.parametrize("agent", ["a", "merkle:summarize", "Ω" * 40])
def test_no_heading_costs_more_than_its_bytes(path: str, agent: str) -> None:
    heading = message(path, "outline", agent, Freshness.FRESH, "")
    assert COUNTER.count_messages([heading]) <= _AROUND_HEADING + len(
        f"{path}outline{agent}".encode()
    )


NAMES = st.text(min_size=1, max_size=30) | st.from_regex("[a-f'./_0-9é]{1,30}", fullmatch=True)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(path=NAMES, agent=NAMES, body=st.text(max_size=40))
@example("", "-", "")
@example("it's/a'd.py", "i", "")
@example("naïve/e\u0301a.py", "i", "//")
def test_no_message_is_shorter_than_what_is_not_even_tried(
    encoding: str, path: str, agent: str, body: str
) -> None:
    counter = TiktokenCounter(encoding_name=encoding)

    def cost(one: Mapping[str, object]) -> int:
        return counter.count_messages([one]) - REPLY_OVERHEAD

    of_frame = cost(message(path, "a", agent, Freshness.FRESH, body))
    of_source = cost(source_message(path, None, 1, 1, body))
    assert of_frame >= SHORTEST
    assert of_source >= least_of_source(path)
    words = _WORDS_AROUND + counter.fewest(path) + counter.fewest(body)
    assert min(of_frame, of_source) >= words


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(
    text=st.text(max_size=60)
    | st.from_regex("[a-cA-C'./_0-9é\u0301\u00a0 \n-]{1,60}", fullmatch=True)
)
@example("don't, it's we'll ''s a'b'c")
@example("a1b2 camelCase\u00a0ONE\u0301two\ud800three")
def test_no_text_has_fewer_tokens_than_are_seen_without_counting(encoding: str, text: str) -> None:
    counter = TiktokenCounter(encoding_name=encoding)
    assert counter.fewest(text) <= counter.count_text(text)


def test_what_cannot_fit_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = TiktokenCounter.count_text
    monkeypatch.setattr(
        TiktokenCounter, "count_text", lambda self, text: counted.append(text) or count(self, text)
    )
    selection, omitted, _ = run(["word " * 500, "short"], Request(budget=200))
    assert [item.loaded.body for item in selection.items if item.loaded] == ["short"]
    assert omitted.counts == {"budget": 1}
    assert not any("word word" in text for text in counted)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_mark_of_a_message_has_two_tokens_at_least(encoding: str) -> None:
    tokens = load_encoding(encoding).token_byte_values()
    assert max(len(one) for one in tokens if re.fullmatch(b" ?[0-9a-f]+", one)) < 12


def _lines(path: str, symbol: str, words: int) -> Source:
    return Source(path, symbol, 1, words, "00", "00", "word\n" * words)


@pytest.mark.parametrize(
    ("budget", "whole"), [(400, True), (900, True), (2000, True), (200, False)]
)
def test_what_is_asked_for_by_name_is_shown_whole_in_a_small_budget_too(
    budget: int, whole: bool
) -> None:
    """The best file has a quarter of the budget, more of a small one; others keep theirs."""
    offered = {
        "best.py": [_lines("best.py", "named", 100), _lines("best.py", "near", 2)],
        "next.py": [_lines("next.py", "other", 150), _lines("next.py", "small", 2)],
    }
    groups = [Group(path, (), True) for path in offered]
    selection = select(
        groups, Request(budget=budget), lambda _: [], COUNTER, Omitted(),
        lambda path, room, again: iter(offered[path]),
    )  # fmt: skip
    shown = [item.source.symbol for item in selection.items if item.source is not None]
    assert ("named" in shown) is whole
    assert "small" in shown or "other" in shown
    assert selection.tokens <= budget
