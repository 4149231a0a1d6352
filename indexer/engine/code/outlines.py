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


def lined_outlines(frames: Frames, outlines: Sequence[Outline]) -> list[str]:
    """The text of each outline, with the line of each symbol before it."""
    known = frames.code.numbers
    numbers = [known.get(facts_key(one.path, one.content_id)) for one in outlines]
    found = frames.code.store.signatures(one for one in numbers if one is not None)
    return [
        one.body if number is None else with_lines(one.body, found[number])
        for one, number in zip(outlines, numbers, strict=True)
    ]


def with_lines(body: str, signatures: Sequence[tuple[str, int]]) -> str:
    """An outline with the line of each symbol that it lists; both are in order of the source."""
    lines = body.split("\n")
    at = 0
    for place, line in enumerate(lines):
        said = line.lstrip(" ")
        text = said.removeprefix("- ").partition(" -- ")[0].removesuffix(ELLIPSIS)
        if place == 0:
            text = said.partition("] ")[2]
        if not text:
            continue
        for ahead in range(at, len(signatures)):
            signature = signatures[ahead][0].removesuffix(ELLIPSIS)
            if signature == text or (len(text) > 60 and signature.startswith(text)):
                indent = line[: len(line) - len(said)]
                lines[place] = f"{indent}{signatures[ahead][1]}: {said}"
                at = ahead + 1
                break
    return "\n".join(lines)
