"""Keep away from the parser what would occupy it for minutes.

Error recovery takes time by the square of what it does not understand, and a running parse cannot
be stopped. A file that is large and not what its name says is therefore told apart beforehand, by
tests that depend on its bytes alone. What passes them is parsed within bounds that depend on
nothing else either: how often the text is gone over, and how much of it fits nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from indexer.generators.treesitter import parser_of

if TYPE_CHECKING:
    from tree_sitter import Node, Point, Tree

SMALL = 16 * 1024
"""Bytes up to which a file is parsed without a look at it."""
LARGE = 64 * 1024
"""Bytes from which on samples of a file are parsed before it is."""
SAMPLE = 4 * 1024
"""Bytes of a sample at most."""
PLACES = 3
"""Samples besides the one at the beginning."""
MAX_ERRORS = 90
"""Pieces in a KiB of a sample that fit nowhere; C++ in a C header has 70, other languages 150."""
MAX_UNCLOSED = 2000
"""Brackets that are opened and not closed, or the other way round."""
PIECE = 32
STRIDE = 128
MIN_PIECES = 32
"""So many different pieces, each of `PIECE` bytes and one every `STRIDE`, make a file varied."""

READ = 4 * 1024
"""Bytes that the parser is given at a time."""
MOST_READ = 32 * 1024
"""How often it may ask for them: some grammars read on through all comments at each comment."""
STEP = 64 * 1024
"""Bytes that a large file is parsed further each time, before what fits nowhere is counted."""
MOST_UNFIT = 20_000
"""Pieces of a large file that may fit nowhere."""

_LINE = re.compile(rb"\n(?=[^\s)\]}])")
_GOES_ON = re.compile(rb"(?:elif|else|except|finally)\b")
_LETTER = re.compile(rb"[A-Za-z_@#/]")


def is_tractable(language: str, source: bytes) -> bool:
    """Whether parsing ends in reasonable time."""
    if len(source) <= SMALL:
        return True
    if _unclosed(source) > MAX_UNCLOSED or not _is_varied(source):
        return False
    return len(source) <= LARGE or _reads_well(language, source)


def parse_within_bounds(language: str, source: bytes) -> Tree | None:
    """The syntax tree of a text; None where finding it takes too much work."""
    parser, size, end = parser_of(language), len(source), STEP
    if size <= SMALL:
        return parser.parse(source)
    reader = _Reader(source)
    tree = parser.parse(reader.until(end))
    while end < size:
        if reader.is_tired or _errors(tree.root_node) > MOST_UNFIT:
            return None
        # What was parsed before a step is used again, so all of them take about one parse.
        start, end = end, min(end + STEP, size)
        before, after = _point(source, start), _point(source, end)
        tree.edit(start, start, end, before, before, after)
        tree = parser.parse(reader.until(end), tree)
    if size > STEP and tree.root_node.has_error:
        if _errors(tree.root_node) > MOST_UNFIT:
            return None
        # How far an error reaches must not depend on the steps.
        tree = parser.parse(reader.until(size))
    return None if reader.is_tired else tree


class _Reader:
    """Gives a parser its text piece by piece, and nothing more once it has asked too often."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._left = MOST_READ

    @property
    def is_tired(self) -> bool:
        """Whether it was asked too often, so that what was parsed is not the whole text."""
        return self._left < 0

    def until(self, end: int) -> Callable[[int, Point], bytes]:
        """What the parser calls, for the text up to a place."""

        def read(offset: int, _: Point) -> bytes:
            self._left -= 1
            return b"" if self._left < 0 else self._source[offset : min(offset + READ, end)]

        return read


def _point(source: bytes, place: int) -> tuple[int, int]:
    """Line and column of a place."""
    return source.count(b"\n", 0, place), place - source.rfind(b"\n", 0, place) - 1


def _unclosed(source: bytes) -> int:
    count = source.count
    return (
        abs(count(b"(") - count(b")"))
        + abs(count(b"[") - count(b"]"))
        + abs(count(b"{") - count(b"}"))
    )


def _is_varied(source: bytes) -> bool:
    """Whether it is more than a few bytes over and over."""
    end = min(len(source), LARGE)
    pieces = {source[at : at + PIECE] for at in range(0, end, STRIDE)}
    return len(pieces) >= MIN_PIECES


def _reads_well(language: str, source: bytes) -> bool:
    """Whether a few places are text in this language: the beginning, and most of the others."""
    if not _is_readable(language, source, 0):
        return False
    later = [len(source) * part // (PLACES + 1) for part in range(1, PLACES + 1)]
    wrong = sum(not _is_readable(language, source, place) for place in later)
    return 2 * wrong <= PLACES


def _is_readable(language: str, source: bytes, place: int) -> bool:
    """Whether a sample from there parses; in doubt it does."""
    sample = _sample(source, place)
    if sample is None:
        return True
    return _errors(parser_of(language).parse(sample).root_node) <= len(sample) * MAX_ERRORS // 1024


def _sample(source: bytes, place: int) -> bytes | None:
    """Declarations from a place on, as far as can be told; None where none can be cut out."""
    start = _start(source, place)
    if start is None:
        return None
    ends = [found.end() for found in _LINE.finditer(source, start, start + SAMPLE)]
    possible = None
    for end in reversed(ends[-40:]):
        sample = source[start:end]
        if not _is_outside(sample, len(sample)):
            continue
        if _LETTER.match(source, end) or not _unclosed(sample):
            return sample
        # A cut in the middle of something costs a few errors, and far fewer than are allowed.
        possible = possible or sample
    if possible is None and not ends and _is_outside(source[start:], SAMPLE):
        possible = source[start : start + SAMPLE]
    return possible


def _start(source: bytes, place: int) -> int | None:
    """Where a declaration may begin, at a place or shortly after it."""
    if place == 0:
        return 0
    possible = None
    for found in islice(_LINE.finditer(source, place, place + SAMPLE), 40):
        start = found.end()
        if _GOES_ON.match(source, start) or not _is_outside(source, start):
            continue
        if _LETTER.match(source, start):
            return start
        possible = possible or start
    return possible


def _is_outside(source: bytes, end: int) -> bool:
    """Whether a place is not inside a docstring or a comment, where lines begin anyhow."""
    count = source.count
    return (
        count(b'"""', 0, end) % 2 == 0
        and count(b"'''", 0, end) % 2 == 0
        and count(b"/*", 0, end) == count(b"*/", 0, end)
    )


def _errors(root: Node) -> int:
    """How many pieces the parser could not fit into anything, at whatever depth."""
    found = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR":
            found += 1 + node.child_count
        waiting.extend(child for child in node.children if child.has_error)
    return found
