"""Adding and removing one table of a TOML file and not a byte of the rest.

tomlkit 0.15.2 was tried for this. It writes back what it read byte for byte, but not what it edits:
with a removed table go the comments that stand above the next one; a table beside dotted keys
(`servers.other.command = "x"`) is put in the middle, so that the keys behind it become the table's;
tables of one parent that stand apart cannot be removed; new lines end in LF in a file of CRLF.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from indexer.mcp.json_edit import KeyPath, UneditableError, value_at


def parse(text: str) -> dict[str, Any]:
    """The document, refused when it is no valid TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UneditableError(f"it is not valid TOML: {error}") from None


def block(path: KeyPath, value: dict[str, Any], newline: str = "\n") -> str:
    """A table with its header."""
    lines = [f"[{'.'.join(path)}]", *(_pair(key, each) for key, each in value.items())]
    return newline.join(lines) + newline


def _pair(key: str, value: Any) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", key) is not None
    return f"{key if plain else json.dumps(key, ensure_ascii=False)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(_pair(key, each) for key, each in value.items())} }}"
    # Texts, numbers, truth and lists of them are written alike in TOML and JSON.
    return json.dumps(value, ensure_ascii=False, default=str)


def with_table(text: str, path: KeyPath, value: dict[str, Any]) -> str:
    """The text with a table under a path of keys, at its end."""
    wanted = parse(text)
    kept = without_table(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not kept.strip() else newline if kept.endswith("\n") else newline * 2
    changed = kept + gap + block(path, value, newline)
    _put(wanted, path, value)
    return _checked(changed, wanted)


def without_table(text: str, path: KeyPath) -> str:
    """The text without the table at a path of keys; unchanged where there is none."""
    wanted = parse(text)
    if value_at(wanted, path) is None:
        return text
    # Not `splitlines`: it also ends a line at characters that may stand in a comment.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    ours = re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(map(_named, path)) + r"\s*[].]")
    taken: set[int] = set()
    inside = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("["):
            inside = ours.match(line) is not None
        if inside:
            taken.add(number)
    # Blank lines and comments behind the last entry belong to what follows.
    for number in sorted(taken, reverse=True):
        following = number + 1
        is_last = following not in taken
        if is_last and (not lines[number].strip() or lines[number].lstrip().startswith("#")):
            taken.discard(number)
    if taken and min(taken) > 0 and not lines[min(taken) - 1].strip():
        taken.add(min(taken) - 1)
    changed = "".join(line for number, line in enumerate(lines) if number not in taken)
    _remove(wanted, path)
    return _checked(changed, wanted)


def _named(key: str) -> str:
    plain = re.escape(key)
    return f"""(?:{plain}|"{plain}"|'{plain}')"""


def _checked(text: str, wanted: dict[str, Any]) -> str:
    """The text, if it means what it should: tables can be written in ways not seen here."""
    if parse(text) != wanted:
        raise UneditableError("the entry is written in a way that cannot be changed safely")
    return text


def _put(document: dict[str, Any], path: KeyPath, value: dict[str, Any]) -> None:
    for key in path[:-1]:
        document = document.setdefault(key, {})
        if not isinstance(document, dict):
            raise UneditableError(f"{key} is no table")
    document[path[-1]] = value


def _remove(document: dict[str, Any], path: KeyPath) -> None:
    above = [document]
    for key in path[:-1]:
        above.append(above[-1][key])
    del above[-1][path[-1]]
    for number in range(len(path) - 1, 0, -1):
        # A table that was only ever the header of others is gone with the last of them.
        if not above[number]:
            above[number - 1].pop(path[number - 1])
