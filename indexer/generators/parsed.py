"""A file read once: its language, its text and, where that is parsed, what its syntax tree has."""

from __future__ import annotations

from typing import NamedTuple

from indexer.generators.base import FileInput
from indexer.generators.bulk import is_minified
from indexer.generators.documents import Document, read_document
from indexer.generators.fallback import as_text
from indexer.generators.languages import language_of
from indexer.generators.tractable import is_tractable, parse_within_bounds
from indexer.generators.treesitter import collect, is_parsed
from indexer.generators.walk import Walk

# Beyond this only the beginning is parsed; generated tables are the only sources so large.
PARSED = 512 * 1024


class ParsedFile(NamedTuple):
    """What outlines and facts are made from."""

    name: str
    """For outlines alone: facts are the same under every name of one ending."""
    language: str
    content: bytes
    text: bytes | None
    """As UTF-8 without a byte order mark; None where it is no text."""
    walk: Walk | None = None
    """The declarations, where the language is parsed."""
    document: Document | None = None
    """The headings of a document."""


def parse(source: FileInput) -> ParsedFile:
    """Read a file, parsing it at most once."""
    name, content = source.name, source.content
    text = as_text(content)
    if text is None:
        return ParsedFile(name, "binary", content, None)
    language = language_of(name, text)
    document = read_document(language, text)
    if document is not None:
        return ParsedFile(name, language, content, text, document=document)
    parsed = parsed_part(language, text)
    tree = None if parsed is None else parse_within_bounds(language, parsed)
    walk = None if parsed is None or tree is None else collect(language, parsed, tree)
    return ParsedFile(name, language, content, text, walk)


def parsed_part(language: str, text: bytes) -> bytes | None:
    """What of a text is parsed; None where nothing is."""
    if not is_parsed(language) or not text.strip() or is_minified(language, text):
        return None
    parsed = text if len(text) <= PARSED else text[: text.rfind(b"\n", 0, PARSED) + 1 or PARSED]
    return parsed if is_tractable(language, parsed) else None
