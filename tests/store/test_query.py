"""`sql`: one SELECT, read-only, bounded in rows and time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.store.query import QueryError
from tests.support.engines import Engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One for all: whatever a query does, it changes nothing, and in the end all of it is valid."""
    workspace = tmp_path_factory.mktemp("query")
    (workspace / "d").mkdir()
    for number in range(5):
        (workspace / "d" / f"f{number}").write_bytes(b"%d" % number)
    with Engine.create(workspace) as engine:
        engine.scan()
        yield engine
        assert engine.validate()["valid"]


def test_the_documented_views(engine: Engine) -> None:
    found = engine.sql("SELECT path, kind, size FROM nodes ORDER BY path")
    assert found["columns"] == ["path", "kind", "size"]
    assert found["rows"][0] == ["", "directory", 5]
    assert ["d/f3", "file", 1] in found["rows"]
    assert found["truncated"] is False
    assert engine.sql("SELECT count(*) FROM changes WHERE change = 'added'")["rows"] == [[7]]
    assert engine.sql("SELECT seq, root FROM roots")["rows"] == [[1, engine.tree.root_id.hex()]]


@pytest.mark.parametrize(
    "query",
    ["SELECT 1;", "  select 1  ", "-- why\nSELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a",
     "VALUES (1)", "FROM roots", "(SELECT 1) UNION (SELECT 2)", "SELECT ';'"],
)  # fmt: skip
def test_a_select_in_any_form(engine: Engine, query: str) -> None:
    assert engine.sql(query)["rows"]


REFUSED = [
    "", ";", "   ", "-- nothing", "SELEC 1", "SELECT", "SELECT 1; SELECT 2", "SELECT 1;;SELECT 2",
    "INSERT INTO remarks VALUES ('a','b','c')", "DELETE FROM node_log", "DROP TABLE node_log",
    "UPDATE node_log SET size = 0", "CREATE TABLE t (x INTEGER)", "CREATE VIEW v AS SELECT 1",
    "ALTER TABLE node_log ADD COLUMN x INTEGER", "TRUNCATE node_log",
    "COPY node_log TO '/tmp/merkle-out.csv'", "COPY (SELECT 1) TO '/tmp/merkle-out.csv'",
    "EXPORT DATABASE '/tmp/merkle-out'", "ATTACH '/tmp/merkle-out.duckdb' AS o", "DETACH index",
    "USE memory", "PRAGMA database_list", "PRAGMA enable_profiling", "SET memory_limit = '1TB'",
    "SET GLOBAL threads = 64", "RESET threads", "CALL pragma_version()", "CHECKPOINT", "VACUUM",
    "BEGIN", "COMMIT", "ROLLBACK", "INSTALL httpfs", "LOAD httpfs", "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM node_log", "PREPARE p AS DELETE FROM node_log",
    "EXECUTE p", "SELECT 1; DELETE FROM node_log", "BEGIN; DELETE FROM node_log; COMMIT",
    "WITH gone AS (DELETE FROM node_log RETURNING *) SELECT * FROM gone",
    "WITH new AS (INSERT INTO remarks VALUES ('a','b','c') RETURNING *) SELECT * FROM new",
    "SELECT * FROM (DELETE FROM node_log RETURNING *)",
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_parquet('/etc/passwd')", "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')", "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_csv('https://example.com/x.csv')", "SELECT * FROM '/etc/passwd.csv'",
    "SELECT * FROM query('DELETE FROM node_log')", "SELECT * FROM no_such_table",
    "SELECT getenv('HOME')", "SELECT no_such_function()", "SELECT 1\x00",
    "SELECT * FROM nodes WHERE",
    "SELECT nextval('s')", "MERGE INTO remarks USING nodes ON false WHEN MATCHED THEN DELETE",
    "COMMENT ON TABLE node_log IS 'x'", "CREATE MACRO m() AS 1", "SELECT * INTO t FROM nodes",
]  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_everything_else_is_refused_and_changes_nothing(engine: Engine, query: str) -> None:
    before = engine.sql("SELECT * FROM nodes ORDER BY path")
    with pytest.raises(QueryError) as caught:
        engine.sql(query)
    assert caught.value.exit_code == 2
    assert caught.value.message
    assert engine.sql("SELECT * FROM nodes ORDER BY path") == before
    assert not list(Path("/tmp").glob("merkle-out*"))


@pytest.mark.parametrize("limit", [0, 1, 6, 7, 8])
def test_rows_are_limited(engine: Engine, limit: int) -> None:
    found = engine.sql("SELECT path FROM nodes", limit=limit)
    assert len(found["rows"]) == min(limit, 7)
    assert found["truncated"] is (limit < 7)


def test_a_huge_answer_is_not_fetched_whole(engine: Engine) -> None:
    found = engine.sql("SELECT * FROM range(100000000000)", limit=3)
    assert found["rows"] == [[0], [1], [2]]
    assert found["truncated"] is True


def test_a_long_query_is_ended(engine: Engine) -> None:
    with pytest.raises(QueryError, match="longer than"):
        engine.sql("SELECT count(*) FROM range(1000000000000) a WHERE a.range % 7 = 3", timeout=0.2)
    assert engine.sql("SELECT 1")["rows"] == [[1]]
    assert engine.scan()["modified"] == 0


def test_values_as_json_has_them(engine: Engine) -> None:
    row = engine.sql(
        "SELECT NULL, true, 1, 1.5::DOUBLE, 'x', 'ab'::BLOB, DATE '2024-02-29', INTERVAL 1 DAY,"
        " [1, 2], {'a': 1}, 1.10::DECIMAL(4,2), 'nan'::DOUBLE, 'inf'::DOUBLE,"
        " 170141183460469231731687303715884105727::HUGEINT, TIMESTAMP '2024-01-01 00:00:00'"
    )["rows"][0]
    assert row == [
        None, True, 1, 1.5, "x", "6162", "2024-02-29", "1 day, 0:00:00", [1, 2], {"a": 1}, "1.10",
        "nan", "inf", 170141183460469231731687303715884105727, "2024-01-01T00:00:00",
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["now()", "[TIMESTAMPTZ '2020-01-01 00:00:00+00']"])
def test_a_time_with_a_zone_is_refused_with_a_way_out(engine: Engine, value: str) -> None:
    with pytest.raises(QueryError) as refused:
        engine.sql(f"SELECT {value}")
    assert "Traceback" not in refused.value.message
    assert "CAST" in (refused.value.hint or "")
    assert engine.sql(f"SELECT CAST({value} AS VARCHAR)")["rows"]
