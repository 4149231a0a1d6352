"""The stage contract: what every stage holds, what it must never hold, and how it is tied."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indexer.compiler as compiler
from indexer.compiler import compile_stages
from indexer.core.canonical import canonical_json

SECRET = "hunter2-Tr0ub4dor-correct-horse"
STREAM: list[dict[str, Any]] = [
    {"kind": "system", "turn": 0, "payload": {"content": f"Be kind. {SECRET}"}},
    {"kind": "user", "turn": 1, "payload": {"content": "What is in a.py?", "role": "user"}},
    {
        "kind": "assistant",
        "turn": 1,
        "payload": {"content": "Let me see.", "tool_calls": [{"id": 1}, {"id": 2}]},
    },
    {"kind": "tool_result", "turn": 1, "payload": ["line 1", {SECRET: SECRET}]},
    {"kind": "assistant", "turn": 2, "payload": {"content": f"It says {SECRET}."}},
]
STAGES = ("FROZEN", "HEADER", "RAW", "SPEC")


def compiled(policy: dict[str, Any] | None = None, events: list[Any] | None = None) -> Any:
    """The output as somebody reads it who has only the JSON."""
    output = compile_stages(STREAM if events is None else events, policy).to_json()
    return json.loads(json.dumps(output))


def stage(name: str, policy: dict[str, Any] | None = None, events: list[Any] | None = None) -> Any:
    """One stage of the output."""
    return compiled(policy, events)["stages"][name]


def sha256(data: object) -> str:
    """The hash that z1, z2 and z3 are made with, spelled out."""
    return hashlib.sha256(canonical_json(data)).hexdigest()


def test_the_output_has_exactly_the_promised_keys() -> None:
    output = compiled()
    assert sorted(output) == ["hashes", "schema_version", "stages"]
    assert sorted(output["hashes"]) == ["z1", "z2", "z3"]
    assert sorted(output["stages"]) == list(STAGES)


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_carries_the_schema_version_as_text(name: str) -> None:
    assert stage(name)["schema_version"] == compiled()["schema_version"] == "2"


@pytest.mark.parametrize(("key", "name"), [("z1", "RAW"), ("z2", "SPEC"), ("z3", "HEADER")])
def test_a_hash_is_sha256_of_its_stage(key: str, name: str) -> None:
    output = compiled()
    assert output["hashes"][key] == sha256(output["stages"][name])


def test_every_stage_has_its_own_immutable_type() -> None:
    result = compile_stages(STREAM)
    types = [type(s) for s in (result.raw, result.spec, result.header, result.frozen)]
    assert types == [
        compiler.RawStage,
        compiler.SpecStage,
        compiler.HeaderStage,
        compiler.FrozenStage,
    ]
    for part in (result, result.raw, result.spec, result.header, result.frozen):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, dataclasses.fields(part)[0].name, None)


def keys_in_order(value: object) -> bool:
    """Whether every object in a value has its keys sorted."""
    if isinstance(value, dict):
        return list(value) == sorted(value) and all(map(keys_in_order, value.values()))
    return not isinstance(value, list) or all(map(keys_in_order, value))


def test_all_keys_come_out_sorted() -> None:
    policy = {"header": {"mode": "sanitized_preview"}, "collapse": {"mode": "all_but_last"}}
    assert keys_in_order(compile_stages(STREAM, policy).to_json())
    assert keys_in_order(compile_stages(STREAM).to_json())


# RAW


def test_raw_is_an_inventory() -> None:
    raw = stage("RAW")
    assert raw["event_count"] == raw["node_count"] == 5
    assert raw["turn_count"] == 3
    assert raw["kind_counts"] == {"assistant": 2, "system": 1, "tool_result": 1, "user": 1}
    assert len(raw["node_hash"]) == 64


def test_raw_holds_only_what_is_allowed() -> None:
    allowed = {"event_count", "kind_counts", "node_count", "node_hash", "schema_version"}
    assert set(stage("RAW")) == allowed | {"turn_count"}


def test_raw_refers_to_the_latest_prompt_summary() -> None:
    events = [
        {"kind": "prompt_summary", "turn": 1, "payload": "old", "id": "a"},
        {"kind": "prompt_summary", "turn": 2, "payload": f"new {SECRET}", "id": "b"},
    ]
    raw = stage("RAW", events=events)
    assert raw["prompt_summary"] == {
        "digest": compile_stages(events).spec.nodes[1].digest,
        "id": "b",
    }


def test_raw_does_not_depend_on_the_policy() -> None:
    policy = {"selection": {"max_nodes": 1}, "collapse": {"target": 0, "mode": "all_but_last"}}
    assert stage("RAW", policy) == stage("RAW")


@pytest.mark.parametrize(
    "change", [{"kind": "note"}, {"turn": 7}, {"payload": "other"}, {"id": "mine"}]
)
def test_kind_turn_payload_and_id_all_move_the_node_hash(change: dict[str, Any]) -> None:
    events = [*STREAM[:-1], {**STREAM[-1], **change}]
    assert stage("RAW", events=events)["node_hash"] != stage("RAW")["node_hash"]


def test_the_order_of_events_moves_the_node_hash() -> None:
    events = [{**event, "id": str(n)} for n, event in enumerate(STREAM)]
    turned = list(reversed(events))
    assert stage("RAW", events=events)["node_hash"] != stage("RAW", events=turned)["node_hash"]


# SPEC


def test_spec_lists_the_selected_nodes_without_their_payload() -> None:
    spec = stage("SPEC")
    assert [node["id"] for node in spec["nodes"]] == spec["selected_ids"]
    assert spec["nodes"][1] == {
        "digest": spec["nodes"][1]["digest"],
        "id": spec["selected_ids"][1],
        "kind": "user",
        "payload_sha256": sha256(STREAM[1]["payload"]),
        "payload_shape": {
            "fields": {"content": "string", "role": "string"},
            "other_fields": 0,
            "size": 2,
            "type": "object",
        },
        "pinned": False,
        "turn": 1,
    }


def test_spec_holds_only_what_is_allowed() -> None:
    assert set(stage("SPEC")) == {
        *("collapsed_ids", "config", "dropped", "dropped_ids", "nodes", "schema_version"),
        *("selected_ids", "selection_sha256"),
    }


def test_spec_echoes_the_settings_that_select() -> None:
    policy = {
        "selection": {"kind_allowlist": ["user", "assistant", "user"], "max_nodes": 3},
        "collapse": {"target": 2, "mode": "all_but_last"},
    }
    assert stage("SPEC", policy)["config"] == {
        "kind_allowlist": ["assistant", "user"],
        "max_chars": None,
        "max_nodes": 3,
        "max_turns": None,
        "pin_first_system": False,
        "pin_latest": False,
        "target": 2,
    }


def test_selected_and_dropped_ids_are_in_append_order_and_complete() -> None:
    events = [{**e, "turn": 9 - n, "id": f"id{n}"} for n, e in enumerate(STREAM)]
    spec = stage("SPEC", {"selection": {"max_nodes": 3}}, events)
    assert spec["selected_ids"] == ["id0", "id1", "id2"]
    assert spec["dropped_ids"] == ["id3", "id4"]


def test_spec_says_why_a_node_was_dropped() -> None:
    policy = {
        "selection": {"kind_allowlist": ["user", "assistant", "system"], "max_turns": 2},
        "collapse": {"target": 2},
    }
    spec = stage("SPEC", policy, [{**e, "id": f"id{n}"} for n, e in enumerate(STREAM)])
    assert {item["id"]: item["reason"] for item in spec["dropped"]} == {
        "id0": "max_turns",
        "id1": "target",
        "id3": "kind",
    }


def test_the_selection_hash_follows_settings_ids_and_content() -> None:
    def selection_sha256(policy: dict[str, Any] | None = None, events: Any = None) -> str:
        return str(stage("SPEC", policy, events)["selection_sha256"])

    with_ids = [{**event, "id": str(n)} for n, event in enumerate(STREAM)]
    other_text = [*with_ids[:-1], {**with_ids[-1], "payload": "other"}]
    hashes = [
        selection_sha256(),
        selection_sha256({"selection": {"max_nodes": 100}}),
        selection_sha256({"selection": {"max_nodes": 2}}),
        selection_sha256(events=with_ids),
        selection_sha256(events=other_text),
    ]
    assert len(set(hashes)) == len(hashes)
    assert selection_sha256({"header": {"mode": "sanitized_preview"}}) == hashes[0]


# HEADER


def test_header_refers_to_a_node_with_every_message() -> None:
    output = compiled({"selection": {"max_turns": 2}})
    header, spec = output["stages"]["HEADER"], output["stages"]["SPEC"]
    assert [message["id"] for message in header["messages"]] == spec["selected_ids"]
    assert header["selection_sha256"] == spec["selection_sha256"]


def test_header_shows_hashes_lengths_and_tool_calls_by_default() -> None:
    header = stage("HEADER")
    assert header["mode"] == "hash_only"
    payload = STREAM[2]["payload"]
    assert header["messages"][2] == {
        "collapsed": False,
        "id": header["messages"][2]["id"],
        "kind": "assistant",
        "payload_bytes": len(canonical_json(payload)),
        "payload_sha256": sha256(payload),
        "role": "assistant",
        "text_chars": len("Let me see."),
        "tool_calls": 2,
        "turn": 1,
    }


def test_header_holds_only_what_is_allowed() -> None:
    assert set(stage("HEADER")) == {
        *("collapsed_ids", "dropped_ids", "messages", "mode", "schema_version"),
        "selection_sha256",
    }


def test_header_previews_only_when_asked_and_only_so_much() -> None:
    policy = {"header": {"mode": "sanitized_preview", "preview_chars": 8}}
    events = [{"kind": "user", "turn": 1, "payload": "x" * 10_000}]
    [message] = stage("HEADER", policy, events)["messages"]
    assert message["preview"] == "x" * 8
    assert message["preview_truncated"] is True
    assert "preview" not in stage("HEADER", None, events)["messages"][0]


# FROZEN


def test_frozen_mirrors_a_hash_only_header() -> None:
    output = compiled({"collapse": {"mode": "all_but_last", "target": 3}})
    assert output["stages"]["FROZEN"] == output["stages"]["HEADER"]


def test_frozen_stays_the_same_when_somebody_looks_at_previews() -> None:
    looking = {"header": {"mode": "sanitized_preview", "preview_chars": 20}}
    assert stage("FROZEN", looking) == stage("FROZEN") != stage("HEADER", looking)


def test_frozen_carries_previews_only_when_configured() -> None:
    header = {"mode": "sanitized_preview", "freeze_previews": True}
    output = compiled({"header": header})
    assert output["stages"]["FROZEN"] == output["stages"]["HEADER"]
    assert "preview" in output["stages"]["FROZEN"]["messages"][0]


def test_freezing_previews_that_are_not_made_changes_nothing() -> None:
    assert compiled({"header": {"freeze_previews": True}}) == compiled()


# Which settings move which hash


@pytest.mark.parametrize(
    ("policy", "moved"),
    [
        ({"selection": {"max_nodes": 2}}, {"z2", "z3"}),
        ({"collapse": {"target": 2}}, {"z2", "z3"}),
        ({"collapse": {"mode": "all_but_last"}}, {"z3"}),
        ({"header": {"mode": "sanitized_preview"}}, {"z3"}),
        ({"header": {"preview_chars": 5}}, set()),
        ({"selection": {"max_nodes": None, "pin_latest": False}}, set()),
    ],
)
def test_a_setting_moves_only_the_hashes_of_what_it_changes(
    policy: dict[str, Any], moved: set[str]
) -> None:
    before, after = compiled()["hashes"], compiled(policy)["hashes"]
    assert {key for key in before if before[key] != after[key]} == moved


# Nothing leaks


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"collapse": {"mode": "all_but_last", "target": 2}},
        {"selection": {"max_turns": 1, "pin_latest": True}},
    ],
)
def test_no_text_of_a_payload_is_in_any_stage(policy: dict[str, Any]) -> None:
    output = json.dumps(compiled(policy))
    for text in (SECRET, "hunter2", "a.py", "Let me see", "line 1", "Be kind"):
        assert text not in output


PLANTED = st.uuids().map(lambda uuid: f"planted-{uuid.hex}")


@st.composite
def payload_with_secret(draw: st.DrawFn) -> tuple[object, str]:
    """A JSON value with a secret somewhere inside, as a value or as a key."""
    secret = draw(PLANTED)
    value: object = secret
    for _ in range(draw(st.integers(0, 4))):
        key = draw(st.sampled_from(["content", "text", "tool_calls", "role", "name", "x", "token"]))
        wrapped: list[object] = [{key: value}, [value, 1], {"role": "user", key: value}]
        wrapped += [{secret: value}, f"text around {value}"]
        value = draw(st.sampled_from(wrapped))
    return value, secret


@settings(max_examples=100, deadline=None)
@given(
    planted=st.lists(payload_with_secret(), min_size=1, max_size=4),
    mode=st.sampled_from(["none", "all_but_last"]),
    target=st.none() | st.integers(0, 3),
    pin=st.booleans(),
)
def test_a_planted_secret_is_absent_from_every_stage(
    planted: list[tuple[object, str]], mode: str, target: int | None, pin: bool
) -> None:
    events = [
        {"kind": ("user", "assistant", "tool_call")[n % 3], "turn": n // 2, "payload": payload}
        for n, (payload, _) in enumerate(planted)
    ]
    policy = {"collapse": {"mode": mode, "target": target}, "selection": {"pin_latest": pin}}
    output = json.dumps(compile_stages(events, policy).to_json(), ensure_ascii=False)
    for _, secret in planted:
        assert secret not in output
        assert secret.removeprefix("planted-") not in output


# Determinism

SCRIPT = """
import json, sys
from indexer.compiler import compile_stages
events, policy = json.load(sys.stdin)
print(json.dumps(compile_stages(events, policy).to_json()))
"""


def test_the_output_is_the_same_in_every_process_and_under_every_hash_seed() -> None:
    policy = {
        "selection": {"kind_allowlist": ["user", "assistant", "system"], "pin_latest": True},
        "header": {"mode": "sanitized_preview"},
        "collapse": {"mode": "all_but_last", "kind_allowlist": ["system", "user"]},
    }
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=json.dumps([STREAM, policy]),
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": str(Path(compiler.__file__).parents[2]),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert outputs == {json.dumps(compile_stages(STREAM, policy).to_json()) + "\n"}


def test_the_hashes_of_a_fixed_stream_never_change() -> None:
    events = [
        {"kind": "user", "turn": 1, "payload": {"content": "h\u00e9llo", "n": 1.5}},
        {"kind": "assistant", "turn": 1, "payload": None, "id": "given"},
    ]
    policy = {"selection": {"max_nodes": 5, "pin_latest": True}, "collapse": {"target": 9}}
    assert compile_stages(events, policy).hashes == {
        "z1": "13fd437c982c5ea2ca9a772832329f4ae81013edc5b0cf6cb4e21f61b69f98f6",
        "z2": "4e59cb1211ef6c9add5c2527cbd1af41559b21305e3556cbe7799cfe51c6bfc5",
        "z3": "cfeb5d45812d155ec86ab3d70d471dbe89722dab9a41abce6ff93eae54723805",
    }
    # What was recorded under the first version is checked by it.
    assert compile_stages(events, policy, version="1").hashes == {
        "z1": "f276a3b03998ca8f3f82606bb832c67dd5e9b8e58cb0a844976f5309360b975d",
        "z2": "030edc016693174234eae55ddf6617169be6e29e8511b0911c75e030d7e13a57",
        "z3": "e7a93d17b637f04ab14cabe5ae3239cfceddb3cc36ab176574c57ba48d5fdca6",
    }


def test_the_order_of_keys_in_the_input_does_not_matter() -> None:
    turned = [dict(reversed(event.items())) for event in STREAM]
    assert compiled(events=turned) == compiled()


def test_keys_of_an_event_outside_the_contract_take_no_part() -> None:
    stamped = [
        {**event, "recorded_at": n, "nonce": os.urandom(4)} for n, event in enumerate(STREAM)
    ]
    assert compiled(events=stamped) == compiled()


def test_the_input_is_left_as_it_was() -> None:
    before = json.dumps(STREAM)
    compile_stages(STREAM, {"header": {"mode": "sanitized_preview"}})
    assert json.dumps(STREAM) == before


def test_an_empty_stream_compiles() -> None:
    output = compiled({"collapse": {"mode": "all_but_last", "target": 3}}, [])
    assert output["stages"]["RAW"]["kind_counts"] == {}
    assert output["stages"]["SPEC"]["selected_ids"] == []
    assert output["stages"]["HEADER"]["messages"] == []


def test_time_and_number_of_an_event_take_no_part_in_any_stage() -> None:
    def at(clock: int) -> Any:
        stamp = {"seq": clock, "timestamp": f"{clock}", "timestamp_ms": clock}
        return [
            {**event, **stamp, "payload": {**stamp, "text": "x", "calls": [{**stamp, "q": n}]}}
            for n, event in enumerate(STREAM)
        ]

    early, late = compiled(events=at(1)), compiled(events=at(99_999))
    assert early == late
    # The first version counted them, which is why it was left.
    old = [compile_stages(at(clock), version="1").hashes for clock in (1, 99_999)]
    assert old[0] != old[1]


def test_what_only_looks_like_a_time_takes_part() -> None:
    def asked(when: str) -> Any:
        payload = {"content": f'{{"timestamp": "{when}"}}', "time": when}
        return compiled(events=[{"kind": "user", "turn": 1, "payload": payload}])["hashes"]

    assert asked("now") != asked("then")
