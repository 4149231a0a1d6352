"""One value, one spelling, one hash."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core.canonical import NotCanonicalError, canonical_json, commit_hash, content_hash
from indexer.errors import UsageError

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def test_keys_are_sorted_at_every_level_without_white_space() -> None:
    assert canonical_json({"z": 1, "a": {"y": [1, 2], "b": None}}) == (
        b'{"a":{"b":null,"y":[1,2]},"z":1}'
    )


def test_text_is_utf8_and_not_escaped() -> None:
    assert canonical_json("h\u00e9llo \u4e2d") == '"h\u00e9llo \u4e2d"'.encode()


def test_the_content_hash_is_sha256_of_the_canonical_json() -> None:
    expected = hashlib.sha256(b'{"a":1,"b":2}').hexdigest()
    assert content_hash({"b": 2, "a": 1}) == expected == content_hash({"a": 1, "b": 2})


@given(JSON)
def test_the_spelling_survives_a_round_trip(value: object) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


def test_the_commit_hash_is_sha256_of_its_fields() -> None:
    fields = (
        b'{"content_hash":"c","content_type":"t","operation":"append",'
        b'"parent_hash":null,"timestamp_iso":"2024-01-01T00:00:00Z"}'
    )
    assert commit_hash("c", None, "t", "append", "2024-01-01T00:00:00Z") == (
        hashlib.sha256(fields).hexdigest()
    )


def test_no_reply_to_is_the_same_as_none() -> None:
    plain = commit_hash("abc", None, "instruction", "append", "2024-01-01T00:00:00Z")
    assert plain == commit_hash(
        "abc", None, "instruction", "append", "2024-01-01T00:00:00Z", reply_to=None
    )


@pytest.mark.parametrize("place", range(6))
def test_every_field_takes_part_in_the_commit_hash(place: int) -> None:
    fields = ["content", "parent", "type", "append", "2024-01-01T00:00:00Z", "reply"]
    changed = [*fields]
    changed[place] += "x"
    assert commit_hash(*fields) != commit_hash(*changed)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": float("nan")}, "not a JSON value"),
        ([float("inf")], "not a JSON value"),
        ("\ud800", r"lone surrogate U\+D800"),
        ({"\udfff": 1}, r"lone surrogate U\+DFFF"),
        ({"a": {1: 2}}, "cannot have the key 1"),
        ({"a": {None: 2}}, "cannot have the key None"),
        ({"x": {1, 2}}, "not a JSON value"),
        (b"bytes", "not a JSON value"),
        ([10**5000], "not a JSON value"),
    ],
)
def test_what_json_cannot_carry_is_refused(value: object, message: str) -> None:
    with pytest.raises(NotCanonicalError, match=message) as caught:
        canonical_json(value)
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(NotCanonicalError):
        canonical_json(loop)


def test_a_value_nested_without_end_is_refused() -> None:
    deep: object = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(NotCanonicalError, match="nested too deeply"):
        canonical_json(deep)
