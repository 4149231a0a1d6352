"""Orders, filters, sources and requests as pure functions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from indexer.compose.candidates import Candidate, digest, sealed
from indexer.compose.filters import Filters
from indexer.compose.ordering import OrderingError, custom_ordering, in_order
from indexer.compose.relevance import distance, nearness
from indexer.compose.request import DEFAULT_BUDGET, Request, RequestError, make_request
from indexer.compose.sources import looked_at, scope_of
from tests.support.candidates import candidate

ROWS = [candidate(number, seq=number // 3) for number in range(12)]
MIXED = [
    row._replace(type=kind, agent=agent)
    for row, kind, agent in zip(
        ROWS, ["note", "outline", "review"] * 4, ["bob", "ann", "ann", "cy"] * 3, strict=True
    )
]


def order(rows: Sequence[Candidate], **options: object) -> list[Candidate]:
    # Values from a table.
    return in_order(rows, Request(**options), {}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["recency", "type", "agent", "relevance"])
def test_an_order_does_not_depend_on_how_candidates_come(name: str) -> None:
    expected = order(MIXED, order=name)
    for seed in range(5):
        shuffled = list(MIXED)
        random.Random(seed).shuffle(shuffled)
        assert order(shuffled, order=name) == expected


def test_recency_is_the_store_sequence_and_ties_end_in_the_frame_id() -> None:
    expected = sorted(ROWS, key=lambda row: (-row.seq, row.frame_id))
    assert order(ROWS, order="recency") == expected


def test_types_and_agents_come_in_the_order_of_the_request() -> None:
    kinds = [row.type for row in order(MIXED, order="type", types=("review", "note", "outline"))]
    assert list(dict.fromkeys(kinds)) == ["review", "note", "outline"]
    assert list(dict.fromkeys(row.type for row in order(MIXED, order="type"))) == sorted(set(kinds))
    who = [row.agent for row in order(MIXED, order="agent", agents=("cy", "ann", "bob"))]
    assert list(dict.fromkeys(who)) == ["cy", "ann", "bob"]


def test_relevance_without_a_query_is_closeness() -> None:
    rows = [candidate(n, path=p) for n, p in enumerate(["x/y.py", "a", "a/b/c.py", "a/b", ""])]
    ordered = order(rows, order="relevance", nodes=("a/b/c.py",))
    assert [row.path for row in ordered] == ["a/b/c.py", "a/b", "a", "", "x/y.py"]
    assert (distance("", ""), distance("a/b", "a/c"), distance("a", "")) == (0, 2, 1)
    assert nearness("a", []) == 0.0
    assert nearness("a", ["b", "a"]) == 1.0


def test_what_is_named_comes_before_what_is_found() -> None:
    scores = {row.frame_id: float(row.seq) for row in ROWS}
    named = ROWS[0].path
    request = Request(query="q", order="relevance", nodes=(named,), sources=("node", "workspace"))
    assert in_order(ROWS, request, scores, None)[0].path == named
    anchored = Request(query="q", order="relevance", nodes=(named,), sources=("workspace",))
    assert in_order(ROWS, anchored, scores, None)[0].seq == 3


def test_a_custom_order_may_choose_but_not_invent() -> None:
    request, turns = Request(order="mine"), iter((1, -1))
    assert in_order(ROWS, request, {}, lambda rows, _: rows[::-2]) == sorted(ROWS)[::-2]
    bad = {
        "invents": lambda rows, _: [*rows, candidate(99)],
        "repeats": lambda rows, _: [rows[0], rows[0]],
        "raises": lambda rows, _: 1 / 0,
        "wavers": lambda rows, _: rows[:: next(turns)],
    }
    for custom in bad.values():
        with pytest.raises(OrderingError):
            in_order(ROWS, request, {}, custom)  # type: ignore[arg-type]  # values from a table
    with pytest.raises(OrderingError, match="no order 'nowhere'"):
        custom_ordering("nowhere")
    assert custom_ordering("recency") is None


def test_filters_give_the_first_condition_that_fails() -> None:
    row = candidate(1, path="src/one/a.py")
    passing = {"types": ("outline",), "agents": ("ann",), "paths": ("src/one",)}
    # Values from a table.
    assert Filters(Request(**passing), {row.frame_id}).reason(row) is None  # type: ignore[arg-type]
    for name, value, reason in (
        ("types", ("note",), "type"), ("agents", ("bob",), "agent"),
        ("paths", ("src/on",), "path"), ("paths", ("*.md",), "path"),
    ):  # fmt: skip
        # Values from a table.
        assert Filters(Request(**{name: value}), None).reason(row) == reason  # type: ignore[arg-type]
    assert Filters(Request(), set()).reason(row) == "date"
    for path in ("", "src", "src/one/a.py", "src/*.py", "*/a.p?"):
        assert Filters(Request(paths=(path,)), None).reason(row) is None
    assert Filters(Request(), None).empty
    assert not Filters(Request(), set()).empty


def test_sources_are_places_in_the_tree() -> None:
    names = {"a/b": ["c.py", "d.py"], "": ["a", "e.py"]}

    def scope(
        *sources: str, nodes: tuple[str, ...] = ("a/b/c.py",)
    ) -> tuple[set[str], tuple[str, ...]]:
        request = Request(nodes=nodes, related=("x",), sources=sources)
        found = scope_of(request, lambda folder: names.get(folder, []))
        return set(found.single), found.folders

    assert scope("node") == ({"a/b/c.py"}, ())
    assert scope("parents") == ({"a/b", "a", ""}, ())
    assert scope("siblings") == ({"a/b/c.py", "a/b/d.py"}, ())
    assert scope("siblings", nodes=("",)) == (set(), ())
    assert scope("below", nodes=("a",)) == (set(), ("a",))
    assert scope("related") == ({"x"}, ())
    assert scope("workspace") == (set(), ("",))


def test_only_what_can_be_asked_for_is_looked_at() -> None:
    def top(*sources: str, nodes: tuple[str, ...]) -> str:
        return looked_at(Request(nodes=nodes, sources=sources))

    assert top("node", nodes=("a/b/c.py",)) == "a/b/c.py"
    assert top("siblings", nodes=("a/b/c.py", "a/b/d.py")) == "a/b"
    assert top("node", nodes=("a/b", "a/bc")) == "a"
    assert top("parents", nodes=("a/b/c.py",)) == ""
    assert top("workspace", nodes=()) == ""


def test_a_request_is_whole_or_refused() -> None:
    plain = make_request({})
    assert (plain.sources, plain.order, plain.budget) == (("workspace",), "recency", DEFAULT_BUDGET)
    asked = make_request({"query": "q", "nodes": ("a",)})
    assert (asked.sources, asked.order) == (("node", "workspace"), "relevance")
    near = make_request({"nodes": ("a",)})
    assert near.sources == ("node", "parents", "siblings", "below")
    assert make_request({"related": ("a",)}).sources == ("related",)
    assert make_request({"budget": 0, "max_frames": 0}).budget == 0
    for wrong in (
        {"budget": -1}, {"max_frames": -1}, {"query": "  "}, {"query": "\ud800"},
        {"sources": ("moon",)}, {"sources": ("node",)}, {"sources": ("related",), "nodes": ("a",)},
    ):  # fmt: skip
        with pytest.raises(RequestError):
            make_request(wrong)


def test_the_candidates_hash_covers_ids_order_and_labels() -> None:
    base = sealed(digest(ROWS), [])
    assert sealed(digest(ROWS), []) == base
    assert sealed(digest(ROWS[::-1]), []) != base
    assert sealed(digest(ROWS[:-1]), []) != base
    labels = [(ROWS[1].frame_id, "stale"), (ROWS[0].frame_id, "unknown")]
    assert sealed(digest(ROWS), labels) == sealed(digest(ROWS), labels[::-1]) != base
