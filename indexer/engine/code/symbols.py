"""The symbols of one file: which it has, and which of them a name means."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.code import CodeSymbol, FactsKey
from indexer.core.frames import ON_SYMBOL
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.engine.make.workers import read_content
from indexer.errors import UsageError
from indexer.generators.base import FileInput
from indexer.generators.facts import MAX_SYMBOL, facts_key, facts_of
from indexer.generators.lines import shown
from indexer.generators.parsed import parse

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

_REMEMBERED: Final = 512
"""Files whose symbols are kept in memory, those that were asked for last."""


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


def found_among(listed: Sequence[CodeSymbol], path: str, wanted: str) -> list[CodeSymbol]:
    """The symbols of a file that a name fits: its whole name, or otherwise the end of it."""
    name = wanted.replace("::", ".").replace("#", ".")
    fitting = [one for one in listed if one.symbol in (wanted, name)] or [
        one for one in listed if one.symbol.endswith((f".{name}", f"> {name}"))
    ]
    if not fitting:
        raise UnknownSymbolError(
            f"{paths.on_screen(path)} has no symbol {paths.on_screen(wanted)!r}",
            hint=f"`merkle get-node {paths.on_screen(path)}` shows its outline",
        )
    return fitting


def is_symbol_name(text: str) -> bool:
    """Whether a symbol of some file can be called that; masking may have made it longer."""
    is_line = text.splitlines() == [text] and shown(text.encode()) == text
    return is_line and len(text) <= 2 * MAX_SYMBOL


class FileSymbols:
    """What symbols a file of a tree has: as its facts say, or as the file itself does.

    A file that changed a moment ago has no facts yet, and is read: so a note about one of its
    symbols can be judged at once, for the price of that file.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._lock = threading.Lock()
        self._known: dict[FactsKey, tuple[CodeSymbol, ...]] = {}

    def of(self, path: str, entry: Entry) -> tuple[CodeSymbol, ...] | None:
        """The symbols in order of the source; None where nobody can tell any more."""
        if entry.kind is not Kind.FILE:
            return ()
        key = facts_key(path, entry.content_id)
        with self._lock:
            found = self._known.pop(key, None)
        if found is None:
            found = self._frames.code.symbols(key)
        if found is None:
            found = self._read(path, entry)
        if found is not None:
            with self._lock:
                self._known[key] = found
                while len(self._known) > _REMEMBERED:
                    del self._known[next(iter(self._known))]
        return found

    def _read(self, path: str, entry: Entry) -> tuple[CodeSymbol, ...] | None:
        """From the file, if it still is what the tree says."""
        if entry.size > self._frames.declared.settings.size_limit:
            return None
        try:
            content = read_content(self._frames.root, path, entry.size)
        except OSError:
            return None
        if content is None or self._frames.algorithm.of_file(content) != entry.content_id:
            return None
        return facts_of(parse(FileInput(paths.split(path)[1], content))).symbols

    def named(self, path: str, entry: Entry, symbol: str) -> list[CodeSymbol] | None:
        """Those of one qualified name: several where it is overloaded or declared again."""
        listed = self.of(path, entry)
        return None if listed is None else [one for one in listed if one.symbol == symbol]
