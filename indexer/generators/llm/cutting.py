"""Cutting texts to a number of tokens, the same way on every machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

Count = Callable[[str], int]

WIDEST: Final = 16
"""Characters a token has at most on average; beyond that only the beginning is counted."""

_LINE: Final = 0.8
"""A cut moves back to the end of a line when no more than the rest of this share is lost."""


class Piece(NamedTuple):
    """A text, or as much of its beginning as fits."""

    text: str
    tokens: int
    characters: int
    """Characters of the whole text."""

    @property
    def is_cut(self) -> bool:
        """Whether something is missing."""
        return len(self.text) < self.characters


def cut_to(text: str, limit: int, count: Count) -> Piece:
    """The beginning of a text that has at most `limit` tokens."""
    whole = len(text)
    if limit <= 0:
        return Piece("", 0, whole)
    near = text[: limit * WIDEST]
    tokens = count(near)
    if tokens <= limit:
        return Piece(near, tokens, whole)
    low, high = 0, len(near)
    while high - low > 1:
        middle = (low + high) // 2
        if count(near[:middle]) <= limit:
            low = middle
        else:
            high = middle
    kept = near[:low]
    line = kept.rfind("\n") + 1
    if line >= low * _LINE:
        kept = kept[:line]
    # Counts do not grow evenly with the text; what is kept has to fit, whatever the search found.
    while (tokens := count(kept)) > limit:
        kept = kept[: len(kept) * 99 // 100]
    return Piece(kept, tokens, whole)


def shares(wanted: Sequence[int], total: int) -> list[int]:
    """How much of a total each gets: all it wants, or an equal part of what the modest leave."""
    given = [0] * len(wanted)
    left = total
    for done, at in enumerate(sorted(range(len(wanted)), key=lambda one: (wanted[one], one))):
        given[at] = min(wanted[at], left // (len(wanted) - done))
        left -= given[at]
    return given
