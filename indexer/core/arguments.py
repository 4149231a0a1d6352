"""What a value from outside may be: a check, the words for a refusal, and its JSON Schema.

An operation says in its signature which of these each argument is; see `of_annotation`.
"""

from __future__ import annotations

import json
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from indexer.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One kind of value; where the schema can say less than the check, the check refuses more."""

    words: str
    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Text without lone surrogates, which JSON can spell and UTF-8 cannot."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _is_count(value: Any) -> bool:
    return _is_whole(value) and 0 <= value < 10**9


def _is_number(value: Any) -> bool:
    """An amount; neither infinity nor NaN passes the comparison."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**12


def _is_part(value: Any) -> bool:
    pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_count, value))
    return pair and 1 <= value[0] <= value[1]


def _is_file(value: Any) -> bool:
    """An absolute name: the service's own folder is none of a client's business."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        return False
    try:
        # Not as text: a name may hold bytes that are not UTF-8, and then surrogates stand for them.
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _is_writable(value: Any) -> bool:
    """Whether no text anywhere in it holds a lone surrogate."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


_COUNT_SCHEMA: Final = {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}

TEXT: Final = Shape("text", {"type": "string"}, is_text)
FLAG: Final = Shape("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
COUNT: Final = Shape("a whole number from 0 to 999999999", _COUNT_SCHEMA, _is_count)
WHOLE: Final = Shape(
    "a whole number",
    {"type": "integer", "exclusiveMinimum": -(1 << 63), "exclusiveMaximum": 1 << 63},
    _is_whole,
)
AMOUNT: Final = Shape(
    "a number, not negative",
    {"type": "number", "minimum": 0, "exclusiveMaximum": 10**12},
    _is_number,
)
SECONDS: Final = Shape(
    "a positive number of seconds",
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**6},
    lambda value: _is_number(value) and 0 < value < 10**6,
)
TEXTS: Final = Shape(
    "a list of texts",
    {"type": "array", "items": {"type": "string"}},
    lambda value: isinstance(value, list | tuple) and all(map(is_text, value)),
)
TABLE: Final = Shape(
    "an object of texts",
    {"type": "object", "additionalProperties": {"type": "string"}},
    lambda value: isinstance(value, Mapping) and all(map(is_text, (*value, *value.values()))),
)
LIST: Final = Shape(
    "a list", {"type": "array"}, lambda value: isinstance(value, list) and _is_writable(value)
)
OBJECT: Final = Shape(
    "an object", {"type": "object"}, lambda value: isinstance(value, dict) and _is_writable(value)
)
PART: Final = Shape(
    "two numbers, part and parts",
    {"type": "array", "minItems": 2, "maxItems": 2, "items": {**_COUNT_SCHEMA, "minimum": 1}},
    _is_part,
)
FILE: Final = Shape(
    "the absolute path of a file", {"type": "string", "pattern": "^/[^\\u0000]*$"}, _is_file
)

# What operations write in their signatures where a plain type says too little.
Count = Annotated[int, COUNT]
Whole = Annotated[int, WHOLE]
Amount = Annotated[float, AMOUNT]
Seconds = Annotated[float, SECONDS]
File = Annotated[Path, FILE]

_PLAIN: Final[dict[Any, Shape]] = {
    str: TEXT,
    bool: FLAG,
    Sequence[str]: TEXTS,
    Mapping[str, str]: TABLE,
    Mapping[str, Any]: OBJECT,
    Mapping[str, object]: OBJECT,
    Sequence[object]: LIST,
    tuple[int, int]: PART,
}


def of_annotation(annotation: Any) -> Shape:
    """The shape of an argument that is annotated so; `| None` only says that it may be left out."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        (annotation,) = (one for one in typing.get_args(annotation) if one is not type(None))
    for noted in getattr(annotation, "__metadata__", ()):
        if isinstance(noted, Shape):
            return noted
    return _PLAIN[annotation]


def checked(
    required: Mapping[str, Shape], optional: Mapping[str, Shape], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The values that were given, each checked; None stands for not given."""
    known = {**required, **optional}
    given = {name: value for name, value in values.items() if value is not None}
    for name in values:
        if name not in known:
            raise UsageError(f"{name!r} is not an argument", hint=f"known: {', '.join(known)}")
    for name, shape in known.items():
        if name in required and name not in given:
            raise UsageError(f"{name} is required and must be {shape.words}")
        if name in given and not shape.fits(given[name]):
            raise UsageError(f"{name} must be {shape.words}")
    return given
