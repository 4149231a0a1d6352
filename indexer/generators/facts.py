"""The facts of a file: its symbols, with where each stands and what it offers."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import accumulate
from typing import Final

from indexer.core import paths, postings, secrets
from indexer.core.code import CodeFacts, CodeSymbol, FactsKey
from indexer.core.ids import ContentId
from indexer.generators.documents import Document, Heading
from indexer.generators.languages import ending_of
from indexer.generators.lines import cut, shown
from indexer.generators.parsed import ParsedFile
from indexer.generators.treesitter import versions, versions_for
from indexer.generators.walk import MAX_COLLECTED, Symbol, Walk

VERSION: Final = "2"
"""Moves with every change to what is made of the same file."""

MAX_NAME: Final = 200
MAX_SYMBOL: Final = 500
MAX_TEXT: Final = 400

HEADING: Final = "heading"
_OF_TYPES: Final = frozenset(
    ("class", "interface", "struct", "trait", "impl", "enum", "union", "object", "protocol")
)
_NO_PARENT: Final = -1


def facts_of(file: ParsedFile) -> CodeFacts:
    """The facts of a file that is parsed already."""
    symbols: list[CodeSymbol] = []
    if file.walk is not None:
        symbols = _symbols(file.walk)
    elif file.document is not None and file.text is not None:
        symbols = _headings(file.document, file.text)
    return CodeFacts(file.language, facts_print(file.language), _masked(symbols))


def facts_key(path: str, content_id: ContentId) -> FactsKey:
    """The key that a file's facts are known by: its content, and what of its name decides."""
    return content_id, ending_of(paths.split(path)[1])


@cache
def facts_print(language: str | None) -> int:
    """A number that stands for the versions of all that finds out a file's facts.

    Without a language, it stands for those of every language.
    """
    of_grammars = versions() if language is None else versions_for(language)
    parts = (
        "facts",
        VERSION,
        secrets.VERSION,
        postings.VERSION,
        *(f"{k}={v}" for k, v in of_grammars),
    )
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def _symbols(walk: Walk) -> list[CodeSymbol]:
    made: list[CodeSymbol] = []
    # What is still open, by its place.
    around: list[int] = []
    for symbol in sorted(walk.symbols, key=_outer_first):
        name = cut(shown(b" ".join(symbol.name.split())), MAX_NAME)
        if not symbol.kind or not name:
            continue
        while around and not _is_around(made[around[-1]], symbol):
            around.pop()
        parent = around[-1] if around else _NO_PARENT
        around.append(len(made))
        above = made[parent].symbol if parent >= 0 else ""
        if symbol.owner:
            above = ".".join(filter(None, (above, shown(symbol.owner))))
        kind = symbol.kind
        inside = parent >= 0 and made[parent].kind in _OF_TYPES
        if kind == "function" and (inside or symbol.owner):
            kind = "method"
        made.append(
            CodeSymbol(
                kind,
                name,
                cut(f"{above}.{name}" if above else name, MAX_SYMBOL),
                cut(shown(walk.signature(symbol)), MAX_TEXT),
                cut(shown(symbol.doc), MAX_TEXT) if symbol.doc else "",
                symbol.line,
                symbol.end_line,
                symbol.start,
                symbol.end,
                hashlib.sha256(walk.source[symbol.start : symbol.end]).digest(),
                parent,
            )
        )
    return made


def _outer_first(symbol: Symbol) -> tuple[int, int]:
    return symbol.start, -symbol.end


def _is_around(outer: CodeSymbol, inner: Symbol) -> bool:
    """Whether the second stands inside the first; names that are declared together do not."""
    whole = outer.start == inner.start and outer.end == inner.end
    return inner.end <= outer.end and not whole


def _headings(document: Document, text: bytes) -> list[CodeSymbol]:
    """Headings as symbols: each with its section, and below the section that it is in."""
    found = [*([document.titled_by] if document.titled_by else ()), *document.headings]
    found = found[:MAX_COLLECTED]
    ends = _section_ends(found, document.lines)
    offsets = [0, *accumulate(len(line) + 1 for line in text.split(b"\n"))]
    made: list[CodeSymbol] = []
    around: list[tuple[int, int]] = []
    for heading, last in zip(found, ends, strict=True):
        while around and around[-1][0] >= heading.level:
            around.pop()
        parent = around[-1][1] if around else _NO_PARENT
        around.append((heading.level, len(made)))
        start, end = offsets[heading.line - 1], min(offsets[last], len(text))
        name = cut(heading.text, MAX_NAME)
        above = f"{made[parent].symbol} > " if parent >= 0 else ""
        made.append(
            CodeSymbol(
                HEADING,
                name,
                cut(above + name, MAX_SYMBOL),
                name,
                "",
                heading.line,
                last,
                start,
                end,
                hashlib.sha256(text[start:end]).digest(),
                parent,
            )
        )
    return made


def _section_ends(headings: list[Heading], lines: int) -> list[int]:
    """The last line of each section: before the next heading that is not below its own."""
    ends = [lines] * len(headings)
    open_ones: list[int] = []
    for at, heading in enumerate(headings):
        while open_ones and headings[open_ones[-1]].level >= heading.level:
            ends[open_ones.pop()] = heading.line - 1
        open_ones.append(at)
    return ends


def _masked(symbols: list[CodeSymbol]) -> tuple[CodeSymbol, ...]:
    """The symbols without secrets; almost always there are none, which one look tells."""
    if not symbols:
        return ()
    texts = [text for one in symbols for text in (one.signature, one.doc, one.symbol)]
    joined = "\n".join(texts)
    if secrets.mask(joined) == joined:
        return tuple(symbols)
    mask = secrets.mask
    return tuple(
        one._replace(
            name=mask(one.name),
            symbol=mask(one.symbol),
            signature=mask(one.signature),
            doc=mask(one.doc),
        )
        for one in symbols
    )
