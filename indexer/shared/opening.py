"""From an address to the store it names."""

from __future__ import annotations

from pathlib import Path

from indexer.shared.address import SQLITE, kind_of, sqlite_path
from indexer.shared.base import SharedError, SharedStore


class NotInstalledError(SharedError):
    """The driver for this kind of store is not there."""

    code = "shared_driver"


def open_store(url: str, namespace: str, timeout: float) -> SharedStore:
    """Connect; every failure is a SharedError that shows no secret."""
    if kind_of(url) == SQLITE:
        from indexer.shared.sqlite import SqliteStore

        return SqliteStore(Path(sqlite_path(url)), namespace, timeout)
    try:
        # Imported late: the driver is an optional extra.
        from indexer.shared.postgres import PostgresStore
    except ImportError as error:
        raise NotInstalledError(
            f"a PostgreSQL store needs the package {error.name or 'psycopg'}",
            hint="install it with `pip install 'merkle-indexer[shared]'`",
        ) from None
    return PostgresStore(url, namespace, timeout)
