"""Postings: which files and which bodies have a term, and what that is worth in each.

Files are known by the numbers of their facts, bodies by their own. What is stored together adds
one row per term: the numbers as 32-bit little-endian integers, and for each a byte that says what
the term is worth there. There is no index over the terms: a scan of them takes milliseconds, and an
index would cost every batch.

Files' terms come with the facts from the processes that have read them. Bodies are indexed in the
order of their numbers: a few with the batch that stores them, many afterwards, when a question or
an idle service needs them. What only repeats words of a file has none of its own.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias

from indexer.core.frames import BodyHash
from indexer.core.postings import OF_UNIT, TextTerms, text_terms
from indexer.core.terms import count_terms
from indexer.store.database import Database, append_rows

FILES: Final = 0
BODIES: Final = 1
"""What the numbers of a row stand for."""

Found: TypeAlias = "tuple[array[int], bytearray]"
"""Numbers of files or bodies in their order, and what the term is worth in each."""

PostingRow: TypeAlias = tuple[int, int, bytes, bytes]
"""A term, what is counted, and the numbers and gains of those that have it, packed."""

AT_ONCE: Final = 100
"""Bodies up to which a batch is indexed as it is stored, unless others wait before it."""

TOGETHER: Final = 1000
"""Bodies that are indexed in one transaction afterwards."""

TO_BE_FOLDED: Final = "to_be_folded"
"""What the meta table says while postings of dropped bodies may be left."""

PARTS: Final = 16
"""Into how many parts postings are divided where all of them are folded."""

KEPT: Final = 1 << 20
"""About so many bytes of what was found are kept: questions have words in common."""

_MANY: Final = 3
"""Terms from which on it takes less to look for them together."""

_AROUND: Final = 400
"""Bytes that a term takes whose postings are kept, besides them."""

HELD: Final = 1_000_000
"""About so many postings are held in memory at once where all of them are read."""


_BYTES: Final = [bytes((value,)) for value in range(256)]


def nothing() -> Found:
    """No file and no body."""
    return array("I"), bytearray()


def _packed(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("I", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(packed: bytes) -> array[int]:
    made = array("I", packed)
    if sys.byteorder == "big":
        made.byteswap()
    return made


class Indexed(NamedTuple):
    """Bodies as they are stored: each with a number, and with a length and postings or not yet."""

    numbers: dict[BodyHash, int]
    lengths: dict[BodyHash, int]
    rows: list[PostingRow]


def number_bodies(bodies: Iterable[BodyHash], first: int, repeats: Collection[BodyHash]) -> Indexed:
    """Number bodies from `first` on, and leave their terms for later; repeats have none."""
    numbers = {content: number for number, content in enumerate(bodies, first)}
    return Indexed(numbers, {content: 0 for content in numbers if content in repeats}, [])


def index_bodies(
    bodies: Mapping[BodyHash, str], first: int, repeats: Collection[BodyHash]
) -> Indexed:
    """Number bodies from `first` on and collect the terms of those that are no repeats."""
    numbers = {content: number for number, content in enumerate(bodies, first)}
    made = {
        content: text_terms(count_terms(text), OF_UNIT)
        for content, text in bodies.items()
        if content not in repeats
    }
    lengths = {content: made[content].length if content in made else 0 for content in numbers}
    return Indexed(
        numbers, lengths, posting_rows(BODIES, ((numbers[one], made[one]) for one in made))
    )


def posting_rows(space: int, texts: Iterable[tuple[int, TextTerms]]) -> list[PostingRow]:
    """One row per term of some texts, whose numbers must rise."""
    numbers: defaultdict[int, bytes] = defaultdict(bytes)
    gains: defaultdict[int, bytes] = defaultdict(bytes)
    for number, text in texts:
        packed = number.to_bytes(4, "little")
        for term, gain in zip(text.terms, map(_BYTES.__getitem__, text.gains), strict=True):
            # Most terms stand in few texts of a batch, so that adding to bytes takes least.
            numbers[term] += packed
            gains[term] += gain
    return list(zip(numbers, repeat(space), numbers.values(), gains.values(), strict=False))


def _rows(space: int, terms: Mapping[int, Found]) -> list[PostingRow]:
    return [(term, space, _packed(found[0]), bytes(found[1])) for term, found in terms.items()]


def _first(row: PostingRow) -> int:
    return int.from_bytes(row[2][:4], "little")


class PostingStore:
    """Reads postings, makes those that are left for later, and folds them together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, int], Found] = {}
        """What was found last, the last of all at the end; nobody changes it."""
        self._size = 0
        self._writes = 0
        """How much had been written when that was found."""

    def find(self, space: int, terms: Iterable[int]) -> dict[int, Found]:
        """Who has each term, dropped files and bodies included; what this gives is not changed."""
        wanted = list(dict.fromkeys(terms))
        # Before it is read: what is written meanwhile makes it old.
        writes = self._database.writes
        with self._lock:
            if writes != self._writes:
                self._forget()
            known = {term: self._kept.get((space, term)) for term in wanted}
        read = self._read(space, [term for term, one in known.items() if one is None])
        found = {term: read[term] if one is None else one for term, one in known.items()}
        with self._lock:
            if writes == self._writes:
                self._keep(space, found)
        return found

    def _forget(self) -> None:
        self._kept, self._size, self._writes = {}, 0, self._database.writes

    def _keep(self, space: int, found: Mapping[int, Found]) -> None:
        for term, one in found.items():
            if self._kept.pop((space, term), None) is None:
                self._size += _size(one)
            self._kept[space, term] = one
        while self._size > KEPT:
            self._size -= _size(self._kept.pop(next(iter(self._kept))))

    def _read(self, space: int, wanted: Sequence[int]) -> dict[int, Found]:
        found = {term: nothing() for term in wanted}
        if wanted:
            each = "SELECT term, space, numbers, gains FROM postings WHERE space = ? AND term"
            if len(wanted) < _MANY:
                # One part for each: the scan compares with one value as it reads, and then takes
                # only the rows that have it out of the other columns.
                question = " UNION ALL ".join(f"{each} = ?" for _ in wanted)
                rows = self._database.rows(
                    question, [one for term in wanted for one in (space, term)]
                )
            else:
                # As a list that is given, the scan knows the terms when it begins; one that is
                # written out is compared with the rows afterwards.
                rows = self._database.rows(
                    f"{each} IN (SELECT unnest(?::UINTEGER[]))", [space, wanted]
                )
            # Rows come in no promised order; the numbers of one batch are all above another's.
            for row in sorted(rows, key=_first):
                _extend(found[row[0]], row)
        return found

    def terms_of(self, space: int, wanted: Sequence[int]) -> dict[int, dict[int, int]]:
        """What every term of some files or bodies is worth there, from a pass over all postings."""
        terms: dict[int, dict[int, int]] = {number: {} for number in wanted}
        there = self._database.rows(
            "SELECT sum(octet_length(gains)) FROM postings WHERE space = ?", [space]
        )
        # Few of them are one question: each costs as much as a thousand rows.
        parts = 1 + (there[0][0] or 0) // HELD
        for part in range(parts):
            for row in self._part(part, parts, space):
                numbers = _unpacked(row[2])
                if terms.keys().isdisjoint(numbers):
                    continue
                for number, gain in zip(numbers, row[3], strict=True):
                    if number in terms:
                        terms[number][row[0]] = gain
        return terms

    def _part(self, part: int, parts: int, space: int) -> list[PostingRow]:
        """One part of all postings of a space; all are too many to hold at once."""
        rows = self._database.rows(
            "SELECT term, space, numbers, gains FROM postings WHERE term % ? = ? AND space = ?",
            [parts, part, space],
        )
        return [(term, which, numbers, gains) for term, which, numbers, gains in rows]

    def first_left(self) -> int | None:
        """The number of the first body that has no postings yet; none after it has."""
        rows = self._database.rows(
            "SELECT min(number) FROM bodies WHERE length IS NULL AND content IS NOT NULL"
        )
        return None if rows[0][0] is None else int(rows[0][0])

    def index_next(self) -> dict[int, int]:
        """Index the next bodies in one transaction; their lengths by number."""
        rows = self._database.rows(
            "SELECT number, content FROM bodies"
            " WHERE length IS NULL AND content IS NOT NULL ORDER BY number LIMIT ?",
            [TOGETHER],
        )
        made = {row[0]: text_terms(count_terms(row[1]), OF_UNIT) for row in rows}
        lengths = {number: one.length for number, one in made.items()}
        if lengths:
            with self._database.transaction() as connection:
                append_rows(connection, "postings", posting_rows(BODIES, made.items()))
                connection.execute(
                    "UPDATE bodies SET length = made.length FROM"
                    " (SELECT unnest(?::UINTEGER[]) AS number, unnest(?::UINTEGER[]) AS length)"
                    " AS made WHERE bodies.number = made.number",
                    [list(lengths), list(lengths.values())],
                )
        return lengths

    def are_to_be_folded(self) -> bool:
        """Whether bodies were dropped since everything was last folded, or terms have many rows."""
        if self._database.rows("SELECT 1 FROM meta WHERE key = ? LIMIT 1", [TO_BE_FOLDED]):
            return True
        rows, terms = self._database.rows(
            "SELECT count(*), count(DISTINCT (term, space)) FROM postings"
        )[0]
        return bool(rows > 2 * terms)

    def note_folded(self) -> None:
        """Record that every part has been folded."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM meta WHERE key = ?", [TO_BE_FOLDED])

    def fold(self, part: int) -> None:
        """Put a part's postings of each term into one row, without those of what was dropped.

        Each part is a transaction of its own: what is not folded yet is as right as what is.
        """
        folded: list[PostingRow] = []
        for space, numbers in (
            (FILES, "SELECT number FROM code_facts"),
            (BODIES, "SELECT number FROM bodies WHERE content IS NOT NULL"),
        ):
            kept = {row[0] for row in self._database.rows(numbers)}
            terms: dict[int, Found] = {}
            for row in sorted(self._part(part, PARTS, space), key=_first):
                found = terms.setdefault(row[0], nothing())
                for number, gain in zip(_unpacked(row[2]), row[3], strict=True):
                    if number in kept:
                        found[0].append(number)
                        found[1].append(gain)
            folded += _rows(space, {term: found for term, found in terms.items() if found[0]})
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM postings WHERE term % ? = ?", [PARTS, part])
            append_rows(connection, "postings", folded)


def _extend(found: Found, row: PostingRow) -> None:
    found[0].extend(_unpacked(row[2]))
    found[1].extend(row[3])


def _size(found: Found) -> int:
    """How many bytes it takes to keep what was found, roughly."""
    return _AROUND + 5 * len(found[1])
