"""What is shown of files as they are written: read and hashed at that moment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from indexer.compose.selection import Source, least_of_source
from indexer.core import secrets
from indexer.core.code import SymbolSpan
from indexer.core.hashing import WorkspaceHash
from indexer.core.tree import Tree
from indexer.engine.search.ranking import FileHit
from indexer.generators.fallback import as_text
from indexer.scan.reading import read_recorded

MOST_BYTES: Final = 1 << 20
"""Files above this are not read for a question."""

BYTES_PER_TOKEN: Final = 8
"""A text with more bytes than this for each token that is left is not even counted."""

AS_GOOD: Final = 40
"""Percent of the best symbol's worth that another symbol of the file needs to be shown."""

MOST_SYMBOLS: Final = 5
"""How many symbols of a file are shown at first."""

HEAD_LINES: Final = 6
"""How much of a symbol is shown where not even one fits whole."""

REMEMBERED: Final = 4096
"""Texts that are known to have no secret, by hashes that take half a megabyte."""


class SourceText:
    """The texts of files of one tree, each read once."""

    def __init__(self, root: Path, algorithm: WorkspaceHash, tree: Tree) -> None:
        self._root = root
        self._algorithm = algorithm
        self._tree = tree
        self._texts: dict[str, bytes | None] = {}
        self._lines: dict[str, list[bytes]] = {}
        self._pieces: dict[tuple[str, str | None, int, int], Source] = {}
        self.changed: set[str] = set()
        """Files that are not what the tree says, or cannot be read."""

    def of(self, path: str) -> bytes | None:
        """A file's text as UTF-8; None where it is none, too long or not what is recorded."""
        if path not in self._texts:
            self._texts[path] = self.read(path)
        return self._texts[path]

    def read(self, path: str) -> bytes | None:
        """A file's text as `of` gives it, read now and not kept."""
        entry = self._tree.get(path)
        if entry is None or entry.size > MOST_BYTES:
            return None
        content = read_recorded(self._root, self._algorithm, path, entry)
        if content is None:
            self.changed.add(path)
            return None
        return as_text(content)

    def pieces(
        self, hits: Mapping[str, FileHit], path: str, room: int, again: bool
    ) -> Iterator[Source]:
        """What to show of a file, first things first."""
        if room < least_of_source(path):
            return
        text, entry = self.of(path), self._tree.get(path)
        if text is None or entry is None:
            return
        hit, lines = hits[path], self._lines.get(path)
        if lines is None:
            lines = self._lines[path] = BytesIO(text).readlines()
        if not lines:
            return
        most = room * BYTES_PER_TOKEN
        if len(text) <= most:
            yield self._piece(path, None, 1, len(lines), lines)._replace(is_whole=True)
        symbols = _worth_showing(hit, again)
        for symbol in symbols:
            if symbol.end - symbol.start <= most:
                last = min(symbol.end_line, len(lines))
                yield self._piece(path, symbol.symbol, symbol.line, last, lines)
        # The beginning of the best, which nothing is made of where all of it is shown.
        name, first = (symbols[0].symbol, symbols[0].line) if symbols else (None, 1)
        end = symbols[0].end_line if symbols else len(lines)
        last = min(end, first + HEAD_LINES - 1, len(lines))
        yield self._piece(path, name, first, last, lines)

    def _piece(
        self, path: str, symbol: str | None, first: int, last: int, lines: Sequence[bytes]
    ) -> Source:
        """Some lines; what is offered a second time is not looked through again."""
        key = (path, symbol, first, last)
        piece = self._pieces.get(key)
        if piece is None:
            raw = b"".join(lines[first - 1 : last])
            entry = self._tree.get(path)
            assert entry is not None
            sha256 = hashlib.sha256(raw)
            body = _masked(raw, sha256.digest())
            piece = self._pieces[key] = Source(
                path, symbol, first, last, entry.content_id.hex(), sha256.hexdigest(), body
            )
        return piece


_without_secrets: Final[set[bytes]] = set()
"""The hashes of texts in which none was found."""


def _masked(raw: bytes, sha256: bytes) -> str:
    """A text without secrets; one that had none is not looked through again."""
    text = raw.decode("utf-8", "replace")
    if sha256 in _without_secrets:
        return text
    masked = secrets.mask(text)
    if masked == text:
        if len(_without_secrets) >= REMEMBERED:
            _without_secrets.clear()
        _without_secrets.add(sha256)
    return masked


def _worth_showing(hit: FileHit, again: bool) -> Sequence[SymbolSpan]:
    units = [unit for unit in hit.units if unit.place >= 0]
    if not units:
        return ()
    if not again:
        least = units[0].worth * AS_GOOD // 100
        units = [unit for unit in units[:MOST_SYMBOLS] if unit.worth >= least]
    return [hit.symbols.at(unit.place) for unit in units]
