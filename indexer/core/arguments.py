"""What a value from outside may be: a check, the words for a refusal, and its JSON Schema.

An operation says in its signature which of these each argument is; see `of_annotation`.
"""

from __future__ import annotations

import json
import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from indexer.errors import MalformedError

F = TypeVar("F", bound=Callable[..., Any])

_EXACTLY_ONE: Final = "takes_exactly_one_of"


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One kind of value; where the schema can say less than the check, the check refuses more."""

    words: str
    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]
    taken: Callable[[Any], Any] = lambda value: value
    """The value as an operation gets it."""


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
    """A whole number, which JSON may spell with a point: 1.0 is an integer there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (isinstance(value, int) or value.is_integer()) and abs(value) < 1 << 63


def _is_count(value: Any) -> bool:
    return _is_whole(value) and 0 <= value < 10**9


def _is_number(value: Any) -> bool:
    """An amount; neither infinity nor NaN passes the comparison."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**12


def _is_part(value: Any) -> bool:
    pair = isinstance(value, list | tuple) and len(value) == 2
    return pair and all(_is_count(one) and one >= 1 for one in value)


def _is_file(value: Any) -> bool:
    """An absolute name: client and service may run in different folders."""
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
COUNT: Final = Shape("a whole number from 0 to 999999999", _COUNT_SCHEMA, _is_count, int)
WHOLE: Final = Shape(
    "a whole number",
    {"type": "integer", "exclusiveMinimum": -(1 << 63), "exclusiveMaximum": 1 << 63},
    _is_whole,
    int,
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
SOME_TEXT: Final = Shape(
    "text, and not none",
    {"type": "string", "minLength": 1},
    lambda value: is_text(value) and value != "",
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
    lambda value: tuple(map(int, value)),
)
FILE: Final = Shape(
    "the absolute path of a file",
    {"type": "string", "pattern": "^/[^\\u0000]*$"},
    _is_file,
    Path,
)


def one_of(*words: str) -> Shape:
    """One of a few words."""
    known = frozenset(words)
    return Shape(
        f"one of: {', '.join(words)}",
        {"type": "string", "enum": list(words)},
        lambda value: isinstance(value, str) and value in known,
    )


def whole_between(least: int, most: int) -> Shape:
    """A whole number between two, both included."""
    return Shape(
        f"a whole number from {least} to {most}",
        {"type": "integer", "minimum": least, "maximum": most},
        lambda value: _is_whole(value) and least <= value <= most,
        int,
    )


def some_of(*words: str) -> Shape:
    """A list of some of a few words."""
    return Shape(
        f"a list of some of: {', '.join(words)}",
        {"type": "array", "items": {"type": "string", "enum": list(words)}},
        # Compared one by one: a list or a table among them has no hash.
        lambda value: isinstance(value, list | tuple) and all(one in words for one in value),
    )


def matching(words: str, pattern: str) -> Shape:
    """Text of which all matches a pattern that Python and JSON Schema read alike."""
    whole = re.compile(pattern)
    return Shape(
        words,
        {"type": "string", "pattern": f"^(?:{pattern})$"},
        lambda value: is_text(value) and whole.fullmatch(value) is not None,
    )


def objects(required: Mapping[str, Shape], optional: Mapping[str, Shape]) -> Shape:
    """A list of objects with these keys.

    The operation checks the keys itself with `checked`, and so can say which object is wrong.
    """

    def fits(value: Any) -> bool:
        return isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value)

    return Shape(
        f"a list of objects with {', '.join(required)}, and perhaps {', '.join(optional)}",
        {"type": "array", "items": object_schema(required, optional)},
        fits,
    )


def object_schema(required: Mapping[str, Shape], optional: Mapping[str, Shape]) -> dict[str, Any]:
    """The schema of an object with these keys; null stands for not given."""
    given = {name: shape.schema for name, shape in required.items()}
    given |= {name: {"anyOf": [shape.schema, {"type": "null"}]} for name, shape in optional.items()}
    return {
        "type": "object",
        "properties": given,
        "required": list(required),
        "additionalProperties": False,
    }


def exactly_one(*names: str) -> Callable[[F], F]:
    """Say of an operation that it takes one of some arguments, neither none nor several."""

    def mark(function: F) -> F:
        setattr(function, _EXACTLY_ONE, names)
        return function

    return mark


def alternatives(function: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of which a function takes exactly one."""
    found: tuple[str, ...] = getattr(function, _EXACTLY_ONE, ())
    return found


# What operations write in their signatures where a plain type says too little.
Count = Annotated[int, COUNT]
Whole = Annotated[int, WHOLE]
Amount = Annotated[float, AMOUNT]
Seconds = Annotated[float, SECONDS]
File = Annotated[Path, FILE]
IdPrefix = Annotated[str, matching("an id, or 6 or more of its first digits", "[0-9a-fA-F]{6,}")]

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
            raise MalformedError(f"{name!r} is not an argument", hint=f"known: {', '.join(known)}")
    for name, shape in known.items():
        if name in required and name not in given:
            raise MalformedError(
                f"{name} is required and must be {shape.words}", hint=f"give {shape.words}"
            )
        if name in given and not shape.fits(given[name]):
            raise MalformedError(f"{name} must be {shape.words}", hint=f"give {shape.words}")
    return {name: known[name].taken(value) for name, value in given.items()}
