"""Ranking files and frames for a question: all by their words, the best also by their parts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import (
    ALONE,
    BEST_UNIT,
    DEFINES,
    FOLDER_PERCENT,
    REFERENCES,
    SECOND_UNIT,
    Mention,
    PathGains,
    Question,
    Statistics,
    UnitScore,
    UnitScores,
    corrected,
    covered,
    percent_of,
    pulled,
    weights_of,
)
from indexer.core.code import NO_SYMBOLS, SymbolSpans, unpack_spans
from indexer.core.frames import REPEATING_AGENTS
from indexer.core.kinds import Kind
from indexer.core.postings import FULL
from indexer.core.roles import Role, role_of
from indexer.core.terms import term_of, words_of
from indexer.core.tree import Tree
from indexer.engine.search.files import FilesSeen
from indexer.store.postings import BODIES, FILES, Found, PostingStore

if TYPE_CHECKING:
    from indexer.store.code import CodeStore

READ: Final = 20
"""How many files are read for what their parts are worth."""

_REMEMBERED: Final = 1 << 20
"""Bytes of files' packed symbols, roughly, that are kept for the next question."""

COMMON_NAME: Final = 200
"""How many paths may share a name before it says nothing of where to look."""

_MORE: Final = 8
"""How many times as many files as are wanted are looked at for their role to begin with."""

_HIGH: Final = 48
"""Where in a sum the weights of the words begin that were found; below it is what they give."""

TextOf = Callable[[str], bytes | None]
"""The text of a file as it is recorded; None where it is another by now, or cannot be read."""


class FileHit(NamedTuple):
    """A file that a question finds."""

    path: str
    number: int
    worth: int
    parts: dict[str, int]
    """What the worth is made of."""
    symbols: SymbolSpans = NO_SYMBOLS
    units: tuple[UnitScore, ...] = ()
    """What its symbols are worth, the best first."""
    stale: bool = False
    """Whether that is of a content which it had before."""


class Ranking:
    """What one question is worth in files, folders and bodies."""

    def __init__(
        self,
        question: Question,
        tree: Tree,
        files: FilesSeen,
        postings: PostingStore,
        code: CodeStore,
        anchors: Sequence[str],
        symbols: dict[int, bytes],
    ) -> None:
        self._question = question = _as_spelled(question, postings, code)
        self._tree = tree
        self._files = files
        self._postings = postings
        self._code = code
        self._anchors = anchors
        self._symbols = symbols
        self._terms = {word: term_of(word) for word in question.words}
        self._found = postings.find(FILES, self._terms.values())
        self.statistics = Statistics(
            files.count,
            {word: _count_live(files, self._found[term][0]) for word, term in self._terms.items()},
        )
        self._weights = weights_of(question, self.statistics)
        self._total = sum(self._weights.values())
        self._gains = PathGains(self._weights)
        self._sums = self._added_up()

    def _added_up(self) -> list[int]:
        """Per number of a file: the weights of the words it has, above what they give there."""
        size = max((found[0][-1] + 1 for found in self._found.values() if found[0]), default=0)
        sums = [0] * max(size, len(self._files.live))
        for word, term in self._terms.items():
            weight = self._weights[word]
            numbers, gains = self._found[term]
            gives = [(weight << _HIGH) + weight * gain for gain in range(FULL + 1)]
            for number, gain in zip(numbers, gains, strict=True):
                sums[number] += gives[gain]
        # What no file has any more counts for nothing.
        live = self._files.live
        del sums[len(live) :]
        dead = live.find(0)
        while dead >= 0:
            # Those that went together, as after a new release, stand together.
            end = live.find(1, dead)
            end = len(live) if end < 0 else end
            sums[dead:end] = [0] * (end - dead)
            dead = live.find(0, end)
        return sums

    def having_words(self, paths: Sequence[str]) -> set[str]:
        """The files among some paths that have a word of the question."""
        numbers = self._files.numbers(paths)
        return {path for path, number in numbers.items() if self._sums[number]}

    # -- files

    def others(self, hits: Sequence[FileHit]) -> int:
        """How many files have a word of the question and are none of some hits."""
        found = len(self._sums) - self._sums.count(0)
        return max(0, found - len({hit.number for hit in hits if self._sums[hit.number]}))

    def files(self, pool: int, text_of: TextOf, read: int = READ) -> list[FileHit]:
        """The best files, the best first; of the very best also what their parts are worth."""
        defined = self._definers()
        hits = [
            self._file(path, number, defined.get(number, 0))
            for path, number in self._pool(pool, defined).items()
        ]
        hits.sort(key=_order)
        best = self._with_units(hits[:read], text_of)
        return sorted([*best, *hits[read:]], key=_order)

    def _pool(self, pool: int, defined: Iterable[int]) -> dict[str, int]:
        """The files that have the most of the question's words, and those named after them."""
        found = {
            path: number
            for number, paths in self._files.paths([*self._best(pool), *defined]).items()
            for path in paths
        }
        return found | self._files.numbers(sorted(self._named.difference(found)))

    @cached_property
    def _named(self) -> frozenset[str]:
        """The paths whose own name has a word of the question that few have."""
        found = self._files.named(self._question.words, COMMON_NAME)
        return frozenset(path for paths in found.values() for path in paths)

    def _best(self, pool: int) -> list[int]:
        """The best numbers by what they are worth in their roles, with all that equal the last.

        Most files have few of the words, and need not be looked at: they would have to be worth
        more than if their text were about nothing else.
        """
        half = self._total // 2
        percents = [percent_of(role, self._question) for role in Role]

        def most(words: int) -> int:
            return covered(FULL * words, words, self._total, ALONE) * max(percents)

        weighed, least = self._weighed_best(pool, half, 0, percents)
        enough = bisect_left(range(half), least, key=most)
        if enough < half:
            weighed, least = self._weighed_best(pool, enough, least // max(percents), percents)
        return [number for number, one in weighed.items() if one >= least]

    def _weighed_best(
        self, pool: int, words: int, text: int, percents: Sequence[int]
    ) -> tuple[dict[int, int], int]:
        """What the best are worth in their roles that have words of such a weight, and the last.

        None is worth more than what the words give in its text. Of most of them no role has to be
        known: it would have to be worth more than it can be.
        """
        # As `covered` has it, which is not called for each of so many.
        low, alone, whole = (1 << _HIGH) - 1, ALONE * self._total, 10 * self._total
        fewest = max(1, words << _HIGH)
        worth = {
            number: (made & low) * (alone + (10 - ALONE) * (made >> _HIGH)) // whole
            for number, made in enumerate(self._sums)
            if made >= fewest and made & low >= text
        }
        # Most of those that are left are wanted: to put all in order takes less than to choose.
        first = sorted(worth, key=worth.__getitem__, reverse=True)[: _MORE * pool]
        weighed = self._weighed_roles(first, worth, percents)
        least = _least(pool, weighed)
        if len(first) < len(worth) and worth[first[-1]] * max(percents) >= least:
            rest = [number for number in worth if number not in weighed]
            weighed.update(self._weighed_roles(rest, worth, percents))
            least = _least(pool, weighed)
        return weighed, least

    def _weighed_roles(
        self, numbers: Sequence[int], worth: Mapping[int, int], percents: Sequence[int]
    ) -> dict[int, int]:
        roles = self._files.roles(numbers)
        return {number: worth[number] * percents[roles[number]] for number in numbers}

    def _definers(self) -> dict[int, int]:
        """The files that declare an identifier that the question names, with its weight."""
        found: dict[int, int] = {}
        for number, name in self._code.declaring(sorted(self._question.names)):
            words = [word for word in self._terms if word in words_of(name)]
            weight = max((self._weights[word] for word in words), default=0)
            found[number] = max(found.get(number, 0), weight)
        live = self._files.live
        return {one: weight for one, weight in found.items() if one < len(live) and live[one]}

    def _file(self, path: str, number: int, defines: int) -> FileHit:
        made = self._sums[number]
        text, words = made & ((1 << _HIGH) - 1), made >> _HIGH
        names = self._gains.of(path)
        # A word that both the text and the path have counts once for how many there are.
        for word in names.words:
            if not self._has(word, number):
                words += self._weights[word]
        parts = {
            "text": covered(text, words, self._total, ALONE),
            "path": covered(names.worth, words, self._total, ALONE),
            "declares": DEFINES * FULL * defines // 10,
        }
        return self._weighed(path, number, parts)

    def _has(self, word: str, number: int) -> bool:
        numbers = self._found[self._terms[word]][0]
        place = bisect_left(numbers, number)
        return place < len(numbers) and numbers[place] == number

    def _weighed(
        self,
        path: str,
        number: int,
        parts: dict[str, int],
        symbols: SymbolSpans = NO_SYMBOLS,
        units: tuple[UnitScore, ...] = (),
    ) -> FileHit:
        """A hit that is worth what its parts are in its role, which is added to them."""
        percent = percent_of(role_of(path), self._question)
        worth = sum(parts.values()) - parts.get("percent", 0)
        worth = pulled(worth * percent // 100, path, self._anchors)
        parts["percent"] = percent
        return FileHit(path, number, worth, parts, symbols, units, self._files.is_stale(path))

    def _with_units(self, hits: Sequence[FileHit], text_of: TextOf) -> list[FileHit]:
        packed = self._symbols
        if sum(map(len, packed.values())) > _REMEMBERED:
            packed.clear()
        scores = UnitScores(self._weights)
        texts: dict[int, tuple[int, list[Mention]]] = {}
        packed.update(self._code.spans(hit.number for hit in hits if hit.number not in packed))
        symbols = {hit.number: unpack_spans(packed[hit.number]) for hit in hits}
        for hit in hits:
            if hit.number not in texts and not self._files.is_stale(hit.path):
                text = text_of(hit.path) or b""
                # To look for a word that is not there takes as long as for one that is.
                had = [word for word in self._weights if self._has(word, hit.number)]
                texts[hit.number] = len(text), scores.found_in(text, had)
        known = {
            number: scores.of(found, length, symbols[number])
            for number, (length, found) in texts.items()
        }
        names = {
            number: name
            for number, units in known.items()
            if units and units[0].place >= 0
            if (name := self._meant(symbols[number].symbols[units[0].place])) is not None
        }
        having = self._having(names.values())
        self.statistics = replace(self.statistics, references=having)
        made = []
        for hit in hits:
            units = [] if self._files.is_stale(hit.path) else known[hit.number]
            best = units[0].worth if units else 0
            doublings = having[names[hit.number]].bit_length() if hit.number in names else 0
            second = units[1].worth if len(units) > 1 else 0
            parts = {
                **hit.parts,
                "best": BEST_UNIT * best // 10,
                "second": BEST_UNIT * SECOND_UNIT * second // 100,
                "references": BEST_UNIT * best * REFERENCES * doublings // 10_000,
            }
            own = symbols[hit.number]
            made.append(self._weighed(hit.path, hit.number, parts, own, tuple(units)))
        return made

    def _meant(self, symbol: str) -> str | None:
        """The innermost name in a symbol that the question is about and that stands for nothing
        else: it has several words, so that files have it only to refer to it."""
        for name in reversed(symbol.split(".")):
            words = words_of(name)
            if len(words) > 1 and not self._terms.keys().isdisjoint(words):
                return name
        return None

    def _having(self, names: Iterable[str]) -> dict[str, int]:
        """How many files have each of some identifiers of several words."""
        terms = {name: term_of(words_of(name)[-1]) for name in names}
        found = self._postings.find(FILES, terms.values())
        return {name: _count_live(self._files, found[term][0]) for name, term in terms.items()}

    # -- frames

    def folders(self) -> list[str]:
        """The folders whose own name has a word of the question."""
        return sorted(
            path
            for path in self._named
            if (entry := self._tree.get(path)) is not None and entry.kind is Kind.DIRECTORY
        )

    @cached_property
    def _bodies(self) -> dict[int, Found]:
        return self._postings.find(BODIES, self._terms.values())

    def bodies_found(self) -> set[int]:
        """The numbers of all bodies that have a word of the question, dead ones included."""
        return {number for numbers, _ in self._bodies.values() for number in numbers}

    def bodies(self, numbers: Iterable[int]) -> dict[int, int]:
        """What the question is worth in some bodies, by number."""
        wanted = frozenset(numbers)
        if not wanted:
            return {}
        worth: dict[int, int] = {}
        words: dict[int, int] = {}
        found = self._bodies
        for word, term in self._terms.items():
            weight = self._weights[word]
            for number, gain in zip(*found[term], strict=True):
                if number in wanted:
                    worth[number] = worth.get(number, 0) + weight * gain
                    words[number] = words.get(number, 0) + weight
        return {
            number: covered(made, words[number], self._total, ALONE)
            for number, made in worth.items()
        }

    def frame(self, row: Candidate, hit: FileHit | None, own: int) -> dict[str, int]:
        """What the score of a frame is made of."""
        if row.agent in REPEATING_AGENTS:
            if hit is not None:
                return {"file": hit.worth}
            return {"path": pulled(self._path_worth(row.path), row.path, self._anchors)}
        percent = percent_of(role_of(row.path), self._question)
        made = BEST_UNIT * own // 10 + (self._path_worth(row.path) if hit is None else 0)
        return {
            "own": pulled(made * percent // 100, row.path, self._anchors),
            "file": hit.worth // 2 if hit is not None else 0,
        }

    def _path_worth(self, path: str) -> int:
        """What a folder's names are worth: its files come before it."""
        names = self._gains.of(path)
        words = sum(self._weights[word] for word in names.words)
        return covered(names.worth, words, self._total, ALONE) * FOLDER_PERCENT // 100


def _as_spelled(question: Question, postings: PostingStore, code: CodeStore) -> Question:
    """The question with identifiers that no file has as one is spelled that differs by a letter."""
    wholes = {name: term_of(words[-1]) for name in question.names if (words := words_of(name))}
    found = postings.find(FILES, wholes.values())
    unknown = [name for name, term in sorted(wholes.items()) if not found[term][0]]
    spelled = {name: near for name in unknown if (near := code.nearest(name))}
    return corrected(question, spelled) if spelled else question


def _least(pool: int, weighed: Mapping[int, int]) -> int:
    """What a number has to be worth to be among the best."""
    best = nlargest(pool, weighed.values())
    return best[-1] if len(best) == pool else 0


def _order(hit: FileHit) -> tuple[int, str]:
    return -hit.worth, hit.path


def _count_live(files: FilesSeen, numbers: Sequence[int]) -> int:
    """How many of some numbers, in their order, a file has."""
    live = files.live
    known = bisect_left(numbers, len(live))
    if files.count == len(live):
        return known
    return sum(map(live.__getitem__, islice(numbers, known)))
