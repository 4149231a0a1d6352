"""Outlines as they are shown: with the line of each symbol, which a frame does not hold.

A line number in a stored outline would move with every edit above it, and with it everything that
is made from outlines. So they are put in when an outline is shown, from the facts of its file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core.frames import OUTLINER, Freshness
from indexer.generators.facts import HEADING, facts_key
from indexer.generators.lines import ELLIPSIS
from indexer.generators.walk import MAX_COLLECTED

if TYPE_CHECKING:
    from indexer.compose.candidates import Loaded
    from indexer.core.ids import ContentId
    from indexer.core.tree import Tree
    from indexer.engine.frames.opened import Frames
    from indexer.store.code import Signature

_MORE_HEADINGS: Final = re.compile(f"{ELLIPSIS} ([0-9]+) more headings")
_BEGINNING: Final = 24
"""Characters that no outline cuts, however narrow it is and however deep a symbol stands."""


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


def lines_of(frames: Frames, tree: Tree, loaded: Sequence[Loaded]) -> list[tuple[int, ...]]:
    """Where the symbols of the outlines begin that are fresh; nothing for any other frame."""
    outlines = {
        one.candidate.frame_id: Outline(one.candidate.path, entry.content_id, one.body)
        for one in loaded
        if one.candidate.agent == OUTLINER and one.body and one.freshness is Freshness.FRESH
        if (entry := tree.get(one.candidate.path)) is not None
    }
    lines = dict(zip(outlines, symbol_lines(frames, list(outlines.values())), strict=True))
    return [lines.get(one.candidate.frame_id, ()) for one in loaded]


def _lines_in(body: str, symbols: Sequence[Signature]) -> tuple[int, ...]:
    """The line of the symbol in each line of an outline, 0 where it is not certain."""
    lines = body.split("\n")
    is_document = bool(symbols) and symbols[0].kind == HEADING
    found = _of_headings(lines, symbols) if is_document else _of_symbols(lines, symbols)
    return tuple(found) if any(found) else ()


def _of_headings(lines: Sequence[str], headings: Sequence[Signature]) -> list[int]:
    """The lines of a document's title and headings: the outline lists the first of them."""
    found = [0] * len(lines)
    listed = [place for place, line in enumerate(lines) if line.lstrip(" ").startswith("- ")]
    more = sum(int(left[1]) for line in lines if (left := _MORE_HEADINGS.fullmatch(line)))
    # A title may stand in no heading; which it is, their number tells.
    titles = len(headings) - len(listed) - more
    if titles not in (0, 1) or len(headings) >= MAX_COLLECTED:
        return found
    said = {place: lines[place].lstrip(" ").removeprefix("- ") for place in listed}
    if titles:
        said = {0: lines[0].partition("] ")[2]} | said
    for (place, text), heading in zip(said.items(), headings, strict=False):
        if _is_same(text, heading.signature):
            found[place] = heading.line
    return found


def _of_symbols(lines: Sequence[str], symbols: Sequence[Signature]) -> list[int]:
    """The lines of symbols; both are in order of the source.

    What stands inside functions is not in the outline, nor what is too much for it, and either
    may read like something that is. So each symbol is looked for as near to the beginning as it
    can be, and as near to the end, and has a line where that is one and the same.
    """
    said = ["" if _is_of_the_file(*one) else _bare(one[1]) for one in enumerate(lines)]
    texts = [_bare(_outlined(one)) for one in symbols]
    earliest = _places(said, texts)
    latest = [
        None if place is None else len(texts) - 1 - place
        for place in reversed(_places(said[::-1], texts[::-1]))
    ]
    return [
        symbols[first].line if first is not None and first == last else 0
        for first, last in zip(earliest, latest, strict=True)
    ]


def _places(said: Sequence[str], texts: Sequence[str]) -> list[int | None]:
    """Where each of some lines is found first among texts, behind that of the line before it."""
    alike: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        alike.setdefault(text[:_BEGINNING], []).append(place)
    found: list[int | None] = []
    at = 0
    for line in said:
        places = alike.get(line[:_BEGINNING], ()) if line else ()
        later = islice(places, bisect_left(places, at), None)
        fits = next((one for one in later if _is_same(line, texts[one])), None)
        found.append(fits)
        at = at if fits is None else fits + 1
    return found


def _is_of_the_file(place: int, line: str) -> bool:
    """Whether a line speaks of the whole file: of what it is, or of what it depends on."""
    return place == 0 or (place == 1 and line.startswith("imports: "))


def _outlined(symbol: Signature) -> str:
    return f"{symbol.signature} -- {symbol.doc}" if symbol.doc else symbol.signature


def _bare(line: str) -> str:
    return line.lstrip(" ").rstrip()


def _is_same(line: str, text: str) -> bool:
    """Whether two texts are the same, each of which may have been cut."""
    if line == text:
        return True
    whole, other = line.removesuffix(ELLIPSIS), text.removesuffix(ELLIPSIS)
    return (whole != line and other.startswith(whole)) or (
        other != text and whole.startswith(other)
    )
