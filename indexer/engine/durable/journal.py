"""What cannot be recomputed goes to the journal first, then to the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import apply_record
from indexer.errors import CorruptError
from indexer.store.frames import FrameBatch
from indexer.store.journal import Journal
from indexer.store.layout import Format

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.sessions.open_sessions import OpenSessions

_TOGETHER: Final = 500
"""Records redone in one transaction."""


class JournalBehindError(CorruptError):
    """The database knows of records that the journal does not have."""

    code = "journal_behind"


class Records:
    """The way of records into the journal and from there into the database."""

    def __init__(self, frames: Frames, sessions: Callable[[], OpenSessions]) -> None:
        self._frames = frames
        self._sessions = sessions
        self._journal: Journal | None = None
        self._applied: int | None = None
        """The last record that the database has, where this process has seen it stored."""
        self.redone = 0
        """How many records the database had missed when it was opened."""

    @property
    def journal(self) -> Journal:
        """The journal itself."""
        assert self._journal is not None, "opened before anything is written"
        return self._journal

    def open(self, folder: Path, form: Format, spare: Journal | None) -> None:
        """Open the journal, unless one is open already, and bring the database up to it."""
        applied = self._frames.store.journal_number()
        journal = spare or Journal.open(folder, applied=applied)
        try:
            if journal.last < applied:
                raise JournalBehindError(
                    f"the journal ends at record {journal.last}, the database has applied"
                    f" {applied}",
                    hint="run `merkle repair`; it keeps both and says what is gone",
                )
            if journal.last == 0:
                record = {"kind": "format", "format": form.version, "hash": form.hash_name}
                journal.append([record])
            self._journal = journal
            self.redone = self._redo(applied)
        except BaseException:
            # The spare one is what answers go to while the database fails.
            if journal is not spare:
                journal.close()
            raise
        self._applied = journal.last

    def write(self, records: Sequence[JsonObject]) -> None:
        """Make records durable, then store what they say; every refusal comes before this."""
        if not records:
            return
        self.catch_up()
        batch = FrameBatch()
        for record in records:
            apply_record(self._frames, record, batch)
        batch.journal_number = self.journal.append(records)
        self._store(batch)

    def apply_appended(self, records: Sequence[JsonObject]) -> None:
        """Store what the last records of the journal say, and whatever else it is ahead by."""
        before = self.journal.last - len(records)
        if not records or self._applied != before:
            self.catch_up()
            return
        batch = FrameBatch()
        for record in records:
            apply_record(self._frames, record, batch)
        batch.journal_number = self.journal.last
        self._store(batch)

    def catch_up(self) -> None:
        """Redo what an earlier write brought into the journal and not into the database."""
        if self._applied != self.journal.last:
            self._redo(self._frames.store.journal_number())

    def _redo(self, applied: int) -> int:
        """Apply the records that the database does not have yet; returns how many."""
        if applied >= self.journal.last:
            return 0
        done, records = 0, self.journal.records(after=applied)
        while group := list(islice(records, _TOGETHER)):
            batch = FrameBatch()
            for number, record in group:
                apply_record(self._frames, record, batch)
                batch.journal_number = number
            self._store(batch)
            done += len(group)
        return done

    def _store(self, batch: FrameBatch) -> None:
        """Store a batch; sessions change in memory only now that the journal has their records."""
        # Not known until the transaction is through.
        self._applied = None
        if batch.session_records:
            with self._sessions().applying(batch):
                self._frames.heads.add(batch)
        else:
            self._frames.heads.add(batch)
        self._applied = batch.journal_number
