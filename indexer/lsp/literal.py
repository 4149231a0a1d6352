"""Texts of strangers in what an editor shows: as they are written, and never as markup.

Notes, names and reasons come from files, packs and other people. In Markdown they stand between
fences or in code spans, where nothing is a link, an image, a command or HTML.
"""

from __future__ import annotations

import re
from typing import Final

from indexer.core.paths import on_screen

_TICKS: Final = re.compile("`+")
_LONGEST: Final = 20_000
"""Characters of one text that are shown; whoever wants more asks for the frame."""


def shown(text: str) -> str:
    """A text with nothing in it that cannot be seen or turns the reading order."""
    cut = text[:_LONGEST]
    lines = "\n".join(on_screen(line.removesuffix("\r")) for line in cut.split("\n"))
    return lines if len(text) <= _LONGEST else f"{lines}\n… and {len(text) - _LONGEST:,} more"


def fenced(text: str) -> str:
    """A text as a block that no line in it can end."""
    body = shown(text).strip("\n")
    fence = _longer_than_any(body, 3)
    return f"{fence}text\n{body}\n{fence}"


def span(text: str) -> str:
    """A name as code in a line."""
    name = shown(text).replace("\n", " ").strip() or "?"
    ticks = _longer_than_any(name, 1)
    return f"{ticks} {name} {ticks}" if "`" in name else f"{ticks}{name}{ticks}"


def first_line(text: str, most: int = 72) -> str:
    """The beginning of a text for where there is little room, without an icon in it."""
    lines = (" ".join(on_screen(line).split()) for line in text.splitlines())
    # Some editors draw `$(name)` as a picture.
    line = next(filter(None, lines), "").replace("$(", "$ (")
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _longer_than_any(text: str, least: int) -> str:
    return "`" * max(least, *(len(run) + 1 for run in _TICKS.findall(text)), least)
