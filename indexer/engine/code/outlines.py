"""Outlines as they are shown: with the line of each symbol, which a frame does not hold.

A line number in a stored outline would move with every edit above it, and with it everything that
is made from outlines. So they are put in when an outline is shown, from the facts of its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.generators.facts import facts_key
from indexer.generators.lines import ELLIPSIS
from indexer.generators.outline import OutlineGenerator

if TYPE_CHECKING:
    from indexer.core.code import CodeSymbol
    from indexer.core.ids import ContentId
    from indexer.engine.frames.opened import Frames

OUTLINER = GENERATED_AGENT_PREFIX + OutlineGenerator.name
"""The agent whose frames are outlines."""


def lined_outlines(
    frames: Frames, bodies: Mapping[tuple[str, ContentId], str]
) -> dict[tuple[str, ContentId], str]:
    """Fresh outlines, by path and content, with the line of each symbol before it."""
    known = frames.code.numbers
    numbers = {key: known.get(facts_key(*key)) for key in bodies}
    symbols = frames.code.store.symbols(one for one in numbers.values() if one is not None)
    return {
        key: body if (number := numbers[key]) is None else with_lines(body, symbols[number])
        for key, body in bodies.items()
    }


def with_lines(body: str, symbols: Sequence[CodeSymbol]) -> str:
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
        for ahead in range(at, len(symbols)):
            signature = symbols[ahead].signature.removesuffix(ELLIPSIS)
            if signature == text or (len(text) > 60 and signature.startswith(text)):
                indent = line[: len(line) - len(said)]
                lines[place] = f"{indent}{symbols[ahead].line}: {said}"
                at = ahead + 1
                break
    return "\n".join(lines)
