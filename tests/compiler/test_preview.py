"""A preview shows a little, redacted, and nothing a terminal would act on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.compiler import compile_stages
from indexer.compiler.preview import escape_controls, preview

KEY = "".join(["ghp", "_", "x7Kq9" * 7, "a"])


def shown(payload: object, limit: int = 500) -> str:
    return preview(payload, limit)[0]


def test_text_is_shown_as_it_is() -> None:
    assert preview("Hello, w\u00f6rld \u4e2d!", 100) == ("Hello, w\u00f6rld \u4e2d!", False)


def test_of_a_message_the_text_is_shown_and_not_its_json() -> None:
    assert shown({"role": "user", "content": "Hello"}) == "Hello"
    parts = [{"type": "text", "text": "one"}, {"type": "image", "url": "x"}, {"text": "two"}]
    assert shown({"role": "user", "content": parts}) == "one\\ntwo"
    assert shown({"role": "user", "content": ""}) == '{"content":"","role":"user"}'


def test_other_values_are_shown_as_canonical_json() -> None:
    assert shown({"b": [1, None], "a": "x"}) == '{"a":"x","b":[1,null]}'


def test_a_preview_is_cut_to_its_limit_and_says_so() -> None:
    assert preview("abcdef", 6) == ("abcdef", False)
    assert preview("abcdef", 5) == ("abcde", True)
    assert preview("abcdef", 0) == ("", True)
    assert preview("", 0) == ("", False)


def test_control_characters_are_written_out() -> None:
    assert shown("\x1b[31mred\x1b[0m\n\t\r\x00\x7f\x9b") == (
        "\\x1b[31mred\\x1b[0m\\n\\t\\r\\x00\\x7f\\x9b"
    )
    assert shown("a\u202eb\u200bc\u2028d\ufeff\U000e0041") == (
        "a\\u202eb\\u200bc\\u2028d\\ufeff\\U000e0041"
    )


def test_an_escape_is_not_cut_in_half() -> None:
    assert preview("ab\x1bcd", 4) == ("ab", True)
    assert preview("ab\x1bcd", 6) == ("ab\\x1b", True)


def test_a_secret_is_redacted_before_the_text_is_cut() -> None:
    text = f"use {KEY} now"
    for limit in range(len(text)):
        assert "x7K" not in shown(text, limit)
        assert "x7K" not in shown({"content": text}, limit)


@pytest.mark.parametrize(
    "payload",
    [
        {"password": KEY},
        {"outer": [{"api_key": KEY}]},
        {"headers": [["Authorization", KEY]]},
        {"headers": [{"name": "X-Api-Key", "value": KEY}]},
        {"headers": [{"key": "cookie", "value": KEY}]},
        {"auth": {"user": "bob", "deep": {"value": KEY}}},
        {"env": f"TOKEN={KEY}"},
        {KEY: 1},
        [["Set-Cookie", KEY]],
        {"argv": ["curl", "-H", f"Authorization: Bearer {KEY}"]},
        {"log": f"\x1b[1mpassword\x1b[0m: {KEY}"},
    ],
)
def test_secrets_in_structures_are_redacted(payload: object) -> None:
    text = shown(payload)
    assert "x7K" not in text
    assert "redacted" in text


def test_a_field_named_like_a_secret_hides_any_value() -> None:
    assert shown({"password": 1234, "token": ["a"], "ok": 5}) == (
        '{"ok":5,"password":"[redacted:field]","token":"[redacted:field]"}'
    )


def test_deep_nesting_is_cut() -> None:
    value: object = "hunter2"
    for _ in range(500):
        value = [value]
    assert "hunter2" not in shown(value, 4000)
    assert "[nested]" in shown(value, 4000)


@given(st.text(), st.integers(0, 50))
def test_a_preview_is_never_longer_than_its_limit_nor_unsafe(text: str, limit: int) -> None:
    result, _ = preview(text, limit)
    assert len(result) <= limit
    assert escape_controls(result) == result


def test_previews_in_the_header_are_redacted_and_absent_from_frozen() -> None:
    events = [
        {"kind": "user", "turn": 1, "payload": {"content": f"my key is {KEY}"}},
        {"kind": "tool", "turn": 1, "payload": f"Authorization: Bearer {KEY}\r\nok"},
    ]
    policy = {"header": {"mode": "sanitized_preview", "preview_chars": 300}}
    output: Any = compile_stages(events, policy).to_json()
    assert "x7K" not in json.dumps(output)
    assert "preview" not in json.dumps(output["stages"]["FROZEN"])
    assert output["stages"]["HEADER"]["messages"][1]["preview"] == (
        "Authorization: [redacted:header]\\r\\nok"
    )
