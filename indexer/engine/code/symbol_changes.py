"""Which symbols came, went and changed between two contents of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.changes import Change, find_renames
from indexer.core.code import CodeSymbol
from indexer.core.kinds import Kind
from indexer.core.tree import Entry
from indexer.engine.documents import JsonObject
from indexer.generators.base import FileInput
from indexer.generators.facts import facts_key, facts_of
from indexer.generators.parsed import parse

if TYPE_CHECKING:
    from indexer.engine.code.known import KnownFacts

Symbols = Sequence[CodeSymbol]


def symbols_between(
    known: KnownFacts, changes: Sequence[Change], read: Mapping[str, Symbols | None] | None = None
) -> list[JsonObject]:
    """The symbols that differ, by path and line, of files whose facts are known on both sides.

    `read` has those of the old side of some paths, where the index never held it. What only moved
    with its file is no difference.
    """
    moved = {path for one in find_renames(changes) for path in (one.old, one.new)}
    files = [
        one
        for one in sorted(changes, key=lambda change: paths.sort_key(change.path))
        if one.path not in moved and (_is_file(one.old) or _is_file(one.new))
    ]
    given, numbers = dict(read or {}), known.numbers
    wanted = {
        (path, side): numbers.get(facts_key(path, entry.content_id))
        for path, *sides in files
        for side, entry in enumerate(sides)
        if entry is not None and _is_file(entry)
    }
    loaded = known.store.symbols(number for number in wanted.values() if number is not None)
    found: list[JsonObject] = []
    for path, *sides in files:
        before, after = (
            _of_side(given, loaded, wanted, path, side, entry) for side, entry in enumerate(sides)
        )
        if before is not None and after is not None:
            found += ({"path": path, **one} for one in changed_symbols(before, after))
    return found


def _of_side(
    given: Mapping[str, Symbols | None],
    loaded: Mapping[int, Symbols],
    wanted: Mapping[tuple[str, int], int | None],
    path: str,
    side: int,
    entry: Entry | None,
) -> Symbols | None:
    """The symbols of a path on one side: none where it is no file, None where nobody knows."""
    if side == 0 and path in given:
        return given[path]
    if entry is None or not _is_file(entry):
        return ()
    number = wanted[path, side]
    return None if number is None else loaded[number]


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry.kind is Kind.FILE


def symbols_in(path: str, content: bytes) -> Symbols:
    """The symbols of a content that the index does not have."""
    return facts_of(parse(FileInput(paths.split(path)[1], content))).symbols


def changed_symbols(before: Symbols, after: Symbols) -> Iterator[JsonObject]:
    """What came, went and changed, in order of the lines.

    What stands in a symbol that came or went is not told again, and a symbol is not told as changed
    where that is what stands in it.
    """
    was, now = _by_name(before), _by_name(after)
    came = {key for key in now if key not in was}
    went = {key for key in was if key not in now}
    other = {key for key in now if key in was and now[key][1].sha256 != was[key][1].sha256}
    told = [
        ("removed", was[key][1]) for key in went if _parent(before, was[key][1], was) not in went
    ]
    told += [("added", now[key][1]) for key in came if _parent(after, now[key][1], now) not in came]
    around = {_parent(before, was[key][1], was) for key in went | other}
    around |= {_parent(after, now[key][1], now) for key in came | other}
    told += [("modified", now[key][1]) for key in other if key not in around]
    for change, symbol in sorted(told, key=lambda one: (one[1].line, one[0], one[1].symbol)):
        yield {
            "change": change,
            "symbol": symbol.symbol,
            "kind": symbol.kind,
            "signature": symbol.signature,
            "line": symbol.line,
        }


_Key = tuple[str, str, int]
"""A symbol's name, its kind, and how many of the same stand before it."""


def _by_name(symbols: Symbols) -> dict[_Key, tuple[int, CodeSymbol]]:
    found: dict[_Key, tuple[int, CodeSymbol]] = {}
    seen: dict[tuple[str, str], int] = {}
    for place, one in enumerate(symbols):
        again = seen.get((one.symbol, one.kind), 0)
        seen[one.symbol, one.kind] = again + 1
        found[one.symbol, one.kind, again] = (place, one)
    return found


def _parent(
    symbols: Symbols, symbol: CodeSymbol, keys: Mapping[_Key, tuple[int, CodeSymbol]]
) -> _Key | None:
    if symbol.parent < 0:
        return None
    above = symbols[symbol.parent]
    for again in range(len(symbols)):
        key = (above.symbol, above.kind, again)
        if key not in keys:
            return None
        if keys[key][0] == symbol.parent:
            return key
    return None
