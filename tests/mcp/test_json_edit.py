"""Any JSON object in any layout: one member in, one member out, the rest untouched."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from indexer.mcp.json_edit import value_at, with_member, without_member

KEYS = st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
LAYOUTS = st.sampled_from(["compact", "spaced", "two", "tab", "mess"])


def laid_out(document: Any, layout: str, seed: int) -> str:
    match layout:
        case "compact":
            return json.dumps(document, separators=(",", ":"))
        case "spaced":
            return json.dumps(document, ensure_ascii=False)
        case "two":
            return json.dumps(document, indent=2) + "\n"
        case "tab":
            return json.dumps(document, indent="\t").replace("\n", "\r\n")
        case _:
            return _messy(document, random.Random(seed))


def _messy(value: Any, chance: random.Random) -> str:
    def gap() -> str:
        return chance.choice(["", " ", "\n", "\n  ", "\t"])

    if isinstance(value, dict):
        members = [
            f"{gap()}{json.dumps(key)}{gap()}:{gap()}{_messy(inner, chance)}{gap()}"
            for key, inner in value.items()
        ]
        return "{" + (",".join(members) or gap()) + "}"
    if isinstance(value, list):
        inner_ones = [f"{gap()}{_messy(inner, chance)}{gap()}" for inner in value]
        return "[" + (",".join(inner_ones) or gap()) + "]"
    return json.dumps(value)


@given(OBJECTS, LAYOUTS, st.integers(0, 99), st.lists(KEYS, min_size=1, max_size=3), OBJECTS)
def test_in_and_out(
    document: dict[str, Any], layout: str, seed: int, path: list[str], value: dict[str, Any]
) -> None:
    keys = tuple(path)
    here: Any = document
    for key in keys:
        if not isinstance(here, dict):
            return
        if key in here and here[key] is None:
            return
        here = here.get(key, {})
    text = laid_out(document, layout, seed)
    changed = with_member(text, keys, value)
    parsed = json.loads(changed)
    assert value_at(parsed, keys) == value
    was = value_at(document, keys)
    removed = without_member(changed, keys)
    left = json.loads(removed)
    expected = json.loads(text)
    _drop(expected, keys)
    _drop(left, keys)
    assert _pruned(left, keys) == _pruned(expected, keys)
    if was is None and value_at(document, keys[:-1]):
        # It was added at the end of what was there, so taking it out gives the same bytes.
        assert removed == text


def _drop(document: Any, keys: tuple[str, ...]) -> None:
    for key in keys[:-1]:
        document = document.get(key, {})
    document.pop(keys[-1], None)


def _pruned(document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Without the empty objects that were made on the way."""
    for depth in range(len(keys) - 1, 0, -1):
        above: Any = document
        for key in keys[: depth - 1]:
            above = above.get(key, {})
        if above.get(keys[depth - 1]) == {}:
            above.pop(keys[depth - 1])
    return document
