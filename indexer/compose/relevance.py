"""Relevance without a clock or chance: BM25 over bodies, names on the path, closeness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from indexer.core import paths
from indexer.core.terms import words_in

K1: Final = 1.2
B: Final = 0.75

# How much a word in a name counts beside one in a body: the node's own name, its folder's, and
# those further up.
OWN_NAME: Final = 1.5
FOLDER_NAME: Final = 0.75
HIGHER_NAME: Final = 0.35

# How much a node that was named draws to itself what is near it.
PULL: Final = 2.0

# A candidate that has all words of a question beats one that repeats a single word.
_ALONE: Final = 0.4

Postings = Mapping[str, tuple[Sequence[int], Sequence[int]]]
"""Per word of the query: the numbers of the bodies that have it, and how often each does."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the corpus says about the words of a query."""

    bodies: int
    total_length: int
    names: int
    body_counts: Mapping[str, int]
    name_counts: Mapping[str, int]

    def to_json(self) -> dict[str, object]:
        """The statistics as a manifest records them."""
        return {
            "bodies": self.bodies,
            "total_length": self.total_length,
            "names": self.names,
            "words": {
                word: [self.body_counts[word], self.name_counts[word]] for word in self.body_counts
            },
        }


def query_words(query: str) -> tuple[str, ...]:
    """The words of a query, in its order."""
    return words_in(query)


def idf(count: int, total: int) -> float:
    """How telling a word is that `count` of `total` have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def levels_of(lengths: Sequence[int], bodies: int, total_length: int) -> bytes:
    """How long each body is beside the average, in steps of 3 to 6 percent, one byte each.

    In whole numbers: the last bit of a logarithm must not move a body to another step.
    """
    share, total = (bodies, total_length) if total_length else (1, 1)
    level = {length: _level((length * share << _ONE) // total) for length in set(lengths)}
    return bytes(map(level.__getitem__, lengths))


def _level(size: int) -> int:
    """A number's leading five bits and its magnitude; small ones are themselves."""
    shift = size.bit_length() - 5
    return size if shift <= 0 else min(255, shift * 16 + (size >> shift))


def _size(level: int) -> int:
    """The middle of the numbers that have a level."""
    shift = (level - 16) // 16
    if shift <= 0:
        return level
    return ((level - shift * 16) << shift) + (1 << shift - 1)


_ONE: Final = 9
"""The average length is 2 to this power."""

_NORMS: Final = tuple(K1 * (1 - B + B * _size(level) / (1 << _ONE)) for level in range(256))
"""What a body's length takes off its counts, by level."""


def score_bodies(
    words: Sequence[str], postings: Postings, levels: bytes, statistics: Statistics
) -> list[float]:
    """BM25 of every body by its number; the order of the words fixes the sums."""
    worth = [0.0] * len(levels)
    for word in words:
        bodies, counts = postings[word]
        weight = idf(statistics.body_counts[word], statistics.bodies) * (K1 + 1)
        gains: list[list[float]] = [[]] * 256
        for count in set(counts):
            gains[count] = [weight * count / (count + norm) for norm in _NORMS]
        for body, count in zip(bodies, counts, strict=True):
            worth[body] += gains[count][levels[body]]
    return worth


class NameScores:
    """What the names on a path are worth for a query."""

    def __init__(
        self, words: Sequence[str], named: Mapping[str, Iterable[str]], statistics: Statistics
    ) -> None:
        self._weights = [
            idf(statistics.name_counts[word], statistics.names) if statistics.names else 0.0
            for word in words
        ]
        self._bits: dict[str, int] = {}
        for position, word in enumerate(words):
            for path in named[word]:
                self._bits[path] = self._bits.get(path, 0) | 1 << position
        self._above: dict[str, int] = {"": 0}

    def of(self, path: str) -> tuple[float, int]:
        """The worth of a path's names, and which words they have; a word counts where nearest."""
        if not path:
            return 0.0, 0
        parent, _, _ = path.rpartition("/")
        higher = self._higher(parent)
        worth, found = self._gain(path, OWN_NAME, 0)
        if parent:
            gain, found = self._gain(parent, FOLDER_NAME, found)
            worth += gain
        for position, weight in enumerate(self._weights):
            bit = 1 << position
            if higher & bit and not found & bit:
                worth += HIGHER_NAME * weight
                found |= bit
        return worth, found

    def _gain(self, path: str, factor: float, known: int) -> tuple[float, int]:
        bits = self._bits.get(path, 0) & ~known
        if not bits:
            return 0.0, known
        places = (place for place in range(len(self._weights)) if bits >> place & 1)
        return factor * sum(self._weights[place] for place in places), known | bits

    def _higher(self, folder: str) -> int:
        """The words that names above a folder have."""
        known = self._above.get(folder)
        if known is None:
            parent, _, _ = folder.rpartition("/")
            known = self._above[folder] = self._higher(parent) | self._bits.get(parent, 0)
        return known


def combine(body: float, names: float, matched: int, words: int, nearness: float) -> float:
    """One figure; rounded, so that the last bit of a logarithm decides nothing."""
    if not matched:
        return 0.0
    share = matched.bit_count() / words
    return round((body + names) * (_ALONE + (1 - _ALONE) * share) * (1 + PULL * nearness), 9)


def nearness(path: str, anchors: Iterable[str]) -> float:
    """1 at a named node, less with every step through the tree; 0 where none is named."""
    steps = [distance(path, anchor) for anchor in anchors]
    return 1 / (1 + min(steps)) if steps else 0.0


def distance(one: str, other: str) -> int:
    """Steps through the tree between two paths."""
    first = one.split("/") if one else []
    second = other.split("/") if other else []
    equal = 0
    while equal < min(len(first), len(second)) and first[equal] == second[equal]:
        equal += 1
    return len(first) + len(second) - 2 * equal


def path_words(path: str) -> tuple[str, ...]:
    """The words of the last name of a path."""
    return words_in(paths.split(path)[1]) if path else ()
