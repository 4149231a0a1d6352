"""Outlines as they are shown: with the line of each symbol, which a frame does not hold.

A line number in a stored outline would move with every edit above it, and with it everything that
is made from outlines. So they are put in when an outline is shown, from the facts of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.generators.facts import facts_key
from indexer.generators.lines import ELLIPSIS
from indexer.generators.outline import OutlineGenerator

if TYPE_CHECKING:
    from indexer.core.ids import ContentId
    from indexer.engine.frames.opened import Frames

OUTLINER = GENERATED_AGENT_PREFIX + OutlineGenerator.name
"""The agent whose frames are outlines."""


class Outline(NamedTuple):
    """A fresh outline of a file."""

    path: str
    content_id: ContentId
    body: str


def symbol_lines(frames: Frames, outlines: Sequence[Outline]) -> list[tuple[int, ...]]:
    """For each outline what `numbered` puts into it: where the symbols begin that it lists."""
    keys = [facts_key(one.path, one.content_id) for one in outlines]
    numbers = frames.code.numbers_of(set(keys))
    found = frames.code.store.signatures(numbers.values())
    return [
        _lines_in(one.body, found[numbers[key]]) if key in numbers else ()
        for one, key in zip(outlines, keys, strict=True)
    ]


def _lines_in(body: str, signatures: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """The line of the symbol in each line of an outline, which has them in order of the source."""
    lines: list[int] = []
    at = 0
    for place, line in enumerate(body.split("\n")):
        lines.append(0)
        said = line.lstrip(" ")
        text = said.removeprefix("- ").partition(" -- ")[0].removesuffix(ELLIPSIS)
        if place == 0:
            text = said.partition("] ")[2]
        if not text:
            continue
        for ahead in range(at, len(signatures)):
            signature = signatures[ahead][0].removesuffix(ELLIPSIS)
            if signature == text or (len(text) > 60 and signature.startswith(text)):
                lines[place] = signatures[ahead][1]
                at = ahead + 1
                break
    return tuple(lines) if at else ()
