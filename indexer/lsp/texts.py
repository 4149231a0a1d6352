"""Texts as lines and columns: a column in characters here, in code units for an editor.

Lines end with a newline, as the index counts them. The protocol's library would also end them at
form feeds and Unicode's separators, so it is given whole texts only and asked for no line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

# The encodings in whose code units an editor may count.
UTF8, UTF16, UTF32 = "utf-8", "utf-16", "utf-32"
_WORD: Final = re.compile(r"[^\W\d][\w]*|\$[\w$]*", re.UNICODE)
_MOST_LINES: Final = 3000
"""Changed lines that are compared one by one; where there are more, they count as all changed."""

_DECLARATION: Final = 30
"""Lines after the first in which a declaration's name is looked for: decorators come before it."""


def text_lines(text: str) -> list[str]:
    """The lines of a text without what ends them; a last newline begins no further line."""
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


class Place(NamedTuple):
    """A line, counted from 0, and columns of it: the first, and the one after the last."""

    line: int
    start: int
    end: int


def units(line: str, column: int, encoding: str) -> int:
    """How many code units stand before a column."""
    before = line[:column]
    if encoding == UTF32 or before.isascii():
        return len(before)
    if encoding == UTF8:
        return len(before.encode("utf-8", "surrogatepass"))
    return len(before) + sum(char > "\uffff" for char in before)


def column(line: str, wanted: int, encoding: str) -> int:
    """The column that a number of code units leads to; inside of a character, its beginning."""
    if encoding == UTF32 or line.isascii():
        return min(wanted, len(line))
    passed = 0
    for place, char in enumerate(line):
        passed += units(char, 1, encoding)
        if passed > wanted:
            return place
    return len(line)


def word_at(line: str, place: int) -> str:
    """The name at a column, or that ends there."""
    for found in _WORD.finditer(line):
        if found.start() <= place <= found.end():
            return found.group()
    return ""


def find_name(lines: Sequence[str], first: int, last: int, name: str) -> Place:
    """Where a name first stands in some lines, or all that is written in the first of them."""
    wanted = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for number in range(first, min(last + 1, first + _DECLARATION, len(lines))):
        found = wanted.search(lines[number]) if name else None
        if found is not None:
            return Place(number, found.start(), found.end())
    return whole_line(lines, first)


def whole_line(lines: Sequence[str], number: int) -> Place:
    """What is written in a line, without the space around it."""
    number = max(0, min(number, len(lines) - 1))
    line = lines[number] if lines else ""
    return Place(number, len(line) - len(line.lstrip()), len(line.rstrip()))


class LineMap:
    """Which line of one text is which line of another."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self.is_same = list(old) == list(new)
        self._blocks = [] if self.is_same else _blocks(old, new)
        self._sizes = len(old), len(new)

    def to_new(self, line: int) -> int:
        """The line of the new text; of one that is not there any more, where it was."""
        return line if self.is_same else self._moved(line, 0)

    def to_old(self, line: int) -> int:
        """The line of the old text; of one that was not there, where it came in."""
        return line if self.is_same else self._moved(line, 1)

    def _moved(self, line: int, side: int) -> int:
        ended, there = 0, 0
        sizes = self._sizes[side], self._sizes[1 - side]
        for block in (*self._blocks, (*self._sizes, 0)):
            begins, other = block[side], block[1 - side]
            if line < begins:
                # Between two runs: as far into what stands there now, if anything does.
                there = min(there + line - ended, max(there, other - 1))
                break
            if line < begins + block[2]:
                there = other + line - begins
                break
            ended, there = begins + block[2], other + block[2]
        return min(there, max(0, sizes[1] - 1))


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of equal lines: where each begins in both, and how long it is."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    left = most - head
    tail = next((n for n in range(left) if old[-1 - n] != new[-1 - n]), left)
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    found = [(0, 0, head)] if head else []
    if max(len(middle_old), len(middle_new)) <= _MOST_LINES:
        for block in SequenceMatcher(
            None, middle_old, middle_new, autojunk=False
        ).get_matching_blocks():
            if block.size:
                found.append((head + block.a, head + block.b, block.size))
    if tail:
        found.append((len(old) - tail, len(new) - tail, tail))
    return found
