"""Writing the database anew: DuckDB keeps the space of rows that went, a new file has none of it.

The new file is filled a piece at a time beside the old one, made durable, and then takes its
place by one renaming. Whatever ends the process before that leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

from indexer.core.progress import Progress, begin
from indexer.store.database import Database, DatabaseError, quoted
from indexer.store.driver import duckdb

_PIECE: Final = 200_000
"""Rows that are copied at once."""

_SMALL: Final = 16 << 20
"""Bytes up to which an index is written in small blocks.

A table takes whole blocks, and a fold writes the last of nearly every table beside the one that it
replaces: of large blocks, that is as much as all of a small index, and next to nothing of a large
one, which is read and written in fewer pieces."""

_SMALL_BLOCK: Final = 1 << 14
_LARGE_BLOCK: Final = 1 << 18
"""Bytes; the least and the most that the library knows, which begins every file with the latter."""

_NAME: Final = "rewritten"


class Rewriting:
    """One attempt to write the database anew; only the writing thread goes on with it."""

    def __init__(self, database: Database, progress: Progress | None = None) -> None:
        self._database = database
        self._progress = progress
        self._writes = database.writes
        self._is_attached = False

    @property
    def is_outdated(self) -> bool:
        """Whether something was written that the copy may lack."""
        return self._database.writes != self._writes

    def steps(self) -> Iterator[None]:
        """Fill the new file, a piece at a time; after the last one it is closed and durable."""
        database = self._database
        database.remove_rewritten()
        block = _SMALL_BLOCK if database.size() <= _SMALL else _LARGE_BLOCK
        with self._cursor() as cursor:
            place = quoted(str(database.rewritten))
            cursor.execute(f"ATTACH {place} AS {_NAME} (BLOCK_SIZE {block})")
            self._is_attached = True
            old = _one(cursor, "SELECT current_database()")
            cursor.execute(f'COPY FROM DATABASE "{old}" TO {_NAME} (SCHEMA)')
            tables = cursor.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL", [old]
            ).fetchall()
            ends = {
                table: _one(cursor, f'SELECT coalesce(max(rowid) + 1, 0) FROM "{old}"."{table}"')
                for (table,) in tables
            }
        begin(self._progress, "writing the index anew", "rows", sum(ends.values()))
        for table, end in ends.items():
            source, target = f'"{old}"."{table}"', f'{_NAME}."{table}"'
            for first in range(0, end, _PIECE):
                yield
                with self._cursor() as cursor:
                    cursor.execute(
                        f"INSERT INTO {target} SELECT * FROM {source}"
                        f" WHERE rowid >= {first} AND rowid < {first + _PIECE}"
                    )
                if self._progress is not None:
                    self._progress(min(_PIECE, end - first))
            with self._cursor() as cursor:
                wanted, copied = (
                    _one(cursor, f"SELECT count(*) FROM {name}") for name in (source, target)
                )
            if copied != wanted:
                raise DatabaseError(f"{copied} of {wanted} rows of {table} were copied")
        yield
        with self._cursor() as cursor:
            cursor.execute(f"CHECKPOINT {_NAME}")
            cursor.execute(f"DETACH {_NAME}")
        self._is_attached = False
        _sync(str(database.rewritten))

    def leave(self) -> None:
        """Give the new file up; the index is as it was."""
        if self._is_attached:
            self._is_attached = False
            with contextlib.suppress(duckdb.Error), self._database.reading() as cursor:
                cursor.execute(f"DETACH {_NAME}")
        self._database.remove_rewritten()

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._database.roomy("cannot rewrite the index") as cursor:
            yield cursor


def _one(cursor: duckdb.DuckDBPyConnection, statement: str) -> Any:
    row = cursor.execute(statement).fetchone()
    assert row is not None
    return row[0]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
