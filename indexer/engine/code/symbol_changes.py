"""Which symbols came, went and changed between two contents of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.changes import Change, find_renames
from indexer.core.code import CodeSymbol
from indexer.core.kinds import Kind
from indexer.core.tree import Entry
from indexer.engine.documents import JsonObject
from indexer.generators.facts import facts_key

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


def changed_symbols(before: Symbols, after: Symbols) -> Iterator[JsonObject]:
    """What came, went and changed, in order of the lines.

    A symbol inside one that came or went is not listed by itself, and one is not listed as changed
    where only a symbol inside it is another.
    """
    old_keys, new_keys = _keys(before), _keys(after)
    was, now = dict(zip(old_keys, before, strict=True)), dict(zip(new_keys, after, strict=True))
    came, went = now.keys() - was.keys(), was.keys() - now.keys()
    other = {key for key in now.keys() & was.keys() if now[key].sha256 != was[key].sha256}

    def around(keys: Sequence[_Key], symbol: CodeSymbol) -> _Key | None:
        return keys[symbol.parent] if symbol.parent >= 0 else None

    holding = {around(old_keys, was[key]) for key in went | other}
    holding |= {around(new_keys, now[key]) for key in came | other}
    # Gone through as the source has them, because the order of a set is no order.
    told = [
        ("removed", was[key])
        for key in old_keys
        if key in went and around(old_keys, was[key]) not in went
    ]
    told += [
        ("added" if key in came else "modified", now[key])
        for key in new_keys
        if (key in came and around(new_keys, now[key]) not in came)
        or (key in other and key not in holding)
    ]
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


def _keys(symbols: Symbols) -> list[_Key]:
    """The key of each symbol of a file, in their order."""
    seen = Counter[tuple[str, str]]()
    found = []
    for one in symbols:
        found.append((one.symbol, one.kind, seen[one.symbol, one.kind]))
        seen[one.symbol, one.kind] += 1
    return found
