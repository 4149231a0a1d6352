"""What a file is worth for the terms of its text, found out where it is read anyway."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from indexer.core.code import CodeSymbol
from indexer.core.postings import OF_FILE, TextTerms, text_terms
from indexer.core.terms import count_identifiers, terms_of
from indexer.generators.parsed import ParsedFile

MOST_CODE: Final = 1 << 19
"""How many bytes of a parsed file are indexed."""

MOST_TEXT: Final = 1 << 16
"""How many bytes of any other text are indexed."""

MOST_MADE: Final = 1 << 8
"""How many bytes of what a tool wrote are indexed; it says at its beginning what it is."""

DECLARED: Final = 3
"""How much more a name counts where it is declared than where it is used."""

_MADE: Final = frozenset(("*.po", "*.pot", "*.lock", "*.map", "*.svg", "*.sum"))


def file_terms(ending: str, file: ParsedFile, symbols: Iterable[CodeSymbol]) -> TextTerms | None:
    """What a file is worth for its terms; nothing where it is no text."""
    if file.text is None:
        return None
    most = MOST_MADE if ending in _MADE else MOST_CODE if file.walk is not None else MOST_TEXT
    counted = count_identifiers(file.text[:most])
    # A question may name the language.
    counted[file.language.encode()] += 1
    if file.walk is not None:
        for symbol in symbols:
            counted[symbol.name.encode("utf-8", "replace")] += DECLARED
    return text_terms(terms_of(counted), OF_FILE)
