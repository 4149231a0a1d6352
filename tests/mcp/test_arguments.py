"""What a tool takes is what its published schema says, for any arguments at all."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.mcp.arguments import ArgumentError, checked
from indexer.mcp.declarations import TOOLS, Declaration

ATOMS = (
    st.booleans()
    | st.integers(-3, 10**6)
    | st.sampled_from(["", "src", "recency", "node", "append", "pinned", "@t0"])
    | st.just(0.5)
)
VALUES = ATOMS | st.lists(ATOMS, max_size=3) | st.dictionaries(st.sampled_from("ab"), ATOMS)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Declaration, dict[str, Any]]:
    tool = draw(st.sampled_from(TOOLS))
    names = st.sampled_from([*tool.takes, "nothing_like_it"])
    given_ = draw(st.dictionaries(names, VALUES, max_size=6))
    for name in tool.required:
        if draw(st.booleans()):
            given_.setdefault(name, draw(VALUES))
    return tool, given_


@given(calls())
def test_the_check_and_the_schema_agree(call: tuple[Declaration, dict[str, Any]]) -> None:
    tool, arguments = call
    schema = jsonschema.Draft202012Validator(tool.input_schema)
    if schema.is_valid(arguments):
        assert checked(tool, arguments) == arguments
    else:
        with pytest.raises(ArgumentError) as refused:
            checked(tool, arguments)
        assert refused.value.hint


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_schemas(tool: Declaration) -> None:
    schema = tool.input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema.get("required", [])) <= set(schema["properties"])


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(ArgumentError, match="Unicode"):
        checked(TOOLS[1], {"node": "\ud800"})
    with pytest.raises(ArgumentError, match="whole number"):
        checked(TOOLS[1], {"node": "a", "max_frames": 10**10})
