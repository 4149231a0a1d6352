"""What goes in: events and policies, and how wrong ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.compiler import EventError, Policy, PolicyError, compile_stages, parse_policy
from indexer.compiler.events import payload_shape, read_events
from indexer.errors import UsageError

GOOD = {"kind": "user", "turn": 1, "payload": "text"}


def test_ids_are_derived_from_place_and_digest() -> None:
    first, second = read_events([GOOD, GOOD])
    assert first.digest == second.digest
    assert first.id == f"n000000-{first.digest[:16]}"
    assert second.id == f"n000001-{first.digest[:16]}"


def test_a_given_id_is_kept_and_takes_no_part_in_the_digest() -> None:
    [node] = read_events([{**GOOD, "id": "mine"}])
    assert node.id == "mine"
    assert node.digest == read_events([GOOD])[0].digest


@pytest.mark.parametrize("change", [{"kind": "x"}, {"turn": 2}, {"payload": "texts"}])
def test_every_field_takes_part_in_the_digest(change: dict[str, Any]) -> None:
    assert read_events([GOOD])[0].digest != read_events([{**GOOD, **change}])[0].digest


@pytest.mark.parametrize(
    "payload", [None, True, 0, -1.5, "", "text", [], [1, [2]], {}, {"a": {"b": None}}]
)
def test_a_payload_may_be_any_json_value(payload: object) -> None:
    assert compile_stages([{**GOOD, "payload": payload}]).raw.node_count == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"payload": float("nan")}, "'payload': not a JSON value"),
        ({"payload": [{"x": float("-inf")}]}, "'payload': not a JSON value"),
        ({"payload": "\ud800"}, r"'payload': a string holds the lone surrogate U\+D800"),
        ({"payload": {"\udc00": 1}}, r"lone surrogate U\+DC00"),
        ({"payload": {1: 2}}, "cannot have the key 1"),
        ({"payload": object()}, "not a JSON value"),
        ({"kind": ""}, "'kind' must be text and not empty"),
        ({"kind": 7}, "'kind' must be text"),
        ({"kind": "a\x1b[31m"}, "'kind' holds control characters"),
        ({"kind": "\ud800"}, "'kind' holds control characters or lone surrogates"),
        ({"kind": "k" * 129}, "'kind' is longer than 128"),
        ({"turn": "1"}, "'turn' must be a whole number"),
        ({"turn": True}, "'turn' must be a whole number"),
        ({"turn": -1}, "'turn' must be a whole number, 0 or more"),
        ({"turn": 1.0}, "'turn' must be a whole number"),
        ({"turn": None}, "'turn' must be a whole number"),
        ({"turn": 2**53}, "'turn' must be a whole number"),
        ({"id": 7}, "'id' must be text"),
        ({"id": ""}, "'id' must be text and not empty"),
    ],
)
def test_a_wrong_event_is_refused_and_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EventError, match=f"event 1: .*{message}") as caught:
        compile_stages([GOOD, {**GOOD, **change}])
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("key", ["kind", "turn", "payload"])
def test_a_missing_key_is_refused(key: str) -> None:
    event = {name: value for name, value in GOOD.items() if name != key}
    with pytest.raises(EventError, match=f"event 0: '{key}' is missing"):
        compile_stages([event])


@pytest.mark.parametrize("events", [None, {}, "text", 7, {"kind": "user"}])
def test_a_stream_must_be_a_list(events: Any) -> None:
    with pytest.raises(EventError, match="must be a list"):
        compile_stages(events)


def test_an_event_must_be_an_object() -> None:
    with pytest.raises(EventError, match="event 0: must be an object"):
        compile_stages(["text"])


def test_an_id_is_given_once() -> None:
    with pytest.raises(EventError, match="event 1: the id 'a' is already that of event 0"):
        compile_stages([{**GOOD, "id": "a"}, {**GOOD, "id": "a"}])


def test_an_error_does_not_repeat_the_payload() -> None:
    with pytest.raises(EventError) as caught:
        compile_stages([{**GOOD, "payload": {"password": "hunter2", "x": float("nan")}}])
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_a_shape_names_only_fields_that_are_common_knowledge() -> None:
    assert payload_shape({"content": [1], "role": None, "my-secret-key": 1, "name": True}) == {
        "fields": {"content": "array", "name": "boolean", "role": "null"},
        "other_fields": 1,
        "size": 4,
        "type": "object",
    }
    assert payload_shape("abc") == {"size": 3, "type": "string"}
    assert payload_shape([1, 2]) == {"size": 2, "type": "array"}
    assert payload_shape(3) == {"type": "number"}
    assert payload_shape({"text": {}, "content": 1.5})["fields"] == {
        "content": "number",
        "text": "object",
    }


@pytest.mark.parametrize(
    ("kind", "payload", "text_chars", "tool_calls"),
    [
        ("user", "abc", 3, 0),
        ("user", {"content": "abcd"}, 4, 0),
        ("user", {"text": "ab"}, 2, 0),
        ("assistant", {"content": "a", "tool_calls": [{}, {}, {}]}, 1, 3),
        (
            "assistant",
            {"content": [{"type": "text", "text": "abc"}, {"type": "tool_use", "input": {}}]},
            3,
            1,
        ),
        ("tool_call", {"name": "read"}, 0, 1),
        ("assistant", {"content": ["ab", 7, {"type": ["x"]}], "tool_calls": None}, 2, 0),
        ("note", [1, 2], 0, 0),
    ],
)
def test_lengths_and_tool_calls(
    kind: str, payload: object, text_chars: int, tool_calls: int
) -> None:
    [node] = read_events([{"kind": kind, "turn": 0, "payload": payload}])
    assert (node.text_chars, node.tool_calls) == (text_chars, tool_calls)


def test_a_node_does_not_print_its_payload() -> None:
    [node] = read_events([{**GOOD, "payload": "hunter2"}])
    assert "hunter2" not in repr(node)


def test_an_empty_policy_is_the_default() -> None:
    assert parse_policy(None) == parse_policy({}) == Policy()
    assert parse_policy({"selection": {}, "header": {}, "collapse": {}}) == Policy()


def test_a_policy_may_be_given_as_the_type() -> None:
    policy = parse_policy({"selection": {"max_nodes": 1}})
    assert compile_stages([GOOD, GOOD], policy).raw.node_count == 2
    assert len(compile_stages([GOOD, GOOD], policy).spec.nodes) == 1


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([], "a policy must be an object, not a list"),
        ({"select": {}}, "unknown policy key 'select'"),
        ({"selection": None}, "policy key 'selection' must be an object, not null"),
        ({"selection": {"maxnodes": 1}}, "unknown policy key 'selection.maxnodes'"),
        ({"header": {"preview": 1}}, "unknown policy key 'header.preview'"),
        ({"collapse": {"keep": 1}}, "unknown policy key 'collapse.keep'"),
        ({"selection": {"max_nodes": -1}}, "'selection.max_nodes' must be a whole number, 0 or"),
        ({"selection": {"max_nodes": True}}, "'selection.max_nodes' .* it is true"),
        ({"selection": {"max_nodes": 2.0}}, "'selection.max_nodes' .* it is the number 2.0"),
        ({"selection": {"max_turns": "2"}}, "'selection.max_turns' .* it is the text '2'"),
        ({"selection": {"pin_latest": 1}}, "'selection.pin_latest' must be true or false"),
        ({"selection": {"pin_latest": None}}, "'selection.pin_latest' must be true or false"),
        ({"selection": {"kind_allowlist": "user"}}, "'selection.kind_allowlist' must be a list"),
        ({"selection": {"kind_allowlist": ["a", 1]}}, "'selection.kind_allowlist' must be a list"),
        ({"selection": {"kind_allowlist": ["\ud800"]}}, "must not hold lone surrogates"),
        ({"header": {"mode": "full"}}, "'header.mode' must be one of hash_only, sanitized_preview"),
        ({"header": {"mode": None}}, "'header.mode' must be one of"),
        ({"header": {"preview_chars": -1}}, "'header.preview_chars' must be from 0 to 4000"),
        ({"header": {"preview_chars": 4001}}, "'header.preview_chars' must be from 0 to 4000"),
        ({"header": {"preview_chars": "9"}}, "'header.preview_chars' must be a whole number"),
        ({"header": {"freeze_previews": "no"}}, "'header.freeze_previews' must be true or false"),
        ({"collapse": {"target": []}}, "'collapse.target' must be a whole number"),
        ({"collapse": {"mode": "a b"}}, "'collapse.mode' must be one of none, all_but_last"),
        ({"collapse": {"summary": 3}}, "'collapse.summary' must be one of reference, first_line"),
        ({"selection": {"max_chars": -1}}, "'selection.max_chars' must be a whole number"),
        ({"selection": {"pin_first_system": 1}}, "'selection.pin_first_system' must be true"),
        ({"collapse": {"kind_allowlist": {}}}, "'collapse.kind_allowlist' must be a list"),
    ],
)
def test_a_wrong_policy_is_refused_and_the_key_is_named(policy: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        compile_stages([GOOD], policy)
    assert isinstance(caught.value, UsageError)


def test_a_wrong_policy_is_refused_before_the_events_are_read() -> None:
    with pytest.raises(PolicyError):
        compile_stages("not even a list", {"nonsense": 1})
