"""Facts about code: what each content says of itself, under a number of its own.

Facts are kept by content and by the ending of the name that decides the language, so a file that
is renamed, comes back or stands in several places has them already. They can be made again from
the files, so no journal holds them. Rows are only added: those of a later number count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from indexer.core.code import CodeFacts, CodeSymbol, FactsKey, pack_spans
from indexer.core.ids import ContentId
from indexer.store.database import Database, Row, among, append_rows, put_meta
from indexer.store.driver import duckdb

_SYMBOL: Final = (
    "kind, name, symbol, signature, doc, line, end_line, first_byte, last_byte, sha256, parent"
)

_FACTS: Final = "SELECT content_id, ending, number, language, print FROM code_facts"
_COMPLETE: Final = "facts_complete "
"""What the key in the meta table begins with that `note_complete` sets."""

_LEAST_GUESSED: Final = 6
"""Letters of a name that may be misspelled; a shorter one is too near to others."""
_MOST_GUESSED: Final = 3
"""Names that are offered instead of one."""


class KnownFacts(NamedTuple):
    """Facts that are stored, without their symbols."""

    content_id: ContentId
    ending: str
    number: int
    language: str
    print: int
    """As in `CodeFacts`."""


class FoundSymbol(NamedTuple):
    """A symbol, and under what the facts are known that it belongs to."""

    key: FactsKey
    number: int
    place: int
    symbol: CodeSymbol


class Signature(NamedTuple):
    """What an outline says of a symbol, and where that begins."""

    kind: str
    signature: str
    doc: str
    line: int


class CodeStore:
    """Reads and writes the facts of one workspace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def next_number(self) -> int:
        """The number that the next facts get."""
        rows = self._database.rows("SELECT coalesce(max(number) + 1, 0) FROM code_facts")
        return int(rows[0][0])

    def known(self) -> Iterator[KnownFacts]:
        """All facts, oldest first."""
        return map(KnownFacts._make, self._database.stream(f"{_FACTS} ORDER BY number"))

    def known_among(self, keys: Iterable[FactsKey]) -> list[KnownFacts]:
        """All facts of some contents, whatever they are called, oldest first."""
        contents = [content_id for content_id, _ in keys]
        if not contents:
            return []
        chosen, given = among("BLOB", contents)
        rows = self._database.rows(f"{_FACTS} WHERE content_id {chosen} ORDER BY number", given)
        return list(map(KnownFacts._make, rows))

    def complete_at(self, by: str, root: ContentId) -> int | None:
        """The number of the last root at which no file lacked its facts; None where nobody knows.

        `root` has to be the newest; `by` stands for all that decides which facts files have.
        """
        rows = self._database.rows(
            "SELECT value, (SELECT max(number) FROM code_facts) FROM meta WHERE key = ? AND ? ="
            " (SELECT arg_max(content_id, seq) FROM root_log)",
            [_COMPLETE + by, root],
        )
        if not rows or rows[0][1] is None:
            return None
        seq, facts = map(int, rows[0][0].split())
        return seq if facts <= rows[0][1] else None

    def touched_since(self, seq: int) -> list[str]:
        """The files and folders that came or changed after a root, and are there."""
        rows = self._database.rows(
            "SELECT path FROM node_log WHERE seq > ? GROUP BY path HAVING arg_max(kind, seq) <> 0",
            [seq],
        )
        return [path for (path,) in rows]

    def note_complete(self, by: str, root: ContentId) -> None:
        """Note that no file of the newest root lacks its facts, if that is this one."""
        with self._database.transaction() as connection:
            newest = connection.execute(
                "SELECT max(seq), arg_max(content_id, seq), (SELECT max(number) FROM code_facts)"
                " FROM root_log"
            ).fetchone()
            if newest is not None and newest[1] == root and newest[2] is not None:
                connection.execute("DELETE FROM meta WHERE starts_with(key, ?)", [_COMPLETE])
                put_meta(connection, _COMPLETE + by, f"{newest[0]} {newest[2]}")

    def symbols(self, numbers: Iterable[int]) -> dict[int, tuple[CodeSymbol, ...]]:
        """The symbols of some facts, in order of the source."""
        wanted = list(dict.fromkeys(numbers))
        if not wanted:
            return {}
        found: dict[int, list[CodeSymbol]] = {number: [] for number in wanted}
        chosen, given = among("UINTEGER", wanted)
        for row in self._database.rows(
            f"SELECT number, {_SYMBOL} FROM code_symbols WHERE number {chosen}"
            " ORDER BY number, place",
            given,
        ):
            found[row[0]].append(CodeSymbol._make(row[1:]))
        return {number: tuple(symbols) for number, symbols in found.items()}

    def signatures(self, numbers: Iterable[int]) -> dict[int, list[Signature]]:
        """What outlines say of the symbols of some facts, in order of the source."""
        wanted = list(dict.fromkeys(numbers))
        found: dict[int, list[Signature]] = {number: [] for number in wanted}
        if wanted:
            chosen, given = among("UINTEGER", wanted)
            rows = self._database.rows(
                f"SELECT number, place, kind, signature, doc, line FROM code_symbols"
                f" WHERE number {chosen}",
                given,
            )
            # A quarter less for a question about one file than where the database orders them.
            for number, _, *said in sorted(rows):
                found[number].append(Signature._make(said))
        return found

    def spans(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """The spans of the symbols of some facts, packed for `unpack_spans`."""
        wanted = list(dict.fromkeys(numbers))
        if not wanted:
            return {}
        chosen, given = among("UINTEGER", wanted)
        rows = self._database.rows(
            f"SELECT number, spans FROM code_facts WHERE number {chosen}", given
        )
        found: dict[int, bytes] = dict.fromkeys(wanted, b"") | dict(rows)
        # Facts of before there were spans have the rows of their symbols alone.
        before = [number for number, packed in found.items() if packed is None]
        for number, symbols in self.symbols(before).items():
            found[number] = pack_spans(symbols)
        return found

    def declared(
        self, wanted: Iterable[tuple[int, str]]
    ) -> dict[tuple[int, str], list[tuple[bytes, int]]]:
        """For numbers of facts and qualified names, the hash and line of each declaration."""
        pairs = list(wanted)
        found: dict[tuple[int, str], list[tuple[bytes, int]]] = {}
        for number, symbol, sha256, line in self._database.rows(
            "SELECT s.number, s.symbol, s.sha256, s.line FROM code_symbols s"
            " JOIN (SELECT DISTINCT unnest(?::UINTEGER[]) AS number,"
            " unnest(?::VARCHAR[]) AS symbol) w ON w.number = s.number AND w.symbol = s.symbol"
            " ORDER BY s.number, s.place",
            [[number for number, _ in pairs], [symbol for _, symbol in pairs]],
        ):
            found.setdefault((number, symbol), []).append((sha256, line))
        return found

    def declaring(self, names: Sequence[str]) -> list[tuple[int, str]]:
        """The facts that have a symbol of one of some names, and which name that is."""
        if not names:
            return []
        rows = self._database.rows(
            "SELECT DISTINCT number, name FROM code_symbols WHERE name IN (SELECT unnest(?))"
            " ORDER BY number, name",
            [list(names)],
        )
        return [(row[0], row[1]) for row in rows]

    def nearest(self, name: str) -> list[str]:
        """The names that symbols have and that differ from one by a letter; few, in order."""
        if len(name) < _LEAST_GUESSED:
            return []
        rows = self._database.rows(
            "SELECT DISTINCT name FROM code_symbols WHERE length(name) BETWEEN ? AND ?"
            " AND damerau_levenshtein(lower(name), ?) = 1 ORDER BY name LIMIT ?",
            [len(name) - 1, len(name) + 1, name.lower(), _MOST_GUESSED],
        )
        return [row[0] for row in rows]

    def named(self, names: Iterable[str]) -> list[FoundSymbol]:
        """The symbols that have one of some names, those of contents that are gone included."""
        return self._found("s.name IN (SELECT unnest(?::VARCHAR[]))", [list(names)])

    def matching(
        self, pattern: str, kind: str | None = None, numbers: Sequence[int] | None = None
    ) -> list[FoundSymbol]:
        """The symbols whose name a pattern fits: with `*`, `?` and `[`, or as a part of it.

        With `numbers`, only those of some facts.
        """
        where, values = "contains(lower(s.symbol), lower(?))", list[object]([pattern])
        if any(char in pattern for char in "*?["):
            where, values = "(s.symbol GLOB ? OR s.name GLOB ?)", [pattern, pattern]
        if kind is not None:
            where, values = f"{where} AND s.kind = ?", [*values, kind]
        if numbers is not None:
            where += " AND s.number IN (SELECT unnest(?::UINTEGER[]))"
            values = [*values, list(numbers)]
        return self._found(where, values)

    def _found(self, where: str, values: Sequence[object]) -> list[FoundSymbol]:
        columns = ", ".join(f"s.{column}" for column in _SYMBOL.split(", "))
        rows = self._database.rows(
            f"SELECT f.content_id, f.ending, f.number, s.place, {columns}"
            f" FROM code_symbols s JOIN code_facts f ON f.number = s.number WHERE {where}"
            " ORDER BY f.number, s.place",
            values,
        )
        return [
            FoundSymbol((row[0], row[1]), row[2], row[3], CodeSymbol._make(row[4:])) for row in rows
        ]

    def facts(self, numbers: Iterable[int]) -> list[KnownFacts]:
        """Some facts by their numbers, oldest first."""
        rows = self._database.rows(
            f"{_FACTS} WHERE number IN (SELECT unnest(?::UINTEGER[])) ORDER BY number",
            [list(dict.fromkeys(numbers))],
        )
        return list(map(KnownFacts._make, rows))

    def uses(self, numbers: Iterable[int], version: int) -> dict[int, bytes]:
        """The references and imports of some facts, packed, as far as they are stored."""
        rows = self._database.rows(
            "SELECT number, uses FROM code_uses"
            " WHERE number IN (SELECT unnest(?::UINTEGER[])) AND version = ?",
            [list(dict.fromkeys(numbers)), version],
        )
        return {row[0]: row[1] for row in rows}

    def add_uses(self, uses: Mapping[int, bytes], version: int) -> None:
        """Store the references and imports of some facts; the same ones twice do no harm."""
        with self._database.transaction() as connection:
            rows = [(number, version, packed) for number, packed in uses.items()]
            append_rows(connection, "code_uses", rows)


def write_facts(
    connection: duckdb.DuckDBPyConnection,
    facts: Mapping[FactsKey, CodeFacts],
    numbers: Mapping[FactsKey, int],
) -> None:
    """Add facts inside the running transaction."""
    append_rows(
        connection,
        "code_facts",
        [
            (numbers[key], *key, one.language, one.print, pack_spans(one.symbols))
            for key, one in facts.items()
        ],
    )
    append_rows(connection, "code_symbols", list(_symbol_rows(facts, numbers)))


def _symbol_rows(
    facts: Mapping[FactsKey, CodeFacts], numbers: Mapping[FactsKey, int]
) -> Iterator[Row]:
    for key, one in facts.items():
        number = numbers[key]
        for place, symbol in enumerate(one.symbols):
            yield (number, place, *symbol)
