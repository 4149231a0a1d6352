"""Checking a call's arguments against its schema, with words an agent can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from indexer.errors import UsageError
from indexer.mcp.declarations import Declaration, Schema

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "array": (list,),
    "object": (dict,),
}
_WORDS: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number, not negative",
    "array": "a list",
    "object": "an object",
}


class ArgumentError(UsageError):
    """The call is not as the tool's schema says; nothing was done."""

    code = "arguments"


def checked(tool: Declaration, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, each as declared; null stands for not given."""
    values = {name: value for name, value in given.items() if value is not None}
    known = ", ".join(tool.takes)
    for name in values:
        if name not in tool.takes:
            raise ArgumentError(f"{tool.name} takes no {name!r}", hint=f"it takes: {known}")
    for name in tool.required:
        if name not in values:
            raise ArgumentError(f"{tool.name} needs {name}", hint=_how_to_get(name, known))
    for name, value in values.items():
        _check(name, value, tool.takes[name])
    return values


def _how_to_get(name: str, known: str) -> str:
    if name == "seen":
        return "call get_node, read what it says, and pass its node_id as seen"
    return f"it takes: {known}"


def _check(name: str, value: Any, schema: Schema) -> None:
    if "enum" in schema:
        if value not in schema["enum"]:
            raise ArgumentError(
                f"{name} cannot be {value!r}", hint=f"use one of: {', '.join(schema['enum'])}"
            )
        return
    kind = schema["type"]
    fits = isinstance(value, _TYPES[kind]) and (kind == "boolean") == isinstance(value, bool)
    if not fits or (kind == "integer" and not schema["minimum"] <= value < 10**9):
        raise ArgumentError(f"{name} must be {_WORDS[kind]}", hint="change it and call again")
    if kind == "string":
        _check_unicode(name, value)
    for item in value if kind == "array" else ():
        _check(f"each of {name}", item, schema["items"])
    for key, item in value.items() if kind == "object" else ():
        _check_unicode(name, key)
        if "additionalProperties" in schema:
            _check(f"{name}.{key}", item, schema["additionalProperties"])


def _check_unicode(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{name} is not valid Unicode text", hint="send it as UTF-8") from None
