"""Limits are hard, nothing is not the same as unset, and pins are chosen first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.compiler import EventError, compile_stages


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


# What is pinned stays


def pinned(*ids: str) -> list[dict[str, Any]]:
    return [{**event, "pinned": event["id"] in ids} for event in TALK]


@pytest.mark.parametrize(
    "limits",
    [{"max_turns": 1}, {"max_nodes": 1}, {"max_chars": 0}, {"kind_allowlist": ["tool"]}],
)
def test_no_limit_takes_out_what_is_pinned(limits: dict[str, Any]) -> None:
    found = selected(pinned("system0", "user1"), **limits)
    assert found[:2] == ["system0", "user1"]
    assert "user3" not in found


def test_a_pin_takes_no_turn_from_the_newest() -> None:
    assert selected(pinned("system0"), max_turns=1) == ["system0", "tool7"]


def test_a_pin_counts_within_max_nodes() -> None:
    assert selected(pinned("system0"), max_nodes=2) == ["system0", "tool7"]
    assert selected(pinned("system0"), max_nodes=0) == ["system0"]


def test_the_first_system_message_can_be_pinned_by_the_policy() -> None:
    events = [*TALK, *stream(("system", 9))]
    events[-1]["id"] = "system8"
    assert selected(events, max_turns=1) == ["system8"]
    assert selected(events, max_turns=1, pin_first_system=True) == ["system0", "system8"]


def test_the_target_drops_and_the_mode_collapses_nothing_that_is_pinned() -> None:
    rules = {"collapse": {"target": 2, "mode": "all_but_last"}}
    header = compile_stages(pinned("system0"), rules).header
    assert [(m.id, m.collapsed) for m in header.messages] == [("system0", False), ("tool7", False)]


# Pairs


def called(*pairs: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [
        {"kind": "tool", "turn": n, "payload": n, "id": name, **({"pair": pair} if pair else {})}
        for n, (name, pair) in enumerate(pairs)
    ]


PAIRED = called(("call", "1"), ("said", None), ("result", "1"), ("last", None))


def test_half_a_pair_is_left_out_with_its_other_half() -> None:
    assert selected(PAIRED, max_nodes=3) == ["said", "last"]
    spec = compile_stages(PAIRED, {"selection": {"max_nodes": 3}}).spec
    assert {one.id: one.reason for one in spec.dropped} == {"call": "max_nodes", "result": "pair"}
    dropped = compile_stages(PAIRED, {"collapse": {"target": 2}}).spec
    assert dropped.selected_ids == ("last",)


def test_a_pinned_half_keeps_the_other() -> None:
    events = [{**event, "pinned": event["id"] == "result"} for event in PAIRED]
    assert selected(events, max_turns=1) == ["call", "result", "last"]


# Characters


def test_a_character_budget_keeps_the_newest_that_fit() -> None:
    events = [
        {"kind": "user", "turn": n, "payload": {"content": "x" * size}, "id": str(size)}
        for n, size in enumerate([1, 90, 10, 20])
    ]
    assert selected(events, max_chars=30) == ["10", "20"]
    # The first that does not fit ends it: nothing older jumps the queue.
    assert selected(events, max_chars=29) == ["20"]
    assert selected(events, max_chars=0) == []
    assert selected(events, max_chars=None) == ["1", "90", "10", "20"]


def test_a_payload_without_text_costs_its_json() -> None:
    events = [{"kind": "tool", "turn": 1, "payload": {"n": 1}, "id": "a"}]
    assert selected(events, max_chars=6) == []
    assert selected(events, max_chars=7) == ["a"]


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 120), st.sets(st.integers(0, 11)))
def test_the_budget_holds_for_all_that_is_not_pinned(
    sizes: list[int], limit: int, pins: set[int]
) -> None:
    events = [
        {"kind": "user", "turn": n, "payload": "x" * size, "id": str(n), "pinned": n in pins}
        for n, size in enumerate(sizes)
    ]
    kept = [int(one) for one in selected(events, max_chars=limit)]
    held = sum(sizes[n] for n in kept if n in pins)
    assert pins & set(range(len(sizes))) <= set(kept)
    assert sum(sizes[n] for n in kept) <= max(limit, held)


@pytest.mark.parametrize("wrong", [{"pinned": 1}, {"pair": ""}, {"pair": 3}])
def test_marks_of_an_event_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(EventError):
        selected([{"kind": "a", "turn": 1, "payload": 1, **wrong}])
