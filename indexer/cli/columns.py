"""Laying text out: columns, sizes, counts, and lists that stop in time."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from indexer.core.paths import on_screen

SHOWN: Final = 20
"""How many entries of a list are printed before `and N more`."""

ID_DIGITS: Final = 12
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def width(text: str) -> int:
    """Columns that a text takes on a terminal, escape sequences not counted."""
    plain = click.unstyle(text)
    if plain.isascii():
        return len(plain)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in plain
    )


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with spaces to so many columns."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """Rows in aligned columns; those in `right` are flush right. No trailing spaces."""
    widths = [max(map(width, column), default=0) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            pad(cell, widths[place], right=place in right) for place, cell in enumerate(row)
        ).rstrip()
        for row in rows
    )


def fields(pairs: Iterable[tuple[str, str]], indent: str = "") -> str:
    """Names and values, one pair a line, values aligned."""
    kept = list(pairs)
    space = max((len(name) for name, _ in kept), default=0) + 2
    return "\n".join(indent + pad(click.style(name, dim=True), space) + text for name, text in kept)


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def first(entries: Sequence[str], shown: int = SHOWN, *, of: int | None = None) -> Iterator[str]:
    """The first entries, then how many more there are; `of` is how many, if not all are given."""
    yield from entries[:shown]
    more = (len(entries) if of is None else of) - len(entries[:shown])
    if more > 0:
        yield click.style(f"and {more:,} more", dim=True)


def path(text: str) -> str:
    """A path as it may appear on a terminal; the root is a dot."""
    return on_screen(text) or "."


def short(identifier: str | None) -> str:
    """The digits of an id that people compare."""
    return identifier[:ID_DIGITS] if identifier else "none"


def remarks(title: str, listed: Sequence[Mapping[str, Any]], fg: str) -> Iterator[str]:
    """A titled list of what has a `path` and a `reason`."""
    if listed:
        yield click.style(f"{title} ({len(listed):,})", fg=fg)
        lines = [
            f"{path(one['path'])}  {click.style(on_screen(one['reason']), dim=True)}"
            for one in listed
        ]
        yield from (f"  {line}" for line in first(lines))


def listed_name(name: str, kind: str) -> str:
    """A node's name in a list: a folder's with its slash, a link's with an @."""
    shown = path(name)
    if kind == "directory":
        return click.style(shown, fg="blue", bold=True) + "/"
    return click.style(shown, fg="magenta") + "@" if kind == "link" else shown
