"""Limits are hard, nothing is not the same as unset, and pins are chosen first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.compiler import compile_stages


def stream(*nodes: tuple[str, int]) -> list[dict[str, Any]]:
    """Events named by kind and place: `user0`, `tool1`, …"""
    return [
        {"kind": kind, "turn": turn, "payload": n, "id": f"{kind}{n}"}
        for n, (kind, turn) in enumerate(nodes)
    ]


TALK = stream(
    ("system", 0),
    ("user", 1),
    ("assistant", 1),
    ("user", 2),
    ("tool", 3),
    ("assistant", 4),
    ("tool", 5),
    ("tool", 6),
)
ALL = [event["id"] for event in TALK]


def selected(events: list[dict[str, Any]] = TALK, **selection: Any) -> list[str]:
    return list(compile_stages(events, {"selection": selection}).spec.selected_ids)


def test_without_limits_everything_is_selected() -> None:
    assert selected() == ALL


@pytest.mark.parametrize("limit", ["max_nodes", "max_turns"])
def test_a_limit_of_zero_keeps_nothing_and_null_keeps_all(limit: str) -> None:
    assert selected(**{limit: 0}) == []
    assert selected(**{limit: 0}, pin_latest=True) == []
    assert selected(**{limit: None}) == ALL


def test_an_empty_allowlist_keeps_nothing_and_null_keeps_all() -> None:
    assert selected(kind_allowlist=[]) == []
    assert selected(kind_allowlist=[], pin_latest=True) == []
    assert selected(kind_allowlist=None) == ALL


def test_the_allowlist_keeps_its_kinds() -> None:
    assert selected(kind_allowlist=["system", "user", "unheard-of"]) == [
        "system0",
        "user1",
        "user3",
    ]


def test_max_nodes_keeps_the_newest() -> None:
    assert selected(max_nodes=3) == ["assistant5", "tool6", "tool7"]


def test_max_turns_keeps_all_of_the_latest_turns() -> None:
    assert selected(TALK[:4], max_turns=2) == ["user1", "assistant2", "user3"]


def test_turns_count_only_where_an_allowed_node_is() -> None:
    assert selected(kind_allowlist=["user"], max_turns=1) == ["user3"]


def test_newest_is_by_turn_and_then_by_place() -> None:
    events = stream(("a", 5), ("b", 1), ("c", 1), ("d", 5))
    assert selected(events, max_nodes=3) == ["a0", "c2", "d3"]
    assert selected(events, max_nodes=1) == ["d3"]


def test_pins_are_kept_before_newer_nodes() -> None:
    assert selected(max_nodes=3, pin_latest=True) == ["user3", "assistant5", "tool7"]


def test_max_nodes_is_hard_even_for_pins() -> None:
    assert selected(max_nodes=1, pin_latest=True) == ["assistant5"]


def test_a_pin_takes_a_turn_before_newer_turns() -> None:
    assert selected(max_turns=3, pin_latest=True) == ["user3", "assistant5", "tool7"]


def test_max_turns_is_hard_even_for_pins() -> None:
    assert selected(max_turns=1, pin_latest=True) == ["assistant5"]


def test_an_old_turn_that_is_there_for_its_pin_brings_only_the_pin() -> None:
    events = stream(("note", 1), ("user", 1), ("note", 2), ("note", 3), ("note", 4))
    assert selected(events, max_turns=2, pin_latest=True) == ["user1", "note4"]


def test_a_pin_must_be_of_an_allowed_kind() -> None:
    assert selected(kind_allowlist=["tool"], max_nodes=1, pin_latest=True) == ["tool7"]


def test_pins_are_marked_in_the_selection() -> None:
    spec = compile_stages(TALK, {"selection": {"pin_latest": True}}).spec
    assert [node.id for node in spec.nodes if node.pinned] == ["user3", "assistant5"]


@pytest.mark.parametrize(
    ("kind", "payload", "pinned"),
    [
        ("user", None, True),
        ("user_message", "text", True),
        ("User.message", "text", True),
        ("message", {"role": "user"}, True),
        ("message", {"role": "USER"}, False),
        ("message", {"role": ["user"]}, False),
        ("users", None, False),
        ("tool", {"role": "user"}, False),
        ("7", {"role": "user"}, True),
    ],
)
def test_who_speaks_is_told_by_the_kind_or_else_by_the_payload(
    kind: str, payload: object, pinned: bool
) -> None:
    spec = compile_stages(
        [{"kind": kind, "turn": 0, "payload": payload}], {"selection": {"pin_latest": True}}
    ).spec
    assert spec.nodes[0].pinned is pinned


LIMIT = st.none() | st.integers(0, 6)
KINDS = ["user", "assistant", "tool", "note"]


@given(
    events=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), max_size=12),
    max_nodes=LIMIT,
    max_turns=LIMIT,
    target=LIMIT,
    kinds=st.none() | st.lists(st.sampled_from(KINDS), max_size=3),
    pin=st.booleans(),
)
def test_no_limit_is_ever_exceeded(
    events: list[tuple[str, int]],
    max_nodes: int | None,
    max_turns: int | None,
    target: int | None,
    kinds: list[str] | None,
    pin: bool,
) -> None:
    policy = {
        "selection": {
            "max_nodes": max_nodes,
            "max_turns": max_turns,
            "kind_allowlist": kinds,
            "pin_latest": pin,
        },
        "collapse": {"target": target},
    }
    given_events = stream(*events)
    spec = compile_stages(given_events, policy).spec
    order = [event["id"] for event in given_events]
    dropped = [node.id for node in spec.dropped]
    assert max_nodes is None or len(spec.nodes) <= max_nodes
    assert target is None or len(spec.nodes) <= target
    assert max_turns is None or len({node.turn for node in spec.nodes}) <= max_turns
    assert kinds is None or {node.kind for node in spec.nodes} <= set(kinds)
    assert list(spec.selected_ids) == [i for i in order if i in spec.selected_ids]
    assert dropped == [i for i in order if i not in spec.selected_ids]
