"""The DuckDB file: its schema, its transactions, and its errors in our words."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from indexer.errors import CorruptError, UncheckedError
from indexer.store import database as module
from indexer.store.database import (
    DamagedError,
    Database,
    DatabaseError,
    Row,
    among,
    append_rows,
    put_meta,
)
from indexer.store.layout import NewerFormatError
from indexer.store.migrations import MIGRATIONS, TABLES
from tests.support.engines import Engine


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "index.duckdb")
    yield opened
    opened.close()


def digest(path: Path) -> dict[str, str]:
    return {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


def test_the_schema_is_recorded(database: Database) -> None:
    assert database.rows("SELECT value FROM meta WHERE key = 'schema'") == [(str(len(MIGRATIONS)),)]


def test_opening_again_migrates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path / "index.duckdb").close()
    monkeypatch.setattr(Database, "transaction", lambda self: pytest.fail("nothing to do"))
    Database(tmp_path / "index.duckdb").close()


def test_opening_begins_few_threads(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/task"))
    with contextlib.closing(Database(tmp_path / "index.duckdb")):
        assert len(os.listdir("/proc/self/task")) - before <= 1


def test_few_rows_are_stored_as_many_are(database: Database) -> None:
    rows = [
        (0, b"", "", -1, None, False),
        (2**64 - 1, b"\0\xff", "a\0\U0001f30a", 2**63 - 1, ["x", ""], True),
        (2**31, bytes(range(256)), "7", -(2**63), [], True),
        (1, b"'", "'", 0, None, False),
    ]
    kinds = "a UBIGINT, b BLOB, c VARCHAR, d BIGINT, e VARCHAR[], f BOOLEAN"
    for count in range(1, len(rows) + 1):
        with database.transaction() as connection:
            for table in ("few", "many"):
                connection.execute(f"CREATE OR REPLACE TABLE {table} ({kinds})")
            append_rows(connection, "few", rows[:count])
            append_rows(connection, "many", rows[:count] + rows)
        assert database.rows("FROM few") == rows[:count]
        assert database.rows("FROM many") == rows[:count] + rows


@pytest.mark.parametrize("count", [1, 5])
def test_a_value_that_does_not_fit_is_refused_with_all_beside_it(
    database: Database, count: int
) -> None:
    with pytest.raises(DatabaseError), database.transaction() as connection:
        append_rows(connection, "share_due", [(b"key", 2**32)] * count)
    assert database.rows("FROM share_due") == []


@pytest.fixture(scope="module")
def new_tables(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The tables of a store that was never older."""
    with contextlib.closing(Database(tmp_path_factory.mktemp("new") / "new.duckdb")) as new:
        return new.rows("SELECT table_name FROM duckdb_tables() ORDER BY 1")


def test_every_table_is_known_by_name(new_tables: list[Row]) -> None:
    """Whoever reads all of them does not ask which there are."""
    assert [(name,) for name in TABLES] == new_tables


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_an_older_store_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, new_tables: list[Row]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", MIGRATIONS[:version])
        Database(tmp_path / "index.duckdb").close()
    opened = Database(tmp_path / "index.duckdb")
    assert opened.rows("SELECT table_name FROM duckdb_tables() ORDER BY 1") == new_tables
    assert opened.rows("SELECT value FROM meta WHERE key = 'schema'") == [(str(len(MIGRATIONS)),)]
    opened.close()


def test_a_migration_that_fails_leaves_the_old_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.duckdb"
    Database(path).close()
    broken = (*MIGRATIONS, "CREATE TABLE half (x INTEGER)", "CREATE TABLE half (x INTEGER)")
    with monkeypatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", broken)
        with pytest.raises(DatabaseError):
            Database(path)
    opened = Database(path)
    assert opened.rows("SELECT value FROM meta WHERE key = 'schema'") == [(str(len(MIGRATIONS)),)]
    assert opened.rows("SELECT * FROM duckdb_tables() WHERE table_name = 'half'") == []
    opened.close()


def test_a_newer_schema_is_refused_and_left_untouched(workspace: Path) -> None:
    (workspace / "f").write_bytes(b"1")
    with Engine.create(workspace) as engine:
        engine.scan()
        with engine.database.transaction() as connection:
            put_meta(connection, "schema", str(len(MIGRATIONS) + 1))
    before = digest(workspace / ".merkle")
    with pytest.raises(NewerFormatError) as caught:
        Engine(workspace)
    assert "upgrade" in caught.value.hint
    assert digest(workspace / ".merkle") == before
    assert caught.value.exit_code == 3


def test_a_newer_format_is_refused_before_the_database_is_opened(workspace: Path) -> None:
    with Engine.create(workspace) as engine:
        engine.scan()
    (workspace / ".merkle" / "format.json").write_text('{"format": 99, "hash": "blake9"}\n')
    before = digest(workspace / ".merkle")
    with pytest.raises(NewerFormatError):
        Engine(workspace)
    assert digest(workspace / ".merkle") == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": "x", "hash": "y"}',
                                  '{"format": null, "hash": "sha256"}', "\x00\x00"])  # fmt: skip
def test_a_damaged_format_file_is_told(workspace: Path, text: str) -> None:
    Engine.create(workspace).close()
    (workspace / ".merkle" / "format.json").write_text(text)
    with pytest.raises(CorruptError, match="damaged"):
        Engine(workspace)


# -- transactions


def test_a_transaction_is_stored_whole(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO remarks VALUES ('a', 'b', 'c')")
        connection.execute("INSERT INTO remarks VALUES ('d', 'e', 'f')")
    assert len(database.rows("SELECT * FROM remarks")) == 2


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt, duckdb.IOException])
def test_a_transaction_that_fails_leaves_nothing(
    tmp_path: Path, problem: type[BaseException]
) -> None:
    opened = Database(tmp_path / "index.duckdb")
    wanted = DatabaseError if problem is duckdb.IOException else problem

    def fail() -> None:
        with opened.transaction() as connection:
            connection.execute("INSERT INTO remarks VALUES ('a', 'b', 'c')")
            raise problem("in the middle")

    with pytest.raises(wanted):
        fail()
    assert opened.rows("SELECT * FROM remarks") == []
    with opened.transaction() as connection:
        connection.execute("INSERT INTO remarks VALUES ('x', 'y', 'z')")
    opened.close()
    opened = Database(tmp_path / "index.duckdb")
    assert opened.rows("SELECT path FROM remarks") == [("x",)]
    opened.close()


def test_a_reader_sees_only_what_was_committed(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO remarks VALUES ('a', 'b', 'c')")
        assert database.rows("SELECT * FROM remarks") == []
    assert len(database.rows("SELECT * FROM remarks")) == 1


# -- errors in our words


def test_a_refused_statement_is_a_database_error(database: Database) -> None:
    with pytest.raises(DatabaseError) as caught:
        database.rows("SELECT * FROM no_such_table")
    assert isinstance(caught.value, UncheckedError)


@pytest.mark.parametrize(
    "error",
    [
        duckdb.FatalException("FATAL Error: anything"),
        duckdb.SerializationException("Serialization Error: expected 1"),
        duckdb.IOException("IO Error: Corrupt database file: computed checksum"),
        duckdb.IOException("the file is not a valid DuckDB database file"),
    ],
)
def test_damage_is_told_as_damage(error: duckdb.Error) -> None:
    with pytest.raises(DamagedError) as caught, module.translated("reading"):
        raise error
    assert caught.value.exit_code == 4
    assert "doctor" in caught.value.hint


def test_no_query_can_reach_outside(database: Database, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    for statement in (
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"ATTACH '{tmp_path}/other.duckdb' AS other",
        f"COPY remarks TO '{tmp_path}/out.csv'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(DatabaseError):
            database.rows(statement)
    names = {path.name for path in tmp_path.iterdir()} - {"index.duckdb.wal"}
    assert names == {"index.duckdb", "secret.csv", "spill"}


def test_a_file_that_turned_out_damaged_is_not_folded(tmp_path: Path) -> None:
    path = tmp_path / "index.duckdb"
    database = Database(path)
    with database.transaction() as connection:
        put_meta(connection, "told", "yes")
    with pytest.raises(DamagedError), database._translated("reading"):
        raise duckdb.SerializationException("a block is not what it was")
    database.close()
    assert path.with_suffix(".duckdb.wal").stat().st_size > 0
    # What was committed is there all the same.
    again = Database(path)
    assert again.rows("SELECT value FROM meta WHERE key = 'told'") == [("yes",)]
    again.close()
    assert not path.with_suffix(".duckdb.wal").exists()


@pytest.mark.parametrize("count", range(4))
def test_one_and_many_are_found_alike(database: Database, count: int) -> None:
    chosen, given = among("UINTEGER", range(count))
    assert ("unnest" in chosen) == (count != 1)
    found = database.rows(f"SELECT range FROM range(10) WHERE range {chosen} ORDER BY 1", given)
    assert found == [(number,) for number in range(count)]
