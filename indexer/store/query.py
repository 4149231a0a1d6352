"""Read-only SQL for people and scripts: one SELECT, bounded in rows and time."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import threading
import uuid
from typing import Any, Final

from indexer.errors import UsageError
from indexer.store.database import Database, Row
from indexer.store.driver import duckdb

_INTERRUPT_AGAIN: Final = 0.05
"""Seconds between two interruptions of a query that has to end."""

VIEWS: Final = (
    "the views are nodes, changes, roots, frames, heads, basis, symbols, manifests, sessions and"
    " session_nodes"
)


class QueryError(UsageError):
    """The query was refused or failed; nothing was changed."""

    code = "bad_query"


class LeftError(QueryError):
    """The client of a query left before it ended."""

    code = "left"


def run_query(
    database: Database,
    query: str,
    limit: int,
    timeout: float,
    gone: threading.Event | None = None,
) -> tuple[list[str], list[list[Any]], bool]:
    """Columns, at most `limit` rows in JSON values, and whether there were more.

    It ends when its time is over, and when `gone` tells that nobody waits for it.
    """
    gone = gone or threading.Event()
    with database.reading() as cursor:
        _refuse_all_but_one_select(cursor, query)
        done = threading.Event()
        watch = threading.Thread(
            target=_interrupt_later, args=(cursor, gone, timeout, done), daemon=True
        )
        watch.start()
        try:
            columns, rows = database.with_room_if_needed(lambda: _select(cursor, query, limit + 1))
        except duckdb.InterruptException as error:
            if gone.is_set():
                raise LeftError("nobody waits for the query any more") from error
            raise QueryError(
                f"the query took longer than {timeout:g} s", hint="ask for less, or raise --timeout"
            ) from error
        except duckdb.Error as error:
            database.refuse_if_damaged(error)
            if "'pytz'" in str(error):
                # Its message has a traceback in it: what reads such times is not installed.
                raise QueryError(
                    "a time with a zone cannot be given back as it is",
                    hint="CAST(… AS VARCHAR) gives its text, CAST(… AS TIMESTAMP) the time itself",
                ) from error
            raise QueryError(str(error).strip(), hint=VIEWS) from error
        finally:
            done.set()
            gone.set()
            watch.join()
    return columns, [[_json(value) for value in row] for row in rows[:limit]], len(rows) > limit


def _select(
    cursor: duckdb.DuckDBPyConnection, query: str, limit: int
) -> tuple[list[str], list[Row]]:
    cursor.execute("BEGIN TRANSACTION READ ONLY")
    try:
        cursor.execute(query)
        return [column[0] for column in cursor.description or []], cursor.fetchmany(limit)
    finally:
        with contextlib.suppress(duckdb.Error):
            cursor.execute("ROLLBACK")


def _interrupt_later(
    cursor: duckdb.DuckDBPyConnection, gone: threading.Event, timeout: float, done: threading.Event
) -> None:
    gone.wait(timeout)
    while not done.is_set():
        # Again and again: a query that is just about to begin forgets that it was interrupted.
        cursor.interrupt()
        done.wait(_INTERRUPT_AGAIN)


def _refuse_all_but_one_select(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    if "\x00" in query:
        raise QueryError("the query contains a NUL character")
    try:
        statements = cursor.extract_statements(query)
    except duckdb.Error as error:
        raise QueryError(str(error).strip()) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError("only a single SELECT is allowed", hint=VIEWS)


def _json(value: object) -> Any:
    """A DuckDB value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID | datetime.timedelta):
        return str(value)
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    return str(value)
