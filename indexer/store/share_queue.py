"""The queue of results that were computed here and that the team's store has not been given yet."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.core.frames import MemoKey
from indexer.store.database import Database, put_meta


class ShareQueue:
    """The queue in the database. `FrameStore.record` adds to it, with the results themselves."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self) -> dict[MemoKey, int]:
        """The keys that are due, each with its highest generation."""
        rows = self._database.rows(
            "SELECT key, max(generation) FROM share_due GROUP BY key ORDER BY key"
        )
        return {MemoKey(key): generation for key, generation in rows}

    def count(self) -> int:
        """How many keys are due."""
        return int(self._database.rows("SELECT count(DISTINCT key) FROM share_due")[0][0])

    def forget(self, given: Iterable[MemoKey]) -> None:
        """Take keys that have been handed over out of the queue."""
        keys = list(given)
        if keys:
            with self._database.transaction() as connection:
                connection.execute(
                    "DELETE FROM share_due WHERE key IN (SELECT unnest(?::BLOB[]))", [keys]
                )

    def refused(self) -> int:
        """How many rows of the team's store were ever refused here."""
        rows = self._database.rows("SELECT value FROM meta WHERE key = 'shared_refused'")
        return int(rows[0][0]) if rows else 0

    def add_refused(self, count: int) -> None:
        """Add to the number of refused rows."""
        total = self.refused() + count
        with self._database.transaction() as connection:
            put_meta(connection, "shared_refused", str(total))
