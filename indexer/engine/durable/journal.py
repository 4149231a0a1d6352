"""The way of what cannot be recomputed: rows, then the journal, then the commit of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import UNFIT, OtherFormatError, apply_record, said_by
from indexer.errors import CorruptError
from indexer.store.database import DamagedError, UnwrittenError
from indexer.store.frames import FrameBatch
from indexer.store.journal import Journal, JournalFileError
from indexer.store.layout import Format

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.sessions.open_sessions import OpenSessions

_TOGETHER: Final = 500
"""Records redone in one transaction."""


_NOT_THE_RECORDS: Final = (DamagedError, JournalFileError, OtherFormatError, UnwrittenError)
"""Errors for which no record is to blame."""


class JournalBehindError(CorruptError):
    """The database knows of records that the journal does not have."""

    code = "journal_behind"


class UnappliedError(CorruptError):
    """A record of the journal cannot be applied to the database, now or ever."""

    code = "journal_unapplied"


class Records:
    """The way of records into the journal and the database."""

    def __init__(
        self,
        frames: Frames,
        sessions: Callable[[], OpenSessions],
        aside: dict[int, str] | None = None,
    ) -> None:
        self.frames = frames
        """What records are applied to."""
        self._sessions = sessions
        self._aside = aside
        """Takes the numbers of records that cannot be applied, with the reason; None: raise."""
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

    def open(
        self, folder: Path, form: Format, spare: Journal | None, *, read_only: bool = False
    ) -> None:
        """Open the journal, unless one is open already, and bring the database up to it."""
        applied = self.frames.store.journal_number()
        journal = spare or Journal.open(folder, applied=applied, read_only=read_only)
        try:
            if journal.last < applied:
                raise JournalBehindError(
                    f"the journal ends at record {journal.last}, the database has applied"
                    f" {applied}",
                    hint="run `merkle repair`; it keeps both and says what is gone",
                )
            if journal.last == 0 and not read_only:
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
        """Store what records say, and make them durable before the database is bound to them.

        What the database or the journal refuses is in neither.
        """
        if not records:
            return
        self.catch_up()
        batch = FrameBatch()
        for record in records:
            apply_record(self.frames, record, batch)
        before = self.journal.last
        batch.journal_number = before + len(records)

        def journal_them() -> None:
            if self.journal.last != before or self.journal.append(records) != before + len(records):
                raise JournalFileError("the journal was written to meanwhile")

        self._store(batch, journal_them)

    def apply_appended(self, records: Sequence[JsonObject]) -> None:
        """Store what the last records of the journal say, and whatever else it is ahead by."""
        before = self.journal.last - len(records)
        if not records or self._applied != before:
            self.catch_up()
            return
        batch = FrameBatch()
        for record in records:
            apply_record(self.frames, record, batch)
        batch.journal_number = self.journal.last
        self._store(batch)

    def catch_up(self) -> None:
        """Redo what an earlier write brought into the journal and not into the database."""
        if self._applied != self.journal.last:
            self._redo(self.frames.store.journal_number())

    def _redo(self, applied: int) -> int:
        """Apply the records that the database does not have yet; returns how many."""
        if applied >= self.journal.last:
            return 0
        done, records = 0, self.journal.records(after=applied)
        while group := list(islice(records, _TOGETHER)):
            try:
                self._redo_group(group)
            except _NOT_THE_RECORDS:
                raise
            except UNFIT:
                # One of them is to blame: the others must not suffer for it.
                for one in group:
                    self._redo_one(*one)
            done += len(group)
        return done

    def _redo_group(self, group: Sequence[tuple[int, JsonObject]]) -> None:
        batch = FrameBatch()
        for number, record in group:
            apply_record(self.frames, record, batch)
            batch.journal_number = number
        self._store(batch)

    def _redo_one(self, number: int, record: JsonObject) -> None:
        try:
            self._redo_group([(number, record)])
        except _NOT_THE_RECORDS:
            raise
        except UNFIT as error:
            reason = said_by(error)
            if self._aside is None:
                raise UnappliedError(
                    f"record {number} of the journal, of kind {record['kind']!r}, cannot be"
                    f" applied: {reason}",
                    hint="run `merkle repair`; it puts the record aside and keeps it",
                ) from error
            self._aside[number] = reason
            self._store(FrameBatch(journal_number=number))

    def _store(self, batch: FrameBatch, journal_them: Callable[[], None] | None = None) -> None:
        """Store a batch; what is in memory of sessions goes with it, or is forgotten."""
        # Not known until the transaction is through.
        self._applied = None
        if batch.session_records:
            with self._sessions().applying(batch):
                self.frames.heads.add(batch, journal_them)
        else:
            self.frames.heads.add(batch, journal_them)
        self._applied = batch.journal_number
