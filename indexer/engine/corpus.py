"""The live heads as a search sees them, kept in memory and brought up to date by what moved."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import compress
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import (
    NameScores,
    Postings,
    Statistics,
    combine,
    nearness,
    norms,
    path_words,
    query_words,
    score_bodies,
)
from indexer.core.changes import tree_changes
from indexer.core.frames import FrameId
from indexer.core.paths import ancestors
from indexer.core.terms import term_of
from indexer.core.tree import Tree
from indexer.store.postings import PostingStore

if TYPE_CHECKING:
    from indexer.engine.shelf import Shelf

POOL: Final = 500
"""How many bodies, at least, are ranked by more than their own words."""


COMMON_NAME: Final = 200
"""How many paths may share a name before it says nothing of where to look."""


class Ranked(NamedTuple):
    """The candidates that a query finds, what each is worth, and by which statistics."""

    scores: dict[FrameId, float]
    pool: list[Candidate]
    matched: int
    """How many candidates have a word of the query, in the pool or not."""
    statistics: Statistics


class Corpus:
    """One candidate per head whose path is in the tree; history takes no part in it.

    Readers hold the lock while they use it. Bringing it up to date costs what moved since the
    last time.
    """

    def __init__(self, shelf: Shelf, postings: PostingStore) -> None:
        self.lock = threading.RLock()
        self._shelf = shelf
        self._postings = postings
        self._tree: Tree | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[FrameId, Candidate] = {}
        self._numbers: dict[int, list[Candidate]] = {}
        self._paths: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        self._named: set[str] = set()
        self._live = bytearray(1)
        """1 for the number of a body that a candidate has; the last is for none."""
        self._sharing = [0]
        self._norm: tuple[tuple[int, int, int], list[float]] | None = None
        self._total_length = 0
        self._ordered: list[Candidate] | None = None
        self._digest: hashlib._Hash | None = None

    # -- keeping up

    def bring_up_to_date(self, tree: Tree) -> None:
        """Follow the heads that moved, and the paths that came and went."""
        moved = self._shelf.take_moved()
        if self._tree is None or moved is None:
            self._tree = None
            self._clear()
            self._load(tree)
        else:
            for (path, frame_type, agent), old in moved:
                if old is not None:
                    self._remove(old)
                self._add(tree, path, frame_type, agent)
            if tree is not self._tree:
                self._follow(self._tree, tree)
        self._tree = tree

    def _load(self, tree: Tree) -> None:
        present = {path for path, _ in tree.walk()}
        for (frame_type, agent), heads in list(self._shelf.slots.items()):
            for path in list(heads):
                if path in present:
                    self._put(path, frame_type, agent)

    def _follow(self, old: Tree, new: Tree) -> None:
        for path, was, now in tree_changes(old, new):
            if now is None or was is None:
                for (frame_type, agent), head in self._shelf.heads_at(path).items():
                    if now is None:
                        self._remove(head.frame_id)
                    else:
                        self._put(path, frame_type, agent)

    def _add(self, tree: Tree, path: str, frame_type: str, agent: str) -> None:
        if tree.get(path) is not None:
            self._put(path, frame_type, agent)

    def _put(self, path: str, frame_type: str, agent: str) -> None:
        head = self._shelf.head(path, frame_type, agent)
        if head is None or head.frame_id in self._rows:
            return
        seq = self._shelf.frame_seqs.get(head.frame_id, 0)
        row = Candidate(seq, path, frame_type, agent, head.frame_id, head.content)
        self._rows[head.frame_id] = row
        bodies = self._shelf.bodies
        number = bodies.numbers.get(head.content)
        if number is not None:
            self._grow(number + 1)
            sharing = self._numbers.get(number)
            if sharing is None:
                self._numbers[number] = [row]
                self._total_length += bodies.lengths[number]
                self._live[number] = 1
            else:
                sharing.append(row)
            self._sharing[number] += 1
        self._paths[path] = self._paths.get(path, 0) + 1
        for where in (path, *ancestors(path)):
            if where in self._named:
                break
            self._named.add(where)
            for word in path_words(where):
                self._names.setdefault(word, []).append(where)
        self._ordered = self._digest = None

    def _remove(self, frame_id: FrameId) -> None:
        row = self._rows.pop(frame_id, None)
        if row is None:
            return
        bodies = self._shelf.bodies
        number = bodies.numbers.get(row.content)
        if number is not None:
            sharing = self._numbers[number]
            sharing.remove(row)
            self._sharing[number] -= 1
            if not sharing:
                del self._numbers[number]
                self._total_length -= bodies.lengths[number]
                self._live[number] = 0
        left = self._paths[row.path] - 1
        if left:
            self._paths[row.path] = left
        else:
            del self._paths[row.path]
        self._ordered = self._digest = None

    def _grow(self, numbers: int) -> None:
        more = numbers + 1 - len(self._live)
        if more > 0:
            self._live.extend(bytes(more))
            self._sharing.extend([0] * more)

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
            for head in self._shelf.heads_at(path).values():
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
        postings = self._find(words)
        named = {word: self._names.get(word, []) for word in words}
        live, known = self._live, self._paths
        statistics = Statistics(
            len(self._numbers),
            self._total_length,
            len(known),
            {word: sum(map(live.__getitem__, postings[word][0])) for word in words},
            {word: sum(map(known.__contains__, named[word])) for word in words},
        )
        worth = score_bodies(words, postings, self._norms(), statistics)
        mask = live if within is None else self._only(within)
        worth = list(map(mul, worth, mask))
        allowed = None if within is None else {row.frame_id for row in within}
        found = self._best(worth, pool)
        found.update((row.frame_id, row) for row in self._by_name(named))
        rows = [row for key, row in found.items() if allowed is None or key in allowed]
        scores = self._scores(rows, words, postings, worth, NameScores(words, named, statistics),
                              anchors)  # fmt: skip
        matched = sum(compress(self._sharing, worth))
        by_name_alone = sum(not worth[self._number(row)] for row in rows)
        return Ranked(scores, rows, matched + by_name_alone, statistics)

    def _find(self, words: Sequence[str]) -> Postings:
        terms = {word: term_of(word) for word in words}
        stored = self._postings.find(terms.values())
        return {word: stored[term] for word, term in terms.items()}

    def _norms(self) -> list[float]:
        lengths = self._shelf.bodies.lengths
        self._grow(len(lengths))
        key = (len(self._numbers), self._total_length, len(lengths))
        if self._norm is None or self._norm[0] != key:
            self._norm = (key, norms(lengths, key[0], key[1]))
        return self._norm[1]

    def _only(self, rows: Iterable[Candidate]) -> bytearray:
        mask = bytearray(len(self._live))
        for row in rows:
            mask[self._number(row)] = 1
        mask[-1] = 0
        return mask

    def _number(self, row: Candidate) -> int:
        """The number of a candidate's body; that of nothing where it is not stored."""
        return self._shelf.bodies.numbers.get(row.content, -1)

    def _best(self, worth: list[float], pool: int) -> dict[FrameId, Candidate]:
        """The candidates of the best bodies, and of all that tie with the last of them."""
        best = nlargest(pool, worth)
        least = best[-1] if len(best) == pool else 0.0
        numbers = [number for number, value in enumerate(worth) if value >= least and value]
        return {row.frame_id: row for number in numbers for row in self._numbers[number]}

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
        having = [set(postings[word][0]) for word in words] if rows else []
        scores: dict[FrameId, float] = {}
        for row in rows:
            number = self._number(row)
            by_name, bits = names.of(row.path)
            for place, bodies in enumerate(having):
                if number in bodies:
                    bits |= 1 << place
            near = nearness(row.path, anchors) if anchors else 0.0
            scores[row.frame_id] = combine(worth[number], by_name, bits, len(words), near)
        return scores
