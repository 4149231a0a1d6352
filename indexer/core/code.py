"""What a file's code says of itself: nouns that generators make, and that the store keeps."""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import lt
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from indexer.core.ids import ContentId
from indexer.core.postings import TextTerms
from indexer.errors import CorruptError

EXPLICIT: Final = frozenset(("python", "javascript", "typescript", "tsx", "rust"))
"""Languages in which a name alone means nothing unless its file defines it or brings it in."""

_HEADER: Final = Struct("<III")

_UNFIT: Final = (zlib.error, StructError, ValueError, TypeError, IndexError, RecursionError)
"""The errors that a value leads to which nobody packed."""

FactsKey = tuple[ContentId, str]
"""A content, and the ending of the name that it has."""


class CodeSymbol(NamedTuple):
    """One declaration or heading."""

    kind: str
    name: str
    symbol: str
    """Its name behind those of what it stands in."""
    signature: str
    doc: str
    """The first sentence that is said about it."""
    line: int
    end_line: int
    start: int
    end: int
    """Where it stands in the text, as UTF-8 without a byte order mark."""
    sha256: bytes
    """The hash of its whole text."""
    parent: int
    """The place in the list of what it stands in; -1 for none."""


class SymbolSpan(NamedTuple):
    """What a question needs of a symbol: what it is called, and where it stands."""

    name: str
    symbol: str
    line: int
    end_line: int
    start: int
    end: int
    parent: int


class SymbolSpans(NamedTuple):
    """The spans of all symbols of a file in columns: few of them are asked for one by one."""

    names: Sequence[str] = ()
    symbols: Sequence[str] = ()
    lines: Sequence[int] = ()
    end_lines: Sequence[int] = ()
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()
    parents: Sequence[int] = ()

    def at(self, place: int) -> SymbolSpan:
        """The span of the symbol that has this place in the list."""
        return SymbolSpan._make(column[place] for column in self)


NO_SYMBOLS: Final = SymbolSpans()


class CodeFacts(NamedTuple):
    """What is known of a content under the ending of a name."""

    language: str
    print: int
    """A number that stands for the versions of all that found it out, as `facts_print` makes it."""
    symbols: tuple[CodeSymbol, ...] = ()
    """In order of the source."""
    terms: TextTerms | None = None
    """What its text is worth for its terms: written as postings, and not read back with these."""


class Reference(NamedTuple):
    """A name as it is used, with what stands before it."""

    chain: str
    """As written, its parts joined by dots; after a dot alone where what is before has no name."""
    line: int
    owner: int
    """The place of the symbol that it stands in; -1 for none."""
    called: bool


class Import(NamedTuple):
    """What a file brings in: a module, or a name of one."""

    module: str
    name: str
    """Empty for the module itself, `*` for all that it has."""
    alias: str
    """What it is called here."""
    line: int


class Uses(NamedTuple):
    """The names that a file uses, in order of their lines."""

    references: tuple[Reference, ...] = ()
    imports: tuple[Import, ...] = ()


def pack_uses(
    references: Sequence[tuple[bytes, int, int, bool]], imports: Sequence[Import]
) -> bytes:
    """References (chain, line, owner, called) and imports in few bytes."""
    chains = dict.fromkeys(one[0] for one in references)
    places = {chain: place for place, chain in enumerate(chains)}
    columns = [
        array("I", [places[one[0]] for one in references]),
        array("I", _differences([one[1] for one in references])),
        array("I", [2 * (one[2] + 1) + one[3] for one in references]),
    ]
    brought = ["\t".join(map(str, one)).encode() for one in imports]
    header = _HEADER.pack(len(references), len(chains), len(imports))
    texts = b"\n".join((*chains, *brought))
    return zlib.compress(b"".join((header, *map(_little, columns), texts)), 1)


def unpack_uses(packed: bytes) -> Uses:
    """The names that `pack_uses` packed; raises CorruptError for anything else."""
    try:
        return _unpacked_uses(packed) if packed else Uses()
    except _UNFIT as error:
        raise _damaged("the names that a file uses") from error


def _unpacked_uses(packed: bytes) -> Uses:
    data = zlib.decompress(packed)
    references, chains, imports = _HEADER.unpack_from(data)
    begin, size = _HEADER.size, 4 * references
    places, lines, owners = (
        memoryview(data)[begin + at * size : begin + (at + 1) * size] for at in range(3)
    )
    texts = data[begin + 3 * size :].decode("utf-8", "replace").split("\n")
    found = []
    for place, line, owner in zip(
        _numbers(places), accumulate(_numbers(lines)), _numbers(owners), strict=True
    ):
        found.append(Reference(texts[place], line, (owner >> 1) - 1, bool(owner & 1)))
    brought = (text.split("\t") for text in texts[chains : chains + imports])
    return Uses(
        tuple(found),
        tuple(Import(module, name, alias, int(line)) for module, name, alias, line in brought),
    )


def pack_spans(symbols: Sequence[CodeSymbol]) -> bytes:
    """The spans of a file's symbols in few bytes: counts and lines in columns, then the names."""
    if not symbols:
        return b""
    spans = [
        (one.line, one.end_line, one.start, one.end, one.parent + 1, one.name, one.symbol)
        for one in symbols
    ]
    *numbers, names, wholes = zip(*spans, strict=True)
    columns = array("I", [len(spans), *chain.from_iterable(numbers)])
    texts = json.dumps([*names, *wholes], ensure_ascii=False)
    return zlib.compress(_little(columns) + texts.encode("utf-8", "surrogatepass"), 1)


def unpack_spans(packed: bytes) -> SymbolSpans:
    """The spans that `pack_spans` packed; raises CorruptError for anything else."""
    try:
        return _unpacked_spans(packed) if packed else NO_SYMBOLS
    except _UNFIT as error:
        raise _damaged("the symbols of a file") from error


def _unpacked_spans(packed: bytes) -> SymbolSpans:
    data = zlib.decompress(packed)
    count = int.from_bytes(data[:4], "little")
    begin = 4 + 20 * count
    texts = json.loads(data[begin:].decode("utf-8", "surrogatepass"))
    numbers = _numbers(memoryview(data)[4:begin]).tolist()
    columns = (numbers[at : at + count] for at in range(0, 5 * count, count))
    lines, end_lines, starts, ends, parents = columns
    outer = [parent - 1 for parent in parents]
    # What a symbol stands in comes before it: whoever goes outward comes to an end.
    if (
        {*map(type, texts)} != {str}
        or len(texts) != 2 * count
        or not all(map(lt, outer, range(count)))
    ):
        raise ValueError(count)
    return SymbolSpans(texts[:count], texts[count:], lines, end_lines, starts, ends, outer)


def _damaged(what: str) -> CorruptError:
    return CorruptError(
        f"the index is damaged: {what} cannot be read in it", hint="run `merkle repair`"
    )


def _differences(lines: list[int]) -> list[int]:
    return [line - before for line, before in zip(lines, [0, *lines], strict=False)]


def _little(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(data: memoryview) -> array[int]:
    made = array("I", bytes(data))
    if sys.byteorder == "big":
        made.byteswap()
    return made
