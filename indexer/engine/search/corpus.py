"""The live frames and files as a question sees them, brought up to date by what moved."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import Question, Statistics
from indexer.compose.selection import FIRST_OMITTED
from indexer.core.changes import tree_changes
from indexer.core.frames import REPEATING_AGENTS, BodyHash, FrameId, Head, HeadKey
from indexer.core.progress import Progress, begin
from indexer.core.tree import Tree
from indexer.engine.search.files import Files
from indexer.engine.search.kept_rows import KeptRows
from indexer.engine.search.ranking import READ, FileHit, Ranking, TextOf
from indexer.store.postings import PostingStore

if TYPE_CHECKING:
    from indexer.engine.code.known import KnownFacts
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.frames.opened import Frames
    from indexer.engine.tree.recorded import RecordedTree

POOL: Final = 200
"""How many files, at least, are ranked by more than their own words."""

LESS_RELEVANT: Final = "less relevant"
NO_MATCH: Final = "no match"


class Ranked(NamedTuple):
    """The candidates that a query finds, what each is worth, and by which statistics."""

    scores: dict[FrameId, int]
    pool: list[Candidate]
    less: int
    """How many files have a word of the query and are not in the pool."""
    statistics: Statistics
    without: list[tuple[Candidate, str]]
    """The first candidates that are not in the pool, and why."""
    files: list[FileHit]
    """The files that are found, the best first."""
    parts: dict[FrameId, dict[str, int]]
    """What the score of each candidate is made of."""


class Corpus(ABC):
    """One candidate per frame that counts and whose path is in the tree, without history."""

    @abstractmethod
    def everything(self) -> Sequence[Candidate]:
        """Every candidate in sequence order; not to be changed."""

    @abstractmethod
    def digest(self) -> hashlib._Hash:
        """The hash of all FrameIDs in sequence order, to go on with."""

    @abstractmethod
    def at(self, paths: Iterable[str]) -> list[Candidate]:
        """The candidates at some paths."""

    @abstractmethod
    def _ranking(self, question: Question, anchors: Sequence[str]) -> Ranking:
        """What a question is worth here."""

    @abstractmethod
    def _written_found(self, ranking: Ranking) -> dict[Candidate, int]:
        """The candidates whose own words a question finds, and what these are worth."""

    def rank(
        self,
        question: Question,
        within: Sequence[Candidate] | None,
        text_of: TextOf,
        anchors: Sequence[str] = (),
        pool: int = POOL,
        read: int = READ,
    ) -> Ranked:
        """What a question finds among some candidates, or among all of them."""
        ranking = self._ranking(question, anchors)
        written = self._written_found(ranking)
        hits = ranking.files(pool, text_of, read)
        allowed = None if within is None else {row.frame_id for row in within}
        places = dict.fromkeys((*(hit.path for hit in hits), *ranking.folders()))
        by_path = {hit.path: hit for hit in hits}
        rows = {row.frame_id: row for row in (*self.at(places), *written)}
        scores: dict[FrameId, int] = {}
        parts: dict[FrameId, dict[str, int]] = {}
        for frame_id, row in rows.items():
            if allowed is not None and frame_id not in allowed:
                continue
            made = ranking.frame(row, by_path.get(row.path), written.get(row, 0))
            worth = sum(made.values())
            if worth > 0:
                scores[frame_id], parts[frame_id] = worth, made
        chosen = [row for row in rows.values() if row.frame_id in scores]
        members = self.everything() if within is None else within
        others = list(islice((row for row in members if row.frame_id not in scores), FIRST_OMITTED))
        having = ranking.having_words([row.path for row in others])
        without = [(row, LESS_RELEVANT if row.path in having else NO_MATCH) for row in others]
        less = min(ranking.others(hits), len(members) - len(chosen))
        return Ranked(scores, chosen, less, ranking.statistics, without, hits, parts)


class KeptCorpus(Corpus):
    """The corpus in memory, for a process that is asked more than once.

    Readers hold the lock while they use it. Bringing it up to date costs what moved since the
    last time.
    """

    def __init__(self, heads: HeadCache, postings: PostingStore, code: KnownFacts) -> None:
        self.lock = threading.RLock()
        self._heads = heads
        self._postings = postings
        self._code = code
        self._tree: Tree | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows = KeptRows(lambda frame_id: self._heads.frame_seqs.get(frame_id))
        self._files = Files(self._heads.last_known)
        self._written: dict[BodyHash, list[Candidate]] = {}
        """By body, the candidates that have words of their own."""
        self._symbols: dict[int, bytes] = {}
        """By number of facts, the packed symbols of files that were read for a question."""
        self._digest: hashlib._Hash | None = None

    # -- keeping up

    def bring_up_to_date(self, tree: Tree) -> None:
        """Follow the heads that moved, the paths that came and went, and what was found out."""
        moved, before = self._heads.take_moved(), self._tree
        # Until this has come to its end: what is broken off is made anew.
        self._tree = None
        if before is None or moved is None:
            self._clear()
            folders = dict(tree.folders())

            def is_there(path: str) -> bool:
                above, _, name = path.rpartition("/")
                folder = folders.get(above)
                return not path or (folder is not None and name in folder.entries)

            for slot, live in self._heads.live():
                if slot[1] in REPEATING_AGENTS:
                    self._rows.begin(slot, self._heads.slots[slot], is_there)
                    continue
                for path, head in live:
                    if is_there(path):
                        self._put((path, *slot), head)
        else:
            for key, old, new in moved:
                if old is not None:
                    self._remove(key, old)
                if new is not None and tree.get(key[0]) is not None:
                    self._put(key, new)
            if tree is not before:
                self._follow(before, tree)
        self._tree = tree

    def _follow(self, old: Tree, new: Tree) -> None:
        for path, was, now in tree_changes(old, new):
            if now is None or was is None:
                for slot, head in self._heads.live_at(path):
                    if now is None:
                        self._remove((path, *slot), head.frame_id)
                    else:
                        self._put((path, *slot), head)

    def _put(self, key: HeadKey, head: Head) -> None:
        before = self._rows.kept(key)
        if before is not None:
            if before.frame_id == head.frame_id:
                return
            self._remove(key, before.frame_id)
        row = self._rows.put(key, head)
        if row is not None and row.agent not in REPEATING_AGENTS:
            self._written.setdefault(row.content, []).append(row)
        self._digest = None

    def _remove(self, key: HeadKey, frame_id: FrameId) -> None:
        row = self._rows.remove(key, frame_id)
        if row is None:
            return
        if row.agent not in REPEATING_AGENTS:
            left = [one for one in self._written[row.content] if one != row]
            if left:
                self._written[row.content] = left
            else:
                del self._written[row.content]
        self._digest = None

    # -- reading, with the lock held

    def everything(self) -> Sequence[Candidate]:
        """Every candidate in sequence order; not to be changed."""
        return self._rows

    def digest(self) -> hashlib._Hash:
        """The hash of all FrameIDs in sequence order, to go on with."""
        if self._digest is None:
            self._digest = hashlib.sha256(b"".join(self._rows.frame_ids()))
        return self._digest.copy()

    def at(self, paths: Iterable[str]) -> list[Candidate]:
        """The candidates at some paths."""
        return [row for path in paths for row in self._rows.at(path)]

    def _ranking(self, question: Question, anchors: Sequence[str]) -> Ranking:
        assert self._tree is not None
        self._files.bring_up_to_date(self._tree, self._code.numbers, self._rows.paths)
        return Ranking(
            question, self._tree, self._files, self._postings, self._code.store, anchors,
            self._symbols,
        )  # fmt: skip

    def _written_found(self, ranking: Ranking) -> dict[Candidate, int]:
        numbers = {
            number: content
            for content in self._written
            if (number := self._heads.body_numbers.get(content)) is not None
        }
        return {
            row: worth
            for number, worth in ranking.bodies(numbers).items()
            for row in self._written[numbers[number]]
        }


OnWritingThread = Callable[[Callable[[], None]], None]
"""Runs something that writes where that is done."""


class Corpora:
    """Where a question finds the corpus, while the database is the one that is open."""

    def __init__(
        self,
        frames: Frames,
        recorded: RecordedTree,
        on_writing_thread: OnWritingThread,
        is_first_question: Callable[[], bool],
    ) -> None:
        self.frames, self.recorded = frames, recorded
        self._on_writing_thread, self._is_first = on_writing_thread, is_first_question
        self.kept = KeptCorpus(frames.heads, frames.postings, frames.code)

    @contextlib.contextmanager
    def of(self, tree: Tree, *, searched: bool) -> Iterator[Corpus]:
        """The corpus as of now, locked; for a search, with the postings of every body in it.

        A process that is asked once does not load everything first: the database tells it.
        """
        if searched:
            index_what_is_left(self.frames.heads, self._on_writing_thread)
        if self._is_first():
            # Imported late: a service does without.
            from indexer.engine.search.stored_corpus import StoredCorpus

            with contextlib.closing(StoredCorpus(self.frames, self.recorded.tree, tree)) as stored:
                if stored.is_whole:
                    yield stored
                    return
        with self.kept.lock:
            self.kept.bring_up_to_date(tree)
            yield self.kept


def index_what_is_left(
    heads: HeadCache,
    on_writing_thread: OnWritingThread,
    progress: Progress | None = None,
) -> None:
    """Make the postings that stored bodies wait for, on the thread that writes."""
    begin(progress, "preparing the search", "texts", heads.unindexed)
    while left := heads.unindexed:
        # A portion at a time: what else has to be written comes between.
        on_writing_thread(heads.index_some)
        if progress is not None:
            progress(left - heads.unindexed)
    begin(progress, "searching")
