"""Symbols, definitions and uses, as the index has them, at places in texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from indexer.lsp.notes import UNKNOWN_NODE, Known, read_text
from indexer.lsp.texts import LineMap, Place, find_name, text_lines, whole_line, word_at
from indexer.service.client import RemoteError
from indexer.service.workspace import Workspace

MOST: Final = 5000
"""How many symbols of one file are asked for."""

_SURE: Final = "unique"
"""A use that is less sure is only of the same name, and would lead astray."""

_NOTHING: Final = frozenset((UNKNOWN_NODE, "unknown_symbol"))
"""Codes of errors that say that there is nothing to list."""


class Symbol(NamedTuple):
    """A symbol of the saved file; lines from 0."""

    path: str
    symbol: str
    kind: str
    signature: str
    line: int
    end_line: int

    @property
    def name(self) -> str:
        """The last part of what it is called."""
        return self.symbol.rpartition(" > ")[2].rpartition(".")[2]

    @property
    def node(self) -> str:
        """What it is called in the workspace."""
        return f"path:{self.path}::{self.symbol}"


def symbols_of(workspace: Workspace, path: str) -> list[Symbol]:
    """The symbols of a file, in order of its lines."""
    found = _asked(lambda: workspace.symbols("*", within=f"path:{path}", limit=MOST))
    listed = [_symbol(one) for one in found]
    return sorted(listed, key=lambda one: (one.line, -one.end_line))


def symbols_like(workspace: Workspace, query: str, limit: int) -> list[Symbol]:
    """The symbols of the workspace whose names have a text in them."""
    return [_symbol(one) for one in _asked(lambda: workspace.symbols(query or "*", limit=limit))]


def symbol_at(
    workspace: Workspace, known: Known, line: int, column: int, symbols: list[Symbol] | None = None
) -> list[Symbol]:
    """What the name at a place of the buffer means: what is declared there, or what it leads to."""
    text = known.buffer[line] if line < len(known.buffer) else ""
    name = word_at(text, column)
    if not name:
        return []
    saved = known.lines.to_old(line)
    for one in symbols_of(workspace, known.path) if symbols is None else symbols:
        if one.name == name and declared_at(known.saved, one).line == saved:
            return [one]
    at = f"path:{known.path}:{saved + 1}"
    found = _asked(lambda: workspace.definition(name, at=at))
    sure = [one for one in found if one["sure"] != "name"]
    return [_symbol(one) for one in sure or found[:1]]


def enclosing(symbols: list[Symbol], line: int) -> Symbol | None:
    """The smallest symbol that a line of the saved file stands in."""
    around = [one for one in symbols if one.line <= line <= one.end_line]
    return min(around, default=None, key=lambda one: one.end_line - one.line)


def declared_at(lines: list[str], symbol: Symbol) -> Place:
    """Where its name stands."""
    return find_name(lines, symbol.line, symbol.end_line, symbol.name)


class Texts:
    """Files as they are on disk, each read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[str, list[str]] = {}

    def of(self, path: str) -> list[str]:
        """A file's lines."""
        if path not in self._lines:
            self._lines[path] = text_lines(read_text(self._root, path))
        return self._lines[path]


class Use(NamedTuple):
    """A place in a file of the workspace, as it is on disk."""

    path: str
    place: Place


def uses_of(workspace: Workspace, symbol: Symbol, texts: Texts) -> list[Use]:
    """Where a symbol is used."""
    found = []
    for edge in _asked(lambda: workspace.references(symbol.node, sure=_SURE), "edges"):
        lines = texts.of(edge["path"])
        found.append(
            Use(edge["path"], find_name(lines, edge["line"] - 1, edge["line"] - 1, symbol.name))
        )
    return list(dict.fromkeys(found))


def in_buffer(lines: LineMap, buffer: list[str], place: Place) -> Place:
    """A place of the saved file in the editor's text; what changed there is the whole line."""
    if lines.is_same:
        return place
    line = lines.to_new(place.line)
    kept = lines.to_old(line) == place.line and place.end <= len(buffer[line] if buffer else "")
    return Place(line, place.start, place.end) if kept else whole_line(buffer, line)


def _asked(ask: Any, listed: str = "symbols") -> list[Any]:
    """What a question lists; nothing where it is about what the index does not have."""
    try:
        found: Mapping[str, Any] = ask()
    except RemoteError as error:
        if error.code in _NOTHING:
            return []
        raise
    return list(found[listed])


def _symbol(one: Mapping[str, Any]) -> Symbol:
    return Symbol(
        one["path"], one["symbol"], one["kind"], one["signature"], one["line"] - 1,
        one["end_line"] - 1,
    )  # fmt: skip
