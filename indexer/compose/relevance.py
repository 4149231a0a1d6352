"""Relevance without a clock or chance: BM25 over bodies, names on the path, closeness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.terms import words_in

K1: Final = 1.2
B: Final = 0.75

# How much a word in a name counts beside one in a body: the node's own name, its folder's, and
# those further up.
OWN_NAME: Final = 1.5
FOLDER_NAME: Final = 0.75
HIGHER_NAME: Final = 0.35

# A candidate that has all words of a question beats one that repeats a single word.
_ALONE: Final = 0.4

Postings = Mapping[str, tuple[Sequence[int], Sequence[int]]]
"""Per word of the query: the numbers of the live bodies that have it, and how often each does."""


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


class BodyScores(NamedTuple):
    """What each matching body is worth, and which words it has, as bits."""

    worth: dict[int, float]
    matched: dict[int, int]


def query_words(query: str) -> tuple[str, ...]:
    """The words of a query, in its order."""
    return words_in(query)


def idf(count: int, total: int) -> float:
    """How telling a word is that `count` of `total` have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def score_bodies(
    words: Sequence[str], postings: Postings, lengths: Sequence[int], statistics: Statistics
) -> BodyScores:
    """BM25 of every body that has one of the words; the order of the words fixes the sums."""
    worth: dict[int, float] = {}
    matched: dict[int, int] = {}
    average = statistics.total_length / statistics.bodies if statistics.bodies else 1.0
    slope = K1 * B / (average or 1.0)
    for position, word in enumerate(words):
        bodies, counts = postings[word]
        weight = idf(len(bodies), statistics.bodies) * (K1 + 1)
        flat, bit = K1 * (1 - B), 1 << position
        for body, count in zip(bodies, counts, strict=True):
            gain = weight * count / (count + flat + slope * lengths[body])
            worth[body] = worth.get(body, 0.0) + gain
            matched[body] = matched.get(body, 0) | bit
    return BodyScores(worth, matched)


class NameScores:
    """What the names on a path are worth for a query."""

    def __init__(self, words: Sequence[str], statistics: Statistics) -> None:
        self._bits = {word: 1 << position for position, word in enumerate(words)}
        self._weights = {
            word: idf(statistics.name_counts[word], statistics.names) if statistics.names else 0.0
            for word in words
        }
        self._known: dict[str, list[str]] = {}

    def of(self, path: str) -> tuple[float, int]:
        """The worth of a path's names, and which words they have; a word counts where nearest."""
        worth, found, factor = 0.0, 0, OWN_NAME
        while path:
            path, _, name = path.rpartition("/")
            for word in self._words_of(name):
                bit = self._bits[word]
                if not found & bit:
                    found |= bit
                    worth += factor * self._weights[word]
            factor = FOLDER_NAME if factor == OWN_NAME else HIGHER_NAME
        return worth, found

    def _words_of(self, name: str) -> list[str]:
        known = self._known.get(name)
        if known is None:
            known = [word for word in name_words(name) if word in self._bits]
            self._known[name] = known
        return known


def name_words(name: str) -> tuple[str, ...]:
    """The words of a file's or folder's name."""
    return words_in(name)


def combine(body: float, names: float, matched: int, words: int, nearness: float) -> float:
    """One figure; rounded, so that the last bit of a logarithm decides nothing."""
    if not matched:
        return 0.0
    share = matched.bit_count() / words
    return round((body + names) * (_ALONE + (1 - _ALONE) * share) * (1 + nearness), 9)


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
    return name_words(paths.split(path)[1]) if path else ()
