"""Postings: which bodies have a term, and how often.

Bodies are indexed in the order of their numbers: a few with the batch that stores them, many
afterwards, when a question or an idle service needs them. Those that are indexed together add one
row per term: the numbers of the bodies that have it, as 32-bit little-endian integers, and for
each a byte that says how often. There is no index over the terms: a scan of them takes
milliseconds, and an index would cost every batch.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from indexer.core.frames import BodyHash
from indexer.core.terms import MAX_COUNT, count_terms
from indexer.store.database import Database, append_rows

Found: TypeAlias = "tuple[array[int], bytearray]"
"""Numbers of bodies, and how often each has the term."""

PostingRow: TypeAlias = tuple[int, bytes, bytes]
"""A term, and the numbers and counts of the bodies that have it, packed."""

AT_ONCE: Final = 100
"""Bodies up to which a batch is indexed as it is stored, unless others wait before it."""

TOGETHER: Final = 1000
"""Bodies that are indexed in one transaction afterwards."""

TO_BE_FOLDED: Final = "to_be_folded"
"""What the meta table says while postings of dropped bodies may be left."""

PARTS: Final = 16
"""Into how many parts postings are divided where all of them are gone through."""


class Indexed(NamedTuple):
    """Bodies as they are stored: each with a number, and with a length and postings or not yet."""

    numbers: dict[BodyHash, int]
    lengths: dict[BodyHash, int]
    rows: list[PostingRow]


def number_bodies(bodies: Iterable[BodyHash], first: int) -> Indexed:
    """Number bodies from `first` on, and leave their terms for later."""
    return Indexed({content: number for number, content in enumerate(bodies, first)}, {}, [])


def index_bodies(bodies: Mapping[BodyHash, str], first: int) -> Indexed:
    """Number bodies from `first` on and collect their terms."""
    lengths, rows = _postings(enumerate(bodies.values(), first))
    numbers = {content: number for number, content in enumerate(bodies, first)}
    return Indexed(numbers, {one: lengths[number] for one, number in numbers.items()}, rows)


def _postings(texts: Iterable[tuple[int, str]]) -> tuple[dict[int, int], list[PostingRow]]:
    """The lengths of numbered texts, and one row per term."""
    lengths: dict[int, int] = {}
    terms: dict[int, Found] = {}
    for number, text in texts:
        counts = count_terms(text)
        lengths[number] = sum(counts.values())
        _collect(terms, number, counts)
    return lengths, _rows(terms)


def _nothing() -> Found:
    return array("I"), bytearray()


def _collect(terms: dict[int, Found], number: int, counts: Mapping[int, int]) -> None:
    for term, count in counts.items():
        found = terms.get(term)
        if found is None:
            found = terms[term] = _nothing()
        found[0].append(number)
        found[1].append(count if count < MAX_COUNT else MAX_COUNT)


def _rows(terms: Mapping[int, Found]) -> list[PostingRow]:
    return [(term, _encoded(numbers), bytes(counts)) for term, (numbers, counts) in terms.items()]


def _encoded(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("I", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _decoded(numbers: bytes) -> array[int]:
    made = array("I", numbers)
    if sys.byteorder == "big":
        made.byteswap()
    return made


def _first(row: PostingRow) -> int:
    return int.from_bytes(row[1][:4], "little")


class PostingStore:
    """Reads postings, makes those that are left for later, and folds them together."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, terms: Iterable[int]) -> dict[int, Found]:
        """The bodies that have each of some terms by number, dead ones included."""
        wanted = list(dict.fromkeys(terms))
        found: dict[int, Found] = {term: _nothing() for term in wanted}
        if wanted:
            rows = self._database.rows(
                "SELECT term, bodies, counts FROM postings"
                " WHERE term IN (SELECT unnest(?::UINTEGER[]))",
                [wanted],
            )
            # Rows come in no promised order; the numbers of one batch are all above another's.
            for term, numbers, counts in sorted(rows, key=_first):
                found[term][0].extend(_decoded(numbers))
                found[term][1].extend(counts)
        return found

    def of_bodies(self, wanted: Sequence[int]) -> dict[int, dict[int, int]]:
        """Every term of some bodies with its count, from a pass over all postings."""
        terms: dict[int, dict[int, int]] = {number: {} for number in wanted}
        for part in range(PARTS):
            for term, numbers, counts in self._part(part):
                for number, count in zip(_decoded(numbers), counts, strict=True):
                    if number in terms:
                        terms[number][term] = terms[number].get(term, 0) + count
        return terms

    def _part(self, part: int) -> list[PostingRow]:
        """A share of all postings; they are too many to hold at once."""
        rows = self._database.rows(
            "SELECT term, bodies, counts FROM postings WHERE term % ? = ?", [PARTS, part]
        )
        return [(term, numbers, counts) for term, numbers, counts in rows]

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
        lengths, postings = _postings((row[0], row[1]) for row in rows)
        if lengths:
            with self._database.transaction() as connection:
                append_rows(connection, "postings", postings)
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
        rows, terms = self._database.rows("SELECT count(*), count(DISTINCT term) FROM postings")[0]
        return bool(rows > 2 * terms)

    def note_folded(self) -> None:
        """Record that every part has been folded."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM meta WHERE key = ?", [TO_BE_FOLDED])

    def fold(self, part: int) -> None:
        """Put a part's postings of each term into one row, without those of dropped bodies.

        Each part is a transaction of its own: what is not folded yet is as right as what is.
        """
        kept = {
            row[0]
            for row in self._database.rows("SELECT number FROM bodies WHERE content IS NOT NULL")
        }
        terms: dict[int, Found] = {}
        for term, numbers, counts in sorted(self._part(part), key=_first):
            found = terms.setdefault(term, _nothing())
            for number, count in zip(_decoded(numbers), counts, strict=True):
                if number in kept:
                    found[0].append(number)
                    found[1].append(count)
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM postings WHERE term % ? = ?", [PARTS, part])
            append_rows(connection, "postings", [row for row in _rows(terms) if row[1]])
