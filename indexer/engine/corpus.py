"""The live heads as a search sees them, kept in memory and brought up to date by what moved."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import (
    NameScores,
    Postings,
    Statistics,
    combine,
    nearness,
    path_words,
    query_words,
    score_bodies,
)
from indexer.core.changes import tree_changes
from indexer.core.frames import FrameId
from indexer.core.terms import term_of
from indexer.core.tree import Tree
from indexer.store.postings import PostingStore

if TYPE_CHECKING:
    from indexer.engine.shelf import Shelf

POOL: Final = 2000
"""How many bodies are ranked by more than their own words; the others are less relevant."""


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
            sharing = self._numbers.get(number)
            if sharing is None:
                self._numbers[number] = [row]
                self._total_length += bodies.lengths[number]
            else:
                sharing.append(row)
        self._paths[path] = self._paths.get(path, 0) + 1
        if path not in self._named:
            self._named.add(path)
            for word in path_words(path):
                self._names.setdefault(word, []).append(path)
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
            if not sharing:
                del self._numbers[number]
                self._total_length -= bodies.lengths[number]
        left = self._paths[row.path] - 1
        if left:
            self._paths[row.path] = left
        else:
            del self._paths[row.path]
        self._ordered = self._digest = None

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
        self, query: str, within: Sequence[Candidate] | None, anchors: Sequence[str] = ()
    ) -> Ranked:
        """What a query finds among some candidates, or among all of them."""
        words = query_words(query)
        postings = self._live_postings(words)
        names = {word: [p for p in self._names.get(word, ()) if p in self._paths] for word in words}
        statistics = Statistics(
            len(self._numbers),
            self._total_length,
            len(self._paths),
            {word: len(postings[word][0]) for word in words},
            {word: len(names[word]) for word in words},
        )
        bodies = score_bodies(words, postings, self._shelf.bodies.lengths, statistics)
        allowed = None if within is None else {row.frame_id for row in within}
        found = self._found(bodies.worth, names, allowed)
        numbers, scorer = self._shelf.bodies.numbers, NameScores(words, statistics)
        scores: dict[FrameId, float] = {}
        for row in found:
            number = numbers.get(row.content, -1)
            by_name, bits = scorer.of(row.path)
            near = nearness(row.path, anchors)
            own, has = bodies.worth.get(number, 0.0), bodies.matched.get(number, 0)
            scores[row.frame_id] = combine(own, by_name, has | bits, len(words), near)
        matched = len(found)
        if len(bodies.worth) > POOL:
            rows = (row for number in bodies.worth for row in self._numbers[number])
            matched = sum(
                1
                for row in rows
                if row.frame_id not in scores and (allowed is None or row.frame_id in allowed)
            ) + len(found)
        return Ranked(scores, found, matched, statistics)

    def _live_postings(self, words: Sequence[str]) -> Postings:
        terms = {word: term_of(word) for word in words}
        stored = self._postings.find(terms.values())
        live = self._numbers
        found: dict[str, tuple[list[int], list[int]]] = {}
        for word, term in terms.items():
            pairs = [
                (body, count) for body, count in zip(*stored[term], strict=True) if body in live
            ]
            found[word] = ([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        return found

    def _found(
        self,
        worth: dict[int, float],
        names: dict[str, list[str]],
        allowed: set[FrameId] | None,
    ) -> list[Candidate]:
        """The candidates to rank: the best bodies, all that tie with them, and names that match."""
        least = sorted(worth.values(), reverse=True)[POOL] if len(worth) > POOL else 0.0
        found: dict[FrameId, Candidate] = {}
        for number, value in worth.items():
            if value >= least:
                for row in self._numbers[number]:
                    found[row.frame_id] = row
        for listed in names.values():
            # A name that very many have tells nothing of where to look.
            if len(listed) <= max(POOL, len(self._paths) // 20):
                for row in self.at(listed):
                    found[row.frame_id] = row
        if allowed is not None:
            return [row for row in found.values() if row.frame_id in allowed]
        return list(found.values())
