"""Statements that are parsed once, and what is asked for once."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import duckdb
import pytest

from indexer.core.hashing import workspace_hash
from indexer.store import parsed as parsing
from indexer.store.database import Database, DatabaseError, put_meta
from indexer.store.parsed import parsed
from indexer.store.trees import TreeStore


def test_a_statement_is_parsed_once_and_runs_on_every_connection() -> None:
    with duckdb.connect() as one, duckdb.connect() as other:
        ready = parsed(one, "SELECT ? + 1")
        assert parsed(other, "SELECT ? + 1") is ready
        assert one.execute(ready, [1]).fetchall() == [(2,)]
        assert other.execute(ready, [2]).fetchall() == [(3,)]


def test_not_more_of_them_are_kept_than_a_few_hundred() -> None:
    with duckdb.connect() as connection, mock.patch.object(parsing, "_MOST", 3):
        for number in range(9):
            parsed(connection, f"SELECT {number}")
            assert len(parsing._known) <= 3


def test_a_statement_that_cannot_be_parsed_is_an_error_of_ours(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.duckdb")
    for _ in "12":
        with pytest.raises(DatabaseError, match="syntax"):
            database.rows("SELEC 1")
    database.close()


def test_a_value_has_one_row_however_often_it_is_set(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.duckdb")
    for value in ("one", "two", "two"):
        with database.transaction() as connection:
            put_meta(connection, "tide", value)
        found = database.rows("SELECT value FROM meta WHERE key = 'tide'")
        assert found == [(value,)]
    database.close()


def test_that_there_is_no_root_is_asked_once(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.duckdb")
    trees = TreeStore(database, workspace_hash("xxh3_128"))
    with mock.patch.object(database, "rows", wraps=database.rows) as asked:
        assert trees.head() is None
        assert trees.head() is None
        assert asked.call_count == 1
    database.close()
