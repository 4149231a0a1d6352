"""The engine: what an owned workspace holds open. What is done with it stands in the rooms."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.core.changes import Change
from indexer.core.clock import Clock, SystemClock
from indexer.core.tree import Tree
from indexer.engine.documents import JsonObject
from indexer.engine.models.in_flight import InFlight
from indexer.engine.owned import Owned
from indexer.engine.tree.disk import Disk, was_made_here
from indexer.engine.tree.recorded import RecordedTree
from indexer.engine.tree.unchanged import CONFIG, JOURNAL
from indexer.errors import MerkleError
from indexer.store.binding import ForeignIndexError
from indexer.store.database import Database
from indexer.store.layout import initialise, record_format
from indexer.store.lock import DEFAULT_WAIT
from indexer.store.noted import LastKnown, Noted
from indexer.store.roots import Root
from indexer.store.standing import (
    Standing,
    forget_standing,
    journal_stamp,
    read_standing,
    write_listings,
    write_standing,
)
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.core.tokens import TiktokenCounter
    from indexer.engine.code.questions import Graphs
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.coverage import Coverage
    from indexer.engine.frames.note_labels import NoteLabels
    from indexer.engine.frames.opened import Frames
    from indexer.engine.make.events import Event, Tell
    from indexer.engine.models.intake import Intake
    from indexer.engine.search.corpus import Corpora
    from indexer.engine.sessions.open_sessions import OpenSessions
    from indexer.engine.team.exchange import Exchange
    from indexer.engine.tree.unchanged import FirstLook
    from indexer.store.journal import Journal


def load_frames() -> tuple[type[Frames], type[Records]]:
    """What frames, and the journal with them, are opened by."""
    # Imported late: a scan needs none of it.
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames

    return Frames, Records


class Engine:
    """One workspace, owned by this process while it is open."""

    def __init__(
        self,
        root: Path,
        *,
        role: str = "command",
        wait: float = DEFAULT_WAIT,
        clock: Clock | None = None,
        owned: Owned | None = None,
    ) -> None:
        """Own it, unless that was done already, and open it."""
        self._owned = owned = owned or Owned(root, role=role, wait=wait)
        self.root, self.layout = root, owned.layout
        self.format, self.algorithm = owned.format, owned.algorithm
        self.read_only = owned.read_only
        self.clock = clock or SystemClock()
        self.disk = Disk(owned, self.clock)
        try:
            self._standing = read_standing(self.layout)
            self.database = self._open_database()
        except BaseException:
            self._owned.release()
            raise
        try:
            self.trees = TreeStore(self.database, self.algorithm)
            if not self.format.ids:
                self._bind_older()
            form = self.format
            known = LastKnown(form.version, form.hash_name, form.ids[0])
            self._noted = Noted(self.layout.noted, known)
            self.trees = self._open_trees()
        except BaseException:
            self.database.close(fold=False)
            self._owned.release()
            raise
        self.recorded = RecordedTree(self.trees)
        self._counts: tuple[int, JsonObject] | None = None
        self.in_flight = InFlight()
        self._opening = threading.RLock()
        self._frames: Frames | None = None
        self._records: Records | None = None
        self._corpora: Corpora | None = None
        self._asked = False
        self._sessions: OpenSessions | None = None
        self._note_labels: NoteLabels | None = None
        self._exchange: tuple[object, Exchange | None] | None = None
        self._spare_journal: Journal | None = None
        """Open since before the database failed, until it has taken in what is there."""
        self.subscribers: list[Callable[[Root, list[Change]], None]] = []
        self.frame_subscribers: list[Tell] = []
        self._on_writing_thread: Callable[[Callable[[], None]], None] | None = None
        self.aside: dict[int, str] | None = None
        """Where `repair` gathers the journal records that cannot be applied; None: they raise."""
        self.served = False
        """Whether a service keeps the tree in memory true, so that reads look at files only."""
        self.as_scanned = False
        """Whether everything has just been looked at, and what is made now is made from that."""
        self.look_at: Callable[[Iterable[str]], None] | None = None
        """How a service looks at files that are not what is recorded of them."""
        self.contents_compared: Callable[[], bool] | None = None
        """Tells whether another process found all files to have the contents that are recorded."""
        self.in_turns = False
        """Whether others wait for the writing thread, so that nothing may take it for long."""

    @classmethod
    def create(cls, root: Path, *, hash_name: str | None = None, role: str = "command") -> Engine:
        """Initialise the workspace where needed and open it."""
        initialise(root, hash_name)
        return cls(root, role=role)

    def _bind_older(self) -> None:
        """Note where an index without an id was made, once it has shown that it was here."""
        if not was_made_here(self.root, self.trees, self.algorithm.size):
            raise ForeignIndexError(self.layout.folder)
        self.format = record_format(self.root, self.format)

    def _open_database(self) -> Database:
        return Database(
            self.layout.database,
            read_only=self.read_only,
            before_writing=lambda: forget_standing(self.layout),
        )

    def _open_trees(self) -> TreeStore:
        """What is recorded; and what was and is gone, before anything is recorded after it."""
        trees = TreeStore(self.database, self.algorithm, self._noted)
        trees.notice_loss(self.clock.now_ns())
        return trees

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database, then let go of the lock."""
        ours, standing = False, None
        try:
            with contextlib.suppress(MerkleError):
                # No reason to write where another workspace may be now.
                self.disk.check_root()
                ours = True
                if not self.read_only:
                    self.recorded.flush()
                    standing = self._moved_standing()
        finally:
            self._close_exchange()
            if self._records is not None:
                self._records.journal.close()
            if self._spare_journal is not None:
                self._spare_journal.close()
            self.database.close(fold=ours)
            self._noted.close()
            if standing is not None:
                self._write_standing(standing)
            self._owned.release()

    def _moved_standing(self) -> Standing | None:
        """What stands when this is closed; None where that is written already, or not known."""
        head, old, writes = self.trees.head(), self._standing, self.database.writes
        counts = self._counts[1] if self._counts and self._counts[0] == writes else None
        if head is None or (old is not None and not writes and counts is None):
            return None
        if old is not None and not self.trees.relisted:
            listed: str | None = old.listed
        elif self.recorded.looked_at or self.recorded.in_memory:
            listings = self.recorded.listings()
            listed = None if listings is None else write_listings(self.layout, listings)
        else:
            return None
        return Standing(head, self.recorded.remarks, listed, counts) if listed else None

    def _write_standing(self, standing: Standing) -> None:
        counts = standing.counts
        if counts is not None:
            counts = {**counts, JOURNAL: journal_stamp(self.layout)}
        write_standing(self.layout, standing._replace(counts=counts))

    def keep_counts(self, counts: JsonObject) -> None:
        """Hold on to what `status` counted of what is recorded now, for the next one."""
        self._counts = (self.database.writes, {**counts, CONFIG: self.frames.declared.digest()})

    def begin_with(self, first: FirstLook) -> None:
        """Take over what was seen before the database was opened, or while it was."""
        self.disk.scopes, self.disk.first = first.scopes, first
        if first.standing is not None:
            self.recorded.remember(first.listings, ends_soon=not self.in_turns)

    def reopen(self) -> None:
        """Open the database again after it failed, and forget what was in memory."""
        self.database.close()
        self.disk.first = self._standing = self._counts = None
        self.database = self._open_database()
        if self.in_turns:
            self.database.serve()
        self.trees = self._open_trees()
        self.recorded = RecordedTree(self.trees)
        self._close_exchange()
        if self._records is not None:
            journal = self._records.journal
            if journal.takes_records:
                self._spare_journal = journal
            else:
                journal.close()
        self._frames = self._records = self._corpora = self._sessions = self._note_labels = None

    @property
    def tree(self) -> Tree:
        """The recorded tree, loaded on first use."""
        return self.recorded.tree

    # -- opened on first use: a scan needs none of it

    @cached_property
    def counter(self) -> TiktokenCounter:
        """Counts tokens; its tables are loaded when the first text is counted."""
        from indexer.core.tokens import DEFAULT_TOKENIZER, TiktokenCounter

        return TiktokenCounter(encoding_name=DEFAULT_TOKENIZER)

    @property
    def frames(self) -> Frames:
        """Frames, heads and declared types, with everything in them that the journal has."""
        if self._frames is None:
            self._open_frames()
            assert self._frames is not None
        return self._frames

    @property
    def records(self) -> Records:
        """What cannot be recomputed: the journal, and the way of its records to the database."""
        if self._records is None:
            self._open_frames()
            assert self._records is not None
        return self._records

    def _open_frames(self) -> None:
        Frames, Records = load_frames()
        with self._opening:
            if self._frames is not None:
                return
            frames = Frames(self.root, self.algorithm, self.database, self.clock, self.counter)
            records = Records(frames, lambda: self._sessions_of(records), self.aside)
            records.open(
                self.layout.journal, self.format, self._spare_journal, read_only=self.read_only
            )
            # Only now: nobody may read what the journal has more of.
            self._spare_journal = None
            self._records, self._frames = records, frames

    @property
    def takes_records(self) -> bool:
        """Whether the journal is open and nothing is wrong with it that opening would mend."""
        return self._records is not None and self._records.journal.takes_records

    def journal_now(self, records: Sequence[JsonObject]) -> None:
        """Make records durable even while the database fails; it takes them from there later."""
        if records:
            (self._spare_journal or self.records.journal).append(records)

    @property
    def corpora(self) -> Corpora:
        """The live heads as a search sees them."""
        # Imported late: most commands search nothing.
        from indexer.engine.search.corpus import Corpora

        with self._opening:
            if self._corpora is None:
                self._corpora = Corpora(
                    self.frames, self.recorded, self.on_writing_thread, self.is_first_question
                )
            return self._corpora

    def is_first_question(self) -> bool:
        """Whether this process was asked nothing yet and may never be again: a command is not."""
        first, self._asked = not (self._asked or self.served), True
        return first

    @cached_property
    def graphs(self) -> Graphs:
        """What names mean, for questions about code."""
        # Imported late: most commands ask nothing about code.
        from indexer.engine.code.questions import Graphs

        return Graphs(lambda: self.frames, self.on_writing_thread, lambda: self.served)

    @cached_property
    def coverage(self) -> Coverage:
        """How much is known where, for `ls`."""
        # Imported late: most commands do without.
        from indexer.engine.frames.coverage import Coverage

        return Coverage(lambda: self.frames)

    @cached_property
    def intake(self) -> Intake:
        """The way in for what models answered."""
        # Imported late: most workspaces declare no model.
        from indexer.engine.models.intake import Intake

        return Intake(self.in_flight, self.journal_now, lambda: self.records, lambda: self.exchange)

    @property
    def note_labels(self) -> NoteLabels:
        """What subscribers were told of notes, kept on the writing thread."""
        # Imported late: without subscribers nobody is told.
        from indexer.engine.frames.note_labels import NoteLabels

        if self._note_labels is None:
            self._note_labels = NoteLabels(self.frames)
        return self._note_labels

    @property
    def sessions(self) -> OpenSessions:
        """The sessions, which most commands have nothing to do with."""
        return self._sessions_of(self.records)

    def _sessions_of(self, records: Records) -> OpenSessions:
        # Imported late: most workspaces have no session.
        from indexer.engine.sessions.open_sessions import OpenSessions

        with self._opening:
            if self._sessions is None:
                self._sessions = OpenSessions(self.database, records, self.clock, self.counter)
            return self._sessions

    @property
    def exchange(self) -> Exchange | None:
        """The dealings with the team, where merkle.toml or the environment names its store."""
        settings = self.frames.declared.settings
        with self._opening:
            if self._exchange is None or self._exchange[0] is not settings:
                self._renew_exchange()
            assert self._exchange is not None
            return self._exchange[1]

    def _renew_exchange(self) -> None:
        """Deal with the team that the settings name; the same as before, its leases go on."""
        settings = self.frames.declared.settings
        old = self._exchange[1] if self._exchange is not None else None
        new = None
        if settings.values["shared.url"] is not None:
            # Imported late: most workspaces have no team.
            from indexer.engine.team import exchange as team

            member = team.membership(settings)
            if old is not None and old.client.member == member:
                self._exchange = (settings, old)
                return
            new = team.exchange(self.database, self.frames.heads, member) if member else None
        if old is not None:
            old.close()
        self._exchange = (settings, new)

    def _close_exchange(self) -> None:
        if self._exchange is not None and self._exchange[1] is not None:
            self._exchange[1].close()
        self._exchange = None

    # -- under a service

    def load(self) -> None:
        """Redo what the journal has more of, and load the heads, before several threads ask."""
        _ = self.frames.heads.slots

    def serve(
        self,
        on_writing_thread: Callable[[Callable[[], None]], None] | None = None,
        look_at: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        """From now on a service keeps the tree true, and reads may come from other threads.

        What such a read has to write, or to look at, goes through the functions that are given.
        """
        self.served = self.in_turns = True
        self.look_at = look_at
        self._on_writing_thread = on_writing_thread
        self.counter.many = True
        self.load()
        self.database.serve()

    @contextlib.contextmanager
    def looking_itself(self) -> Iterator[None]:
        """While this lasts, events cannot be relied on: reads look at the disk."""
        before, self.served = self.served, False
        try:
            yield
        finally:
            self.served = before

    def on_writing_thread(self, work: Callable[[], None]) -> None:
        """Run something that writes: here, or where a service does all its writing."""
        if self._on_writing_thread is None:
            work()
        else:
            self._on_writing_thread(work)

    # -- telling

    @property
    def told_tree(self) -> Tree | None:
        """The tree before a batch, where somebody is to be told what the batch did to notes."""
        return self.tree if self.frame_subscribers and self.trees.head() is not None else None

    def publish(
        self, root: Root, changes: list[Change], carried: list[Event], before: Tree | None
    ) -> None:
        """Tell what a batch changed, then which notes came along and which hold no longer."""
        if changes:
            for subscriber in self.subscribers:
                subscriber(root, changes)
            moved = list(carried)
            if before is not None:
                moved += self.note_labels.after_batch(before, self.tree, changes, carried)
            self.publish_frames(sorted(moved, key=lambda event: event.path))

    def publish_frames(self, events: list[Event]) -> None:
        """Tell subscribers which frames moved, and which notes that were bound to them."""
        if events and self.frame_subscribers:
            told = [*events, *self.note_labels.after_frames(self.tree, events)]
            for subscriber in self.frame_subscribers:
                subscriber(told)
