"""The symbols of one file: which it has, and which of them a name means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.code import CodeSymbol, FactsKey
from indexer.core.frames import ON_SYMBOL
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.errors import UsageError
from indexer.generators.base import FileInput
from indexer.generators.facts import MAX_SYMBOL, facts_key, facts_of
from indexer.generators.lines import shown
from indexer.generators.parsed import parse
from indexer.scan.reading import read_recorded

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

_REMEMBERED: Final = 100_000
"""Names in files of which it is kept in memory where they are declared."""


class UnknownSymbolError(UsageError):
    """No file defines that name."""

    code = "unknown_symbol"


def split_symbol(tree: Tree, node: str) -> tuple[str, str | None]:
    """A node and a symbol in it; as much as is a path is one, whatever its name has in it."""
    parts = node.split(ON_SYMBOL)
    for end in range(len(parts), 1, -1):
        if tree.get(ON_SYMBOL.join(parts[:end]).removeprefix("path:")) is not None:
            rest = ON_SYMBOL.join(parts[end:]) if end < len(parts) else None
            return ON_SYMBOL.join(parts[:end]), rest
    place, within, symbol = node.partition(ON_SYMBOL)
    return place, symbol if within else None


def symbols_in(path: str, content: bytes) -> tuple[CodeSymbol, ...]:
    """The symbols of a content, found out without asking the index."""
    return facts_of(parse(FileInput(paths.split(path)[1], content))).symbols


def found_among(listed: Sequence[CodeSymbol], path: str, wanted: str) -> list[CodeSymbol]:
    """The symbols of a file that a name fits: its whole name, or otherwise the end of it."""
    name = wanted.replace("::", ".").replace("#", ".")
    fitting = [one for one in listed if one.symbol in (wanted, name)] or [
        one for one in listed if one.symbol.endswith((f".{name}", f"> {name}"))
    ]
    if not fitting:
        raise UnknownSymbolError(
            f"{paths.on_screen(path) or 'the root'} has no symbol {paths.on_screen(wanted)!r}",
            hint=f"`merkle get-node {paths.on_screen(path) or '.'}` shows its outline",
        )
    return fitting


def is_symbol_name(text: str) -> bool:
    """Whether a symbol of some file can be called that; masking may have made it longer."""
    is_line = text.splitlines() == [text] and shown(text.encode()) == text
    return is_line and len(text) <= 2 * MAX_SYMBOL


class Declared(NamedTuple):
    """One declaration of a name in a file."""

    sha256: bytes
    """The hash of its whole text."""
    line: int


class FileSymbols:
    """What symbols a file of a tree has: as its facts say, or as the file itself does.

    A file that changed a moment ago has no facts yet, and is read: so a note about one of its
    symbols can be judged at once, for the price of that file.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._known: dict[tuple[FactsKey, str], tuple[Declared, ...]] = {}
        self._last: tuple[FactsKey, tuple[CodeSymbol, ...]] | None = None
        """The file that was asked for last: several questions about one follow each other."""

    def of(self, path: str, entry: Entry) -> tuple[CodeSymbol, ...] | None:
        """The symbols in order of the source; None where nobody can tell any more."""
        if entry.kind is not Kind.FILE:
            return ()
        key, last = facts_key(path, entry.content_id), self._last
        if last is not None and last[0] == key:
            return last[1]
        found = self._frames.code.symbols(key)
        if found is None:
            found = self._read(path, entry)
        self._last = None if found is None else (key, found)
        return found

    def _read(self, path: str, entry: Entry) -> tuple[CodeSymbol, ...] | None:
        """From the file, if it still is what the tree says."""
        if entry.size > self._frames.declared.settings.size_limit:
            return None
        content = read_recorded(self._frames.root, self._frames.algorithm, path, entry)
        return None if content is None else symbols_in(path, content)

    def named(self, path: str, entry: Entry, symbol: str) -> tuple[Declared, ...] | None:
        """The declarations of a qualified name: several where it is overloaded or said again."""
        key = (facts_key(path, entry.content_id), symbol)
        found = self._known.get(key)
        if found is None:
            listed = self.of(path, entry)
            if listed is None:
                return None
            found = tuple(Declared(s.sha256, s.line) for s in listed if s.symbol == symbol)
            self._remember({key: found})
        return found

    def load(self, wanted: Iterable[tuple[str, Entry, str]]) -> None:
        """Find out in one query what many notes ask for, as far as facts say it."""
        code = self._frames.code
        keys = {
            (facts_key(path, entry.content_id), symbol)
            for path, entry, symbol in wanted
            if entry.kind is Kind.FILE
        }
        missing = {one: code.numbers.get(one[0]) for one in keys if one not in self._known}
        pairs = {one: number for one, number in missing.items() if number is not None}
        if len(pairs) > 1:
            found = code.store.declared((number, symbol) for (_, symbol), number in pairs.items())
            self._remember(
                {
                    one: tuple(starmap(Declared, found.get((number, one[1]), ())))
                    for one, number in pairs.items()
                }
            )

    def _remember(self, found: Mapping[tuple[FactsKey, str], tuple[Declared, ...]]) -> None:
        if len(self._known) + len(found) > _REMEMBERED:
            # Replaced and not emptied: another thread may be reading it.
            self._known = {}
        self._known.update(found)
