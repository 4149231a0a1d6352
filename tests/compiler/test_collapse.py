"""What each stage drops and collapses."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.compiler import compile_stages

EVENTS = [
    {"kind": kind, "turn": n, "payload": {"content": f"body {n}"}, "id": f"{kind}{n}"}
    for n, kind in enumerate(["system", "user", "tool", "assistant", "tool"])
]
IDS = [str(event["id"]) for event in EVENTS]


def stages(**collapse_policy: Any) -> Any:
    return compile_stages(EVENTS, {"collapse": collapse_policy}).to_json()["stages"]


@pytest.mark.parametrize(
    ("stage", "dropped", "collapsed"),
    [
        ("SPEC", IDS[:2], []),
        ("HEADER", IDS[:2], IDS[2:4]),
        ("FROZEN", IDS[:2], IDS[2:4]),
    ],
)
def test_what_a_stage_may_do(stage: str, dropped: list[str], collapsed: list[str]) -> None:
    shown = stages(target=3, mode="all_but_last")[stage]
    assert shown["dropped_ids"] == dropped
    assert shown["collapsed_ids"] == collapsed
    kept = shown["nodes" if stage == "SPEC" else "messages"]
    assert [node["id"] for node in kept] == [i for i in IDS if i not in dropped]


def test_raw_neither_drops_nor_collapses() -> None:
    assert stages(target=1, mode="all_but_last")["RAW"] == stages()["RAW"]


def test_spec_drops_the_oldest_above_the_target_and_collapses_nothing() -> None:
    spec = stages(target=3, mode="all_but_last")["SPEC"]
    assert spec["selected_ids"] == IDS[2:]
    assert spec["dropped_ids"] == IDS[:2]
    assert spec["collapsed_ids"] == []


def test_header_drops_and_collapses() -> None:
    header = stages(target=3, mode="all_but_last")["HEADER"]
    assert header["dropped_ids"] == IDS[:2]
    assert header["collapsed_ids"] == IDS[2:4]
    assert [m["collapsed"] for m in header["messages"]] == [True, True, False]


def test_header_collapses_nothing_without_the_mode() -> None:
    header = stages(target=3, mode="none")["HEADER"]
    assert header["collapsed_ids"] == []
    assert not any(message["collapsed"] for message in header["messages"])


def test_frozen_mirrors_the_header() -> None:
    output = stages(target=4, mode="all_but_last", kind_allowlist=["tool"])
    assert output["FROZEN"] == output["HEADER"]


def test_a_collapsed_message_is_a_bare_reference_without_a_preview() -> None:
    policy = {"header": {"mode": "sanitized_preview"}, "collapse": {"mode": "all_but_last"}}
    output: Any = compile_stages(EVENTS, policy).to_json()
    first, *_, last = output["stages"]["HEADER"]["messages"]
    assert sorted(first) == ["collapsed", "id", "kind", "payload_sha256", "turn"]
    assert "preview" in last


def test_a_target_of_zero_keeps_nothing_and_null_keeps_all() -> None:
    assert stages(target=0)["SPEC"]["selected_ids"] == []
    assert stages(target=0, mode="all_but_last")["HEADER"]["messages"] == []
    assert stages(target=None)["SPEC"]["selected_ids"] == IDS


def test_a_target_above_the_number_of_nodes_drops_nothing() -> None:
    assert stages(target=5)["SPEC"]["dropped_ids"] == []


def test_the_target_counts_what_the_selection_left() -> None:
    policy = {"selection": {"kind_allowlist": ["tool", "user"]}, "collapse": {"target": 2}}
    assert list(compile_stages(EVENTS, policy).spec.selected_ids) == ["tool2", "tool4"]


def test_pins_survive_the_target_before_newer_nodes() -> None:
    policy = {"selection": {"pin_latest": True}, "collapse": {"target": 2}}
    assert list(compile_stages(EVENTS, policy).spec.selected_ids) == ["user1", "assistant3"]


def test_only_allowed_kinds_are_collapsed() -> None:
    header = stages(mode="all_but_last", kind_allowlist=["tool", "system"])["HEADER"]
    assert header["collapsed_ids"] == ["system0", "tool2"]


def test_an_empty_allowlist_collapses_nothing_and_null_everything() -> None:
    assert stages(mode="all_but_last", kind_allowlist=[])["HEADER"]["collapsed_ids"] == []
    assert stages(mode="all_but_last", kind_allowlist=None)["HEADER"]["collapsed_ids"] == IDS[:4]


def test_the_allowlist_of_the_collapse_does_not_soften_the_target() -> None:
    spec = stages(target=1, kind_allowlist=["tool"])["SPEC"]
    assert spec["selected_ids"] == IDS[4:]


def test_the_most_recent_node_is_the_one_of_the_latest_turn() -> None:
    events = [
        {"kind": "note", "turn": 9, "payload": "late", "id": "late"},
        {"kind": "note", "turn": 1, "payload": "early", "id": "early"},
    ]
    compiled = compile_stages(events, {"collapse": {"mode": "all_but_last"}})
    assert compiled.header.collapsed_ids == ("early",)
