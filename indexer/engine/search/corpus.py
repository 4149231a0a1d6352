"""The live heads as a search sees them, kept in memory and brought up to date by what moved."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, compress, islice
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import (
    NameScores,
    Postings,
    Statistics,
    combine,
    levels_of,
    nearness,
    path_words,
    query_words,
    score_bodies,
)
from indexer.compose.selection import FIRST_OMITTED
from indexer.core.changes import tree_changes
from indexer.core.frames import FrameId
from indexer.core.paths import ancestors
from indexer.core.terms import term_of
from indexer.core.tree import Tree
from indexer.store.postings import PostingStore

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.workspace import Engine

POOL: Final = 500
"""How many bodies, at least, are ranked by more than their own words."""


LESS_RELEVANT: Final = "less relevant"
NO_MATCH: Final = "no match"

COMMON_NAME: Final = 200
"""How many paths may share a name before it says nothing of where to look."""


_LOOKS: Final = 8
"""How many bodies are looked at in the time that one is searched for."""

_Holders = Candidate | list[Candidate] | None


class Ranked(NamedTuple):
    """The candidates that a query finds, what each is worth, and by which statistics."""

    scores: dict[FrameId, float]
    pool: list[Candidate]
    matched: int
    """How many candidates have a word of the query, in the pool or not."""
    statistics: Statistics
    without: list[tuple[Candidate, str]]
    """The first candidates that are not in the pool, and why."""


class Corpus:
    """One candidate per head whose path is in the tree; history takes no part in it.

    Readers hold the lock while they use it. Bringing it up to date costs what moved since the
    last time.
    """

    def __init__(self, heads: HeadCache, postings: PostingStore) -> None:
        self.lock = threading.RLock()
        self._heads = heads
        self._postings = postings
        self._tree: Tree | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[FrameId, Candidate] = {}
        self._paths: dict[str, int] = {}
        """How many candidates a path has; 0 for one that has only others below it, or had some."""
        self._peopled = 0
        self._names: dict[str, list[str]] = {}
        self._holders: list[_Holders] = [None]
        """The candidates that have a body, by its number; the last place is for none."""
        self._sharing = array("I", [0])
        """How many candidates have each body."""
        self._live = bytearray(1)
        """1 for the number of a body that a candidate has."""
        self._dead: set[int] = set()
        """The numbers of all other bodies, which are few after `compact`."""
        self._bodies = 0
        self._levels: tuple[tuple[int, int, int], bytes] | None = None
        self._total_length = 0
        """Of the bodies that are measured, which those below a number are."""
        self._measured_below = 0
        self._ordered: list[Candidate] | None = None
        self._digest: hashlib._Hash | None = None

    # -- keeping up

    def bring_up_to_date(self, tree: Tree) -> None:
        """Follow the heads that moved, the paths that came and went, and what was indexed."""
        # Before the heads: what is indexed meanwhile is measured the next time.
        indexed = self._heads.indexed_below
        moved = self._heads.take_moved()
        if self._tree is None or moved is None:
            self._tree = None
            self._clear()
            self._measure(indexed)
            self._load(tree)
        else:
            self._measure(indexed)
            for (path, frame_type, agent), old in moved:
                if old is not None:
                    self._remove(old)
                self._add(tree, path, frame_type, agent)
            if tree is not self._tree:
                self._follow(self._tree, tree)
        self._tree = tree

    @property
    def is_indexed(self) -> bool:
        """Whether every body that is known here has its postings."""
        return self._measured_below >= len(self._live) - 1

    def _measure(self, indexed: int) -> None:
        """Take in the lengths of bodies that were indexed since the last time."""
        lengths = self._heads.body_numbers.lengths
        for number in range(self._measured_below, min(indexed, len(self._live) - 1)):
            self._total_length += self._live[number] and lengths[number]
        self._measured_below = indexed

    def _length(self, number: int) -> int:
        return self._heads.body_numbers.lengths[number] if number < self._measured_below else 0

    def _load(self, tree: Tree) -> None:
        for (frame_type, agent), heads in list(self._heads.slots.items()):
            for path in list(heads):
                self._add(tree, path, frame_type, agent)

    def _follow(self, old: Tree, new: Tree) -> None:
        for path, was, now in tree_changes(old, new):
            if now is None or was is None:
                for (frame_type, agent), head in self._heads.heads_at(path).items():
                    if now is None:
                        self._remove(head.frame_id)
                    else:
                        self._put(path, frame_type, agent)

    def _add(self, tree: Tree, path: str, frame_type: str, agent: str) -> None:
        if tree.get(path) is not None:
            self._put(path, frame_type, agent)

    def _put(self, path: str, frame_type: str, agent: str) -> None:
        head = self._heads.head(path, frame_type, agent)
        if head is None or head.frame_id in self._rows:
            return
        seq = self._heads.frame_seqs.get(head.frame_id, 0)
        row = Candidate(seq, path, frame_type, agent, head.frame_id, head.content)
        self._rows[head.frame_id] = row
        bodies = self._heads.body_numbers
        number = bodies.numbers.get(head.content)
        if number is not None:
            self._grow(number + 1)
            if not self._sharing[number]:
                self._total_length += self._length(number)
                self._bodies += 1
                self._live[number] = 1
                self._dead.discard(number)
            self._hold(number, [*self._held(number), row])
        self._name(path)
        self._peopled += not self._paths[path]
        self._paths[path] += 1
        self._ordered = self._digest = None

    def _name(self, path: str) -> None:
        """Remember the words of a path's names; one that was there before is known."""
        for where in (path, *ancestors(path)):
            if where in self._paths:
                return
            self._paths[where] = 0
            for word in path_words(where):
                self._names.setdefault(word, []).append(where)

    def _remove(self, frame_id: FrameId) -> None:
        row = self._rows.pop(frame_id, None)
        if row is None:
            return
        bodies = self._heads.body_numbers
        number = bodies.numbers.get(row.content)
        if number is not None:
            left = [one for one in self._held(number) if one is not row]
            self._hold(number, left)
            if not left:
                self._total_length -= self._length(number)
                self._bodies -= 1
                self._live[number] = 0
                self._dead.add(number)
        self._paths[row.path] -= 1
        self._peopled -= not self._paths[row.path]
        self._ordered = self._digest = None

    def _grow(self, numbers: int) -> None:
        more = numbers + 1 - len(self._live)
        if more > 0:
            self._dead.update(range(len(self._live) - 1, numbers))
            self._live.extend(bytes(more))
            self._holders.extend([None] * more)
            self._sharing.frombytes(bytes(self._sharing.itemsize * more))

    def _held(self, number: int) -> Sequence[Candidate]:
        held = self._holders[number]
        return () if held is None else held if isinstance(held, list) else (held,)

    def _hold(self, number: int, rows: list[Candidate]) -> None:
        # Most bodies have one candidate, which needs no list around it.
        self._holders[number] = rows if len(rows) > 1 else rows[0] if rows else None
        self._sharing[number] = len(rows)

    # -- reading, with the lock held

    def everything(self) -> list[Candidate]:
        """Every candidate in sequence order; not to be changed."""
        if self._ordered is None:
            self._ordered = sorted(self._rows.values())
        return self._ordered

    def digest(self) -> hashlib._Hash:
        """The hash of all FrameIDs in sequence order, to go on with."""
        if self._digest is None:
            self._digest = hashlib.sha256(b"".join([row[4] for row in self.everything()]))
        return self._digest.copy()

    def at(self, paths: Iterable[str]) -> list[Candidate]:
        """The candidates at some paths."""
        found = []
        for path in paths:
            for head in self._heads.heads_at(path).values():
                row = self._rows.get(head.frame_id)
                if row is not None:
                    found.append(row)
        return found

    def rank(
        self,
        query: str,
        within: Sequence[Candidate] | None,
        anchors: Sequence[str] = (),
        pool: int = POOL,
    ) -> Ranked:
        """What a query finds among some candidates, or among all of them."""
        words = query_words(query)
        levels = self._lengths()
        postings = self._find(words, len(levels) - 1)
        named = {word: self._names.get(word, []) for word in words}
        statistics = Statistics(
            self._bodies,
            self._total_length,
            self._peopled,
            {word: self._count_live(postings[word][0]) for word in words},
            {word: sum(1 for path in named[word] if self._paths[path]) for word in words},
        )
        allowed = None
        if within is not None:
            allowed = {row.frame_id for row in within}
        worth = score_bodies(words, postings, levels, statistics)
        if within is None:
            for number in self._dead:
                worth[number] = 0.0
        else:
            worth = list(map(mul, worth, self._only(within)))
        found = self._best(worth, pool)
        found.update((row.frame_id, row) for row in self._by_name(named))
        rows = [row for key, row in found.items() if allowed is None or key in allowed]
        names = NameScores(words, named, statistics)
        scores = self._scores(rows, words, postings, worth, names, anchors)
        if allowed is None:
            matched = sum(compress(self._sharing, worth))
        else:
            held = (self._held(number) for number, value in enumerate(worth) if value)
            matched = sum(row.frame_id in allowed for row in chain.from_iterable(held))
        matched += sum(not worth[self._number(row)] for row in rows)
        members = self.everything() if within is None else within
        others = (row for row in members if row.frame_id not in scores)
        without = [
            (row, LESS_RELEVANT if worth[self._number(row)] else NO_MATCH)
            for row in islice(others, FIRST_OMITTED)
        ]
        return Ranked(scores, rows, matched, statistics, without)

    def _find(self, words: Sequence[str], below: int) -> Postings:
        """The postings of the words, without bodies that were stored since this was brought up."""
        terms = {word: term_of(word) for word in words}
        stored = self._postings.find(terms.values())
        found = {}
        for word, term in terms.items():
            numbers, counts = stored[term]
            known = bisect_left(numbers, below)
            found[word] = (numbers[:known], counts[:known])
        return found

    def _lengths(self) -> bytes:
        """How long each body is, as levels; the last one stands for none."""
        lengths = self._heads.body_numbers.lengths
        self._grow(len(lengths))
        key = (self._bodies, self._total_length, len(self._live))
        if self._levels is None or self._levels[0] != key:
            self._levels = (key, levels_of([*lengths, 0], key[0], key[1]))
        return self._levels[1]

    def _count_live(self, numbers: Sequence[int]) -> int:
        """How many of some bodies a candidate has, by whichever way has less to look at."""
        if len(self._dead) * _LOOKS > len(numbers):
            return sum(map(self._live.__getitem__, numbers))
        return len(numbers) - sum(_has(numbers, number) for number in self._dead)

    def _only(self, rows: Iterable[Candidate]) -> bytearray:
        mask = bytearray(len(self._live))
        for row in rows:
            mask[self._number(row)] = 1
        mask[-1] = 0
        return mask

    def _number(self, row: Candidate) -> int:
        """The number of a candidate's body; that of nothing where it is not stored."""
        return self._heads.body_numbers.numbers.get(row.content, -1)

    def _best(self, worth: list[float], pool: int) -> dict[FrameId, Candidate]:
        """The candidates of the best bodies, and of all that tie with the last of them."""
        best = nlargest(pool, worth)
        least = best[-1] if len(best) == pool else 0.0
        numbers = [number for number, value in enumerate(worth) if value >= least and value]
        return {row.frame_id: row for number in numbers for row in self._held(number)}

    def _by_name(self, named: Mapping[str, Sequence[str]]) -> Iterator[Candidate]:
        """The candidates whose own name has a word, unless so many have it that it says nothing."""
        for listed in named.values():
            if len(listed) <= COMMON_NAME:
                yield from self.at(listed)

    def _scores(
        self,
        rows: Sequence[Candidate],
        words: Sequence[str],
        postings: Postings,
        worth: Sequence[float],
        names: NameScores,
        anchors: Sequence[str],
    ) -> dict[FrameId, float]:
        scores: dict[FrameId, float] = {}
        for row in rows:
            number = self._number(row)
            by_name, bits = names.of(row.path)
            for place, word in enumerate(words):
                if _has(postings[word][0], number):
                    bits |= 1 << place
            near = nearness(row.path, anchors) if anchors else 0.0
            scores[row.frame_id] = combine(worth[number], by_name, bits, len(words), near)
        return scores


OnWritingThread = Callable[[Callable[[], None]], None]
"""Runs something that writes where that is done."""


@contextlib.contextmanager
def live_corpus(engine: Engine, tree: Tree, *, searched: bool) -> Iterator[Corpus]:
    """The corpus as of now, locked; for a search, with the postings of every body in it."""
    corpus, heads = engine.corpus, engine.frames.heads
    while True:
        if searched:
            index_what_is_left(heads, engine.on_writing_thread)
        with corpus.lock:
            corpus.bring_up_to_date(tree)
            # Otherwise somebody has stored more meanwhile.
            if corpus.is_indexed or not searched:
                yield corpus
                return


def index_what_is_left(
    heads: HeadCache,
    on_writing_thread: OnWritingThread,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Make the postings that stored bodies wait for, on the thread that writes."""
    while left := heads.unindexed:
        # A portion at a time: what else has to be written comes between.
        on_writing_thread(heads.index_some)
        if progress is not None:
            progress(left - heads.unindexed)


def _has(numbers: Sequence[int], number: int) -> bool:
    """Whether a number is among others that are in order."""
    place = bisect_left(numbers, number)
    return place < len(numbers) and numbers[place] == number
