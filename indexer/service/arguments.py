"""Arguments from outside: what each may be, in words, in JSON Schema, and as a check."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from indexer.errors import UsageError

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Text without lone surrogates, which JSON can spell and UTF-8 cannot."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_flag(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    """A number of things."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def is_number(value: Any) -> bool:
    """An amount; no infinity, and no NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**12


def is_seconds(value: Any) -> bool:
    """A time to wait."""
    return is_number(value) and 0 < value < 10**6


def is_texts(value: Any) -> bool:
    """A list of texts."""
    return isinstance(value, list) and all(map(is_text, value))


def is_table(value: Any) -> bool:
    """An object of texts."""
    return isinstance(value, dict) and all(map(is_text, (*value, *value.values())))


def is_whole(value: Any) -> bool:
    """A whole number that a database can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def is_list(value: Any) -> bool:
    """A list of anything; the operation looks at what is in it."""
    return isinstance(value, list) and _is_writable(value)


def is_object(value: Any) -> bool:
    """An object with anything in it; the operation looks at that."""
    return isinstance(value, dict) and _is_writable(value)


def _is_writable(value: Any) -> bool:
    """Whether no text anywhere in it holds a lone surrogate."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def is_part(value: Any) -> bool:
    """A part and the number of parts."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(is_count, value))
        and 1 <= value[0] <= value[1]
    )


def is_file(value: Any) -> bool:
    """The whole name of a file: the service's own folder is none of a client's business."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        return False
    try:
        # Not as text: a name may hold bytes that are not UTF-8, and then surrogates stand for them.
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


WORDS: Final[dict[Check, str]] = {
    is_text: "text",
    is_flag: "true or false",
    is_count: "a whole number from 0 to 999999999",
    is_number: "a number, not negative",
    is_seconds: "a positive number of seconds",
    is_texts: "a list of texts",
    is_table: "an object of texts",
    is_whole: "a whole number",
    is_list: "a list",
    is_object: "an object",
    is_part: "two numbers, part and parts",
    is_file: "the absolute path of a file",
}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}
SCHEMAS: Final[dict[Check, dict[str, Any]]] = {
    is_text: {"type": "string"},
    is_flag: {"type": "boolean"},
    is_count: _COUNT,
    is_number: {"type": "number", "minimum": 0, "exclusiveMaximum": 10**12},
    is_seconds: {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**6},
    is_texts: {"type": "array", "items": {"type": "string"}},
    is_table: {"type": "object", "additionalProperties": {"type": "string"}},
    is_whole: {"type": "integer", "exclusiveMinimum": -(1 << 63), "exclusiveMaximum": 1 << 63},
    is_list: {"type": "array"},
    is_object: {"type": "object"},
    is_part: {
        "type": "array", "minItems": 2, "maxItems": 2, "items": {**_COUNT, "minimum": 1},
    },
    is_file: {"type": "string", "pattern": "^/[^\\u0000]*$"},
}  # fmt: skip
"""What a schema can say of each check; where it says less, the check refuses more."""


def checked(
    required: Mapping[str, Check], optional: Mapping[str, Check], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The values that were given, each checked; None stands for not given."""
    known = {**required, **optional}
    given = {name: value for name, value in values.items() if value is not None}
    for name in values:
        if name not in known:
            raise UsageError(f"{name!r} is not an argument", hint=f"known: {', '.join(known)}")
    for name, check in known.items():
        if name in required and name not in given:
            raise UsageError(f"{name} is required and must be {WORDS[check]}")
        if name in given and not check(given[name]):
            raise UsageError(f"{name} must be {WORDS[check]}")
    return given
