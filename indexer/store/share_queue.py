"""What the team's store has yet to be given, and how far its notes have been read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from indexer.core.frames import MemoKey
from indexer.store.database import Database, put_meta

_NOTES: Final = "shared_notes:"


class NotesStanding(NamedTuple):
    """How far a workspace has exchanged notes with one store."""

    number: int = 0
    token: bytes = b""
    """The place in the store's log up to which everything was taken in."""
    given: int = 0
    """The last batch here whose notes were all given; those of later ones are due."""
    at_ns: int = 0
    """When both were last known to be complete; 0 where they never were."""


class ShareQueue:
    """What is due. `FrameStore.record` adds to it, in the transaction that stores the results."""

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

    def notes_standing(self, store: str) -> NotesStanding:
        """How far notes have been exchanged with a store, by its name here."""
        rows = self._database.rows("SELECT value FROM meta WHERE key = ?", [_NOTES + store])
        if not rows:
            return NotesStanding()
        number, token, given, at_ns = json.loads(rows[0][0])
        return NotesStanding(number, bytes.fromhex(token), given, at_ns)

    def keep_notes_standing(self, store: str, now: NotesStanding) -> None:
        """Remember how far notes have been exchanged with a store."""
        value = json.dumps([now.number, now.token.hex(), now.given, now.at_ns])
        with self._database.transaction() as connection:
            put_meta(connection, _NOTES + store, value)

    def refused(self) -> int:
        """How many rows of the team's store were ever refused here."""
        rows = self._database.rows("SELECT value FROM meta WHERE key = 'shared_refused'")
        return int(rows[0][0]) if rows else 0

    def add_refused(self, count: int) -> None:
        """Add to the number of refused rows."""
        total = self.refused() + count
        with self._database.transaction() as connection:
            put_meta(connection, "shared_refused", str(total))
