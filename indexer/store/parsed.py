"""SQL that is parsed once in a process: for a small question that is a fifth of what it takes."""

from __future__ import annotations

from typing import Final

from indexer.store.driver import duckdb

_MOST: Final = 500
_known: dict[str, duckdb.Statement] = {}


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """One statement, ready to be executed on any connection as often as wanted."""
    found = _known.get(text)
    if found is None:
        (found,) = connection.extract_statements(text)
        if len(_known) >= _MOST:
            # Some texts have numbers in them: what is asked often comes back at once.
            _known.clear()
        _known[text] = found
    return found
