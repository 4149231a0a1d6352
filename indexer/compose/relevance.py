"""Relevance without a clock or chance: BM25 over bodies, names on the path, closeness."""

from __future__ import annotations

import math
from array import array
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


def norms(lengths: Iterable[int], bodies: int, total_length: int) -> array[float]:
    """What each body's length takes off its counts."""
    average = total_length / bodies if bodies and total_length else 1.0
    flat, slope = K1 * (1 - B), K1 * B / average
    return array("d", [flat + slope * length for length in lengths])


def score_bodies(
    words: Sequence[str], postings: Postings, norm: Sequence[float], statistics: Statistics
) -> list[float]:
    """BM25 of every body by its number; the order of the words fixes the sums."""
    worth = [0.0] * len(norm)
    for word in words:
        bodies, counts = postings[word]
        weight = idf(statistics.body_counts[word], statistics.bodies) * (K1 + 1)
        for body, count in zip(bodies, counts, strict=True):
            worth[body] += weight * count / (count + norm[body])
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
