"""What a text is worth for each of its terms: one byte, from the text alone.

A term's gain grows with how often the text has it and shrinks with how long the text is, measured
against fixed lengths and not against the average of a workspace. So it is known when the text is
read, never changes afterwards, and a question only adds up whole numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

VERSION: Final = "2"
"""Moves with every change to what a text is worth."""

FULL: Final = 255
"""The gain of a text that is about nothing else."""

_SCALE: Final = 64


class Norm(NamedTuple):
    """How fast counts saturate, and how long a usual text is."""

    half: int
    """In 64ths: the count that gives half of the full gain in a usual text."""
    share: int
    """In 64ths: how much of that depends on the length."""
    usual: int
    """Terms of a usual text."""

    def of(self, length: int) -> int:
        """What the length of a text sets against its counts, in 64ths."""
        return self.half * ((_SCALE - self.share) + self.share * length // self.usual) // _SCALE


OF_FILE: Final = Norm(half=51, share=26, usual=1200)
OF_UNIT: Final = Norm(half=77, share=38, usual=60)
"""A function, a class without its methods, a note."""


def gain(count: int, norm: int) -> int:
    """What a count is worth beside the norm of its text's length."""
    return count * _SCALE * FULL // (count * _SCALE + norm) or 1


class TextTerms(NamedTuple):
    """The terms of one text, in packed form, and how many words it has."""

    terms: array[int]
    gains: bytes
    length: int


def text_terms(counts: Mapping[int, int], usual: Norm) -> TextTerms:
    """What a text is worth for the terms that it has so often."""
    length = sum(counts.values())
    norm = usual.of(length)
    known = {count: gain(count, norm) for count in set(counts.values())}
    gains = bytes(map(known.__getitem__, counts.values()))
    return TextTerms(array("I", counts), gains, length)
