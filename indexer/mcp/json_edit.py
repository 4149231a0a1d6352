"""Changing one member of a JSON file and not a byte of the rest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from indexer.errors import UsageError

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\r\n"

KeyPath = tuple[str, ...]


class UneditableError(UsageError):
    """The file is not plain enough to be changed without harming it; it was left as it is."""

    code = "uneditable"


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member stands: its key, then its value."""

    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """Where an object stands, and its members in order."""

    start: int
    end: int
    members: tuple[_Member, ...]

    def get(self, key: str) -> _Member | None:
        return next((member for member in self.members if member.key == key), None)


def parse(text: str) -> dict[str, Any]:
    """The document, refused when it is no plain JSON object or names something twice."""
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise UneditableError("it is nested too deeply to be read") from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) and _looks_commented(text):
            raise UneditableError(
                f"it has comments or trailing commas, which a change could harm ({error})"
            ) from None
        raise UneditableError(f"it is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise UneditableError("it does not hold a JSON object")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice in one object")
    return found


def _looks_commented(text: str) -> bool:
    squeezed = "".join(text.split())
    return "//" in text or "/*" in text or ",}" in squeezed or ",]" in squeezed


def value_at(document: dict[str, Any], path: KeyPath) -> Any:
    """The value under a path of keys, None where there is none."""
    found: Any = document
    for key in path:
        if not isinstance(found, dict):
            raise UneditableError(f"{key} is looked for in something that is no object")
        if key not in found:
            return None
        found = found[key]
    return found


def with_member(text: str, path: KeyPath, value: Any) -> str:
    """The text with a value under a path of keys; objects on the way are made."""
    value_at(parse(text), path)
    here = _object_at(text, _skip(text, 0))
    unit = _unit(text, here)
    depth = 0
    while (member := here.get(path[depth])) is not None and depth < len(path) - 1:
        here = _object_at(text, member.value)
        depth += 1
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    if member is not None:
        shown = _shown(text, value, _indent_of(text, member.start), unit)
        return text[: member.value] + shown + text[member.end :]
    return _inserted(text, here, path[depth], value, unit)


def without_member(text: str, path: KeyPath) -> str:
    """The text without the member at a path of keys; unchanged where there is none."""
    if value_at(parse(text), path) is None:
        return text
    here = _object_at(text, _skip(text, 0))
    for key in path[:-1]:
        above = here.get(key)
        assert above is not None
        here = _object_at(text, above.value)
    number = next(n for n, member in enumerate(here.members) if member.key == path[-1])
    member = here.members[number]
    if len(here.members) == 1:
        return text[: here.start + 1] + text[here.end - 1 :]
    if number == len(here.members) - 1:
        return text[: here.members[number - 1].end] + text[member.end :]
    return text[: member.start] + text[here.members[number + 1].start :]


def _inserted(text: str, here: _Object, key: str, value: Any, unit: str) -> str:
    """A new last member, in the manner of those before it."""
    name = json.dumps(key, ensure_ascii=False)
    newline = "\r\n" if "\r\n" in text else "\n"
    if here.members and "\n" not in text[here.start : here.members[0].start]:
        last = here.members[-1].end
        return f"{text[:last]}, {name}: {json.dumps(value, ensure_ascii=False)}{text[last:]}"
    if here.members:
        indent, last = _indent_of(text, here.members[0].start), here.members[-1].end
        shown = _shown(text, value, indent, unit)
        return f"{text[:last]},{newline}{indent}{name}: {shown}{text[last:]}"
    outer = _indent_of(text, here.start)
    shown = _shown(text, value, outer + unit, unit)
    inside = f"{newline}{outer}{unit}{name}: {shown}{newline}{outer}"
    return text[: here.start + 1] + inside + text[here.end - 1 :]


def _shown(text: str, value: Any, indent: str, unit: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return (newline + indent).join(lines)


def _unit(text: str, top: _Object) -> str:
    """One step of indentation, as the file has it."""
    if top.members and "\n" in text[top.start : top.members[0].start]:
        return _indent_of(text, top.members[0].start) or "  "
    return "  "


def _indent_of(text: str, position: int) -> str:
    """The white space that begins the line of a position."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _object_at(text: str, start: int) -> _Object:
    """The members of the object that begins here; the text is known to be valid."""
    members: list[_Member] = []
    position = _skip(text, start + 1)
    while text[position] != "}":
        if text[position] == ",":
            position = _skip(text, position + 1)
        key, after = _DECODER.raw_decode(text, position)
        value = _skip(text, _skip(text, after) + 1)
        _, end = _DECODER.raw_decode(text, value)
        members.append(_Member(key, position, value, end))
        position = _skip(text, end)
    return _Object(start, position + 1, tuple(members))


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position
