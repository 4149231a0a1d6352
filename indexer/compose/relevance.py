"""Relevance without a clock or chance: what a question's words are worth in files and their parts.

Everything is added up in whole numbers, so no sum depends on an order.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.code import SymbolSpans
from indexer.core.postings import FULL, OF_UNIT, gain
from indexer.core.roles import Role, roles_asked_for
from indexer.core.terms import identifiers, needle_of, words_in, words_of

ONE: Final = 1 << 10
"""A weight, and a share, of one."""

# How much a whole identifier of several parts counts beside a plain word, and how much each of its
# parts counts where files have the whole.
_WHOLE: Final = 1.5
_PART: Final = 0.6

# How many tenths a word in a name counts of one that fills the file: in the file's own name, in
# its folder's, and in those further up.
OWN_NAME: Final = 15
FOLDER_NAME: Final = 5
HIGHER_NAME: Final = 1

# How many tenths of a score do not depend on how many of the words are found: for a file, and for
# a unit, which is a symbol or what stands outside of all symbols.
ALONE: Final = 3
UNIT_ALONE: Final = 7

# How many tenths of its score the best unit of a file adds to the file's, and the second best;
# the first also for what people wrote.
BEST_UNIT: Final = 25
SECOND_UNIT: Final = 3

REFERENCES: Final = 10
"""How many thousandths of what the best unit adds are added with every doubling of the files that
refer to it by a name which the question is about."""

DEFINES: Final = 20
"""How much it counts that a file declares an identifier that the question names, in tenths."""

# How much a symbol's name counts beside its text, and the names of what it stands in.
NAME: Final = 4
AROUND: Final = 1

BYTES_PER_TERM: Final = 10
"""How long a word of code is with what stands between, roughly; only lengths are taken so."""

PERCENT: Final[Mapping[Role, int]] = {
    Role.SOURCE: 100,
    Role.TEST: 30,
    Role.DOCUMENT: 40,
    Role.MADE: 10,
}
"""What files of a role weigh where they are not asked for."""

FOLDER_PERCENT: Final = 30
"""What a folder's own frames weigh: they give way to those of its files."""

PULL: Final = 2.0
"""How much more a score counts at a node that was named; less with every step away from it."""

_NONE: Final[frozenset[str]] = frozenset()

_CAMEL: Final = re.compile(r"[a-z0-9][A-Z]|_|[A-Z][A-Z][a-z]")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the workspace says about the words of a question: how many files have each."""

    files: int
    counts: Mapping[str, int]
    references: Mapping[str, int] = field(default_factory=dict)
    """How many files have each name of a symbol that it counted for."""

    def to_json(self) -> dict[str, object]:
        """The statistics as a manifest records them."""
        return {
            "files": self.files,
            "words": dict(self.counts),
            "references": dict(sorted(self.references.items())),
        }


class Question(NamedTuple):
    """What is asked: its words in order, and which of them stand for identifiers."""

    words: tuple[str, ...]
    wholes: frozenset[str]
    """Words that stand for an identifier of several parts."""
    parts: Mapping[str, str]
    """Words that are asked for only as parts of an identifier, and that identifier's word."""
    names: frozenset[str]
    """Identifiers as they are written that a symbol may have for its name."""
    roles: frozenset[Role]
    """The roles of files that the question asks for, such as tests."""


def make_question(query: str, asked: Iterable[Role] = ()) -> Question:
    """A question from its text and from the roles that are asked for besides."""
    wholes: set[str] = set()
    parts: dict[str, str] = {}
    plain: set[str] = set()
    listed = identifiers(query)
    for one in listed:
        words = words_of(one)
        if len(words) > 1:
            wholes.add(words[-1])
            parts.update((word, words[-1]) for word in words[:-1])
        else:
            plain.update(words)
    names = {one for one in listed if _CAMEL.search(one) or f"{one}()" in query}
    if len(listed) == 1:
        names.update(listed)
    return Question(
        words_in(query),
        frozenset(wholes),
        {word: whole for word, whole in parts.items() if word not in plain},
        frozenset(names),
        roles_asked_for(query) | frozenset(asked),
    )


def corrected(question: Question, spelled: Mapping[str, Sequence[str]]) -> Question:
    """The question with names as they are spelled in place of those that nobody has."""
    gone = {word for name in spelled for word in words_of(name)}
    near = make_question(" ".join(one for names in spelled.values() for one in names))
    kept = (word for word in question.words if word not in gone)
    return Question(
        tuple(dict.fromkeys((*kept, *near.words))),
        question.wholes.difference(gone) | near.wholes,
        {word: one for word, one in question.parts.items() if one not in gone} | {**near.parts},
        question.names.difference(spelled) | near.names,
        question.roles,
    )


def weights_of(question: Question, statistics: Statistics) -> dict[str, int]:
    """What each word tells: the rarer among the files, the more."""
    counts, weights = statistics.counts, {}
    for word in question.words:
        factor = 1.0
        if word in question.wholes:
            factor = _WHOLE
        elif word in question.parts and counts[question.parts[word]]:
            factor = _PART
        weights[word] = round(ONE * factor * idf(counts[word], statistics.files))
    return weights


def idf(count: int, total: int) -> float:
    """How telling a word is that `count` of `total` have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def percent_of(role: Role, question: Question) -> int:
    """What files of a role weigh for a question."""
    return 100 if role in question.roles else PERCENT[role]


def covered(worth: int, found: int, total: int, alone: int) -> int:
    """A score, less where words of the question are missing."""
    return worth * (alone * total + (10 - alone) * found) // (10 * total) if total else 0


class _Needles:
    """Tells of most names without taking them apart that they have none of some words."""

    def __init__(self, words: Iterable[str]) -> None:
        needles = sorted({re.escape(needle_of(word)) for word in words})
        self._found = re.compile("|".join(needles)).search

    def may_be_in(self, name: str) -> bool:
        """Whether a name may have one of the words; what is not ASCII has its own lower case."""
        return not name.isascii() or self._found(name.lower().replace("_", "")) is not None


class PathGain(NamedTuple):
    """What the names on a path are worth, and the words that they have."""

    worth: int
    words: frozenset[str]


class PathGains:
    """What the names on paths are worth for a question; a word counts where it is nearest."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._needles = _Needles(weights)
        self._above: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def of(self, path: str) -> PathGain:
        """The worth of one path."""
        if not path:
            return PathGain(0, frozenset())
        parent, name = paths.split(path)
        near, higher = self._names_above(parent)
        worth, found = 0, set[str]()
        for factor, words in (
            (OWN_NAME, self._asked(name)),
            (FOLDER_NAME, near),
            (HIGHER_NAME, higher),
        ):
            for word in words:
                if word not in found:
                    found.add(word)
                    worth += factor * FULL * self._weights[word]
        return PathGain(worth // 10, frozenset(found))

    def _asked(self, name: str) -> frozenset[str]:
        if not self._needles.may_be_in(name):
            return _NONE
        return frozenset(word for word in words_in(name) if word in self._weights)

    def _names_above(self, folder: str) -> tuple[frozenset[str], frozenset[str]]:
        """The asked words of a folder's own name, and those of the names above it."""
        if not folder:
            return frozenset(), frozenset()
        known = self._above.get(folder)
        if known is None:
            parent, name = paths.split(folder)
            near, higher = self._names_above(parent)
            known = self._above[folder] = (self._asked(name), near | higher)
        return known


class UnitScore(NamedTuple):
    """What a symbol of a file is worth; the place -1 stands for what is outside of all symbols."""

    place: int
    worth: int


Mention = tuple[int, tuple[str, ...]]
"""Where an identifier begins, and the asked words that it has."""


class UnitScores:
    """What the symbols of files are worth for a question, from the texts of the files."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._total = sum(weights.values())
        self._beginnings = {word: needle_of(word).encode() for word in weights}
        self._needles = _Needles(weights)
        self._known: dict[bytes, tuple[str, ...]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._around: dict[str, tuple[str, ...]] = {}

    def of(self, found: Iterable[Mention], length: int, symbols: SymbolSpans) -> list[UnitScore]:
        """What each symbol's own text is worth in a text of some length, the best first."""
        counts: dict[int, dict[str, int]] = {}
        starts, ends, parents = symbols.starts, symbols.ends, symbols.parents
        for start, words in found:
            # The innermost symbol; -1 for none.
            place = bisect_right(starts, start) - 1
            while place >= 0 and ends[place] <= start:
                place = parents[place]
            unit = counts.get(place)
            if unit is None:
                unit = counts[place] = {}
            for word in words:
                unit[word] = unit.get(word, 0) + 1
        lengths = _own_lengths(symbols, length, counts)
        scores = [
            UnitScore(place, self._worth(symbols, place, unit, lengths[place]))
            for place, unit in counts.items()
        ]
        return sorted(scores, key=lambda one: (-one.worth, one.place))

    def found_in(self, text: bytes, had: Iterable[str]) -> list[Mention]:
        """Where a text has asked words, given those that it is known to have.

        This runs for every place that may have one, so nothing is called for it.
        """
        found: list[Mention] = []
        # Lower case, with a space for whatever is in no identifier; every place stays the same.
        folded = text.translate(_FOLDED)
        find, blank = folded.find, ord(" ")
        known, seen, size = self._known, set[int](), len(text)
        for beginning in sorted({self._beginnings[word] for word in had}):
            at = find(beginning)
            while at >= 0:
                start = at
                if at and folded[at - 1] != blank:
                    start = folded.rfind(b" ", 0, at) + 1
                end = find(b" ", at)
                end = size if end < 0 else end
                if start not in seen:
                    seen.add(start)
                    identifier = text[start:end]
                    words = known.get(identifier)
                    if words is None:
                        words = self._asked(identifier.decode("utf-8", "replace"))
                        known[identifier] = words
                    if words:
                        found.append((start, words))
                at = find(beginning, end)
        return found

    def _worth(self, symbols: SymbolSpans, place: int, unit: dict[str, int], length: int) -> int:
        if place >= 0:
            for word in self._in_name(symbols.names[place]):
                unit[word] = unit.get(word, 0) + NAME
            parent = symbols.parents[place]
            if parent >= 0:
                for word in self._in_names(symbols.symbols[parent]):
                    unit[word] = unit.get(word, 0) + AROUND
        norm = OF_UNIT.of(length // BYTES_PER_TERM)
        weights, worth, found = self._weights, 0, 0
        for word, count in unit.items():
            weight = weights[word]
            worth += weight * gain(count, norm)
            found += weight
        return covered(worth, found, self._total, UNIT_ALONE)

    def _in_name(self, name: str) -> tuple[str, ...]:
        """The asked words of a name."""
        known = self._names.get(name)
        if known is None:
            known = self._asked(name) if self._needles.may_be_in(name) else ()
            self._names[name] = known
        return known

    def _in_names(self, symbol: str) -> tuple[str, ...]:
        """The asked words of a symbol's own name and of all that it stands in."""
        known = self._around.get(symbol)
        if known is None:
            known = self._around[symbol] = tuple(
                word for name in symbol.split(".") for word in self._in_name(name)
            )
        return known

    def _asked(self, identifier: str) -> tuple[str, ...]:
        return tuple(filter(self._weights.__contains__, words_of(identifier)))


_FOLDED: Final = bytes(
    byte if byte >= 128 or chr(byte).isalnum() or byte == ord("_") else ord(" ")
    for byte in range(256)
).lower()


def _own_lengths(symbols: SymbolSpans, length: int, wanted: Iterable[int]) -> dict[int, int]:
    """The bytes of some symbols without those nested in them."""
    starts, ends = symbols.starts, symbols.ends
    own = {place: ends[place] - starts[place] if place >= 0 else length for place in wanted}
    for place, parent in enumerate(symbols.parents):
        if parent in own:
            own[parent] -= ends[place] - starts[place]
    return {place: max(0, left) for place, left in own.items()}


def nearness(path: str, anchors: Iterable[str]) -> float:
    """1 at a named node, less with every step through the tree; 0 where none is named."""
    steps = [distance(path, anchor) for anchor in anchors]
    return 1 / (1 + min(steps)) if steps else 0.0


def pulled(worth: int, path: str, anchors: Sequence[str]) -> int:
    """A score, more where a named node is near."""
    return round(worth * (1 + PULL * nearness(path, anchors))) if anchors else worth


def distance(one: str, other: str) -> int:
    """Steps through the tree between two paths."""
    first = one.split("/") if one else []
    second = other.split("/") if other else []
    equal = 0
    while equal < min(len(first), len(second)) and first[equal] == second[equal]:
        equal += 1
    return len(first) + len(second) - 2 * equal
