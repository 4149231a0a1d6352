"""`sql`: one read-only question to the documented views."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypedDict

from indexer.core.arguments import Count, Seconds
from indexer.store.query import run_query

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine
    from indexer.store.database import Database


class SqlDocument(TypedDict):
    """Result of `sql`."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


def sql(engine: Engine, query: str, *, limit: Count = 1000, timeout: Seconds = 10.0) -> SqlDocument:
    """One read-only SELECT on the documented views."""
    return ask(engine.database, query, limit=limit, timeout=timeout)


def ask(
    database: Database,
    query: str,
    *,
    limit: Count = 1000,
    timeout: Seconds = 10.0,
    gone: threading.Event | None = None,
) -> SqlDocument:
    """Answer a query for a client that may go away meanwhile, which `gone` tells."""
    columns, rows, truncated = run_query(database, query, limit, timeout, gone)
    return {"columns": columns, "rows": rows, "truncated": truncated}
