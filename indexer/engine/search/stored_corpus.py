"""The corpus as the database tells it, for a process that is asked once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, overload

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import Question
from indexer.core import paths
from indexer.core.changes import tree_changes
from indexer.core.frames import REPEATING_AGENTS
from indexer.core.roles import role_of
from indexer.core.terms import needle_of, words_in
from indexer.core.tree import Tree
from indexer.engine.code.known import is_of_today
from indexer.engine.search.corpus import Corpus
from indexer.engine.search.ranking import Ranking
from indexer.generators.languages import WHOLE_NAMES
from indexer.store.present import Present, PresentFrame

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.frames.opened import Frames

_PAGE: Final = 512
"""Candidates that are read at once to begin with."""


class StoredFiles:
    """Which files have which facts, and which names have which words, where that is asked for."""

    def __init__(self, present: Present, heads: HeadCache) -> None:
        self._present = present
        self._stale = self._take_earlier(heads)
        numbers = present.numbers()
        self.live = bytearray(max(numbers, default=-1) + 1)
        for number in numbers:
            self.live[number] = 1
        self.count = len(numbers)
        self._paths: dict[int, tuple[str, ...]] = {}

    def _take_earlier(self, heads: HeadCache) -> frozenset[str]:
        """Files whose facts are not stored: those count of the contents that frames tell of."""
        waiting = self._present.waiting()
        known = {one.path: heads.last_known(one.path) for one in waiting} if waiting else {}
        wanted = [(content, one.ending) for one in waiting for content in known[one.path]]
        numbers = self._present.numbers_of_contents(wanted) if wanted else {}
        given = []
        for one in waiting:
            before = (numbers.get((content, one.ending)) for content in known[one.path])
            number = next((each for each in before if each is not None), None)
            if number is not None:
                given.append((one.path, number))
        if given:
            self._present.give_numbers(given)
        return frozenset(one.path for one in waiting)

    def numbers(self, paths: Sequence[str]) -> dict[str, int]:
        """The numbers of the facts of some files, without those that have none, in this order."""
        found = self._present.numbers_at(paths)
        return {path: found[path] for path in paths if path in found}

    def roles(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """By number, the role that weighs most among those of its files."""
        return {one: min(map(role_of, held)) for one, held in self.paths(numbers).items()}

    def paths(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The files that have the facts of some numbers."""
        wanted, known = list(numbers), self._paths
        unknown = [number for number in wanted if number not in known]
        if unknown:
            known.update(dict.fromkeys(unknown, ()))
            for number, path in self._present.files_numbered(unknown):
                known[number] = (*known[number], path)
        return {number: known[number] for number in wanted}

    def is_stale(self, path: str) -> bool:
        """Whether what is known of a file is of a content that it had before."""
        return path in self._stale

    def named(self, words: Sequence[str], most: int) -> dict[str, list[str]]:
        """By word, the paths in the tree whose own name has it; none where too many have it."""
        found: dict[str, list[str]] = {word: [] for word in words}
        left = {word: needle_of(word) for word in words}
        for path in self._present.named(list(left.values())) if left else ():
            name = paths.split(path)[1]
            folded = name.lower().replace("_", "")
            # What is not ASCII has its own lower case.
            perhaps = [one for one, it in left.items() if it in folded or not name.isascii()]
            if not perhaps:
                continue
            has = words_in(name)
            for word in perhaps:
                if word in has:
                    found[word].append(path)
                    if len(found[word]) > most:
                        del left[word], found[word][:]
            if not left:
                break
        return found


class _Ordered(Sequence[Candidate]):
    """The candidates in sequence order, read as far as somebody goes through them."""

    def __init__(self, present: Present) -> None:
        self._present = present
        self._read: list[Candidate] = []

    def __len__(self) -> int:
        return self._present.count()

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        self._read_below(len(self))
        return self._read[index]

    def __iter__(self) -> Iterator[Candidate]:
        for place in range(len(self)):
            if place == len(self._read):
                self._read_below(min(len(self), max(_PAGE, 8 * place)))
            yield self._read[place]

    def _read_below(self, end: int) -> None:
        start = len(self._read)
        if end > start:
            self._read += map(_candidate, self._present.frames(start, end - start))


class StoredCorpus(Corpus):
    """The candidates and files of one tree, asked of the database."""

    def __init__(self, frames: Frames, recorded: Tree, tree: Tree) -> None:
        self._frames = frames
        self._tree = tree
        self._present = Present(
            frames.store.database, tree_changes(recorded, tree), WHOLE_NAMES, is_of_today
        )
        self._ordered = _Ordered(self._present)

    @property
    def is_whole(self) -> bool:
        """Whether no frame is missing; those that are can be told by their heads alone."""
        return self._present.has_all_frames()

    def close(self) -> None:
        """Let go of the database."""
        self._present.close()

    def everything(self) -> Sequence[Candidate]:
        """Every candidate in sequence order, read when it is gone through."""
        return self._ordered

    def digest(self) -> hashlib._Hash:
        """The hash of all FrameIDs in sequence order, to go on with."""
        return hashlib.sha256(self._present.frame_ids())

    def at(self, paths: Iterable[str]) -> list[Candidate]:
        """The candidates at some paths, read at once."""
        return list(map(_candidate, self._present.frames_at(paths)))

    def _ranking(self, question: Question, anchors: Sequence[str]) -> Ranking:
        frames = self._frames
        files = StoredFiles(self._present, frames.heads)
        return Ranking(question, self._tree, files, frames.postings, frames.code.store, anchors, {})

    def _written_found(self, ranking: Ranking) -> dict[Candidate, int]:
        found = self._present.frames_with(ranking.bodies_found(), REPEATING_AGENTS)
        worth = ranking.bodies(number for number, _ in found)
        return {_candidate(frame): worth[number] for number, frame in found}


def _candidate(frame: PresentFrame) -> Candidate:
    return Candidate(*frame[1:])
