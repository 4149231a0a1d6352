"""Keep every reading in SQLite, for good."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from saltgauge.readings import Quality, Quantity, Reading

SCHEMA = """
CREATE TABLE IF NOT EXISTS readings (
    station  TEXT NOT NULL,
    at       TEXT NOT NULL,
    quantity TEXT NOT NULL,
    value    REAL NOT NULL,
    quality  TEXT NOT NULL,
    PRIMARY KEY (station, quantity, at)
) WITHOUT ROWID
"""


class ReadingStore:
    """A file of readings; a reading that is loaded twice is stored once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(self._connect()) as connection:
            connection.execute(SCHEMA)

    def add(self, readings: Iterable[Reading]) -> int:
        """Store readings and return how many were new."""
        rows = [(r.station, r.at.isoformat(), r.quantity, r.value, r.quality) for r in readings]
        with closing(self._connect()) as connection, connection:
            before = connection.total_changes
            connection.executemany("INSERT OR IGNORE INTO readings VALUES (?, ?, ?, ?, ?)", rows)
            return connection.total_changes - before

    def latest(self, station: str, quantity: Quantity) -> Reading | None:
        """Return the newest reading of a sensor that is no spike."""
        with closing(self._connect()) as connection:
            row = connection.execute(
                "SELECT at, value, quality FROM readings"
                " WHERE station = ? AND quantity = ? AND quality != 'spike'"
                " ORDER BY at DESC LIMIT 1",
                (station, quantity),
            ).fetchone()
        if row is None:
            return None
        at, value, quality = row
        return Reading(station, datetime.fromisoformat(at), quantity, value, Quality(quality))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)
