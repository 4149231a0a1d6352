"""Open sessions: loaded when needed, the least used put away, written to by one thread only."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from indexer.core.canonical import canonical_json
from indexer.core.clock import Clock
from indexer.core.garbage import no_cycle_collection
from indexer.core.tokens import TiktokenCounter
from indexer.engine.documents import JsonObject
from indexer.errors import CorruptError, UsageError
from indexer.sessions import Plan, Session, record_from_json
from indexer.sessions.apply import open_state
from indexer.sessions.stored import (
    Counters,
    VersionRow,
    all_rows,
    changed_rows,
    counters_of,
    load_state,
)
from indexer.sessions.stored_records import RecordRow, row_of
from indexer.store.database import Database
from indexer.store.frames import FrameBatch
from indexer.store.sessions import SessionHead, SessionRows, SessionStore

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records

T = TypeVar("T")

KIND: Final = "session"
"""The kind of a journal record that holds records of a session."""

KEPT: Final = 16
"""Sessions that stay open, at most."""

KEPT_RECORDS: Final = 40_000
"""Records of all open sessions together, at most, about 5 KB each; the one used last stays."""


class SessionUnknownError(UsageError):
    """No session has that name."""

    code = "E_SESSION_UNKNOWN"


class SessionTakenError(UsageError):
    """There is a session of that name already."""

    code = "E_SESSION_EXISTS"


class OpenSession:
    """A session in memory, and the lock that keeps readers and its next change apart."""

    def __init__(self, sid: int, name: str, session: Session) -> None:
        self.sid = sid
        self.name = name
        self.session = session
        self.lock = threading.RLock()
        self.busy = False
        """Whether memory is ahead of the database: it must not be loaded anew meanwhile."""


class Request(NamedTuple):
    """Which request of a client a change belongs to, so that asking again does not do it again."""

    once: str
    again: bool


class OpenSessions:
    """The sessions of one workspace."""

    def __init__(
        self, database: Database, records: Records, clock: Clock, counter: TiktokenCounter
    ) -> None:
        self._records = records
        self.clock = clock
        self.counter = counter
        self.store = SessionStore(database)
        self.request: Request | None = None
        """The request that is being carried out; only the writing thread has one."""
        self._lock = threading.RLock()
        self._open: OrderedDict[str, OpenSession] = OrderedDict()
        self._names: dict[str, int] | None = None
        self._blobs: set[str] | None = None
        self._draft: Session | None = None
        """The new session whose records are being journalled, to be kept as it is."""

    @contextmanager
    def requested(self, once: str, again: bool) -> Iterator[None]:
        """While this lasts, what is written is known by a token."""
        self.request = Request(once, again)
        try:
            yield
        finally:
            self.request = None

    # -- reading, from any thread

    def read(self, name: str, work: Callable[[Session], T]) -> T:
        """What a reader makes of a session, which stands still meanwhile."""
        entry = self.open(name)
        try:
            with entry.lock:
                return work(entry.session)
        finally:
            self.trim()

    def open(self, name: str) -> OpenSession:
        """The session of that name, from memory or from the database."""
        with self._lock:
            entry = self._open.get(name)
            if entry is None:
                entry = self._open[name] = self.load(name)
            self._open.move_to_end(name)
            return entry

    def load(self, name: str) -> OpenSession:
        """The session as it is stored, apart from the one that others may use."""
        sid = self.names.get(name)
        if sid is None:
            raise SessionUnknownError(
                f"there is no session {name!r}", hint="`merkle session list` names them all"
            )
        with no_cycle_collection():
            stored = self.store.load(sid)
            if stored is None:
                raise CorruptError(f"session {name!r} has lost its log", hint="run `merkle repair`")
            head = stored.head
            released = tuple(json.loads(head.released)) if head.released else ()
            state = load_state(
                [RecordRow(*row) for row in stored.records],
                (VersionRow(*row) for row in stored.versions),
                stored.blobs,
                Counters(head.working, head.creation_index, head.last_ns, released),
            )
        return OpenSession(sid, name, self.session_of(state))

    def session_of(self, state: Any) -> Session:
        """A state with this workspace's clock and counter."""
        return Session(state, clock=self.clock, counter=self.counter)

    @property
    def names(self) -> dict[str, int]:
        """The number of every session by its name."""
        with self._lock:
            if self._names is None:
                self._names = self.store.names()
            return self._names

    def trim(self) -> None:
        """Put away what was not used for longest, beyond what may stay open."""
        with self._lock:
            held = sum(len(entry.session.state.records) for entry in self._open.values())
            for name in list(self._open)[:-1]:
                if len(self._open) <= KEPT and held <= KEPT_RECORDS:
                    return
                if not self._open[name].busy:
                    held -= len(self._open.pop(name).session.state.records)

    # -- writing, from the owner's writing thread

    def write(self, name: str, plan: Callable[[Session], Plan]) -> tuple[Session, Plan]:
        """Plan one record on a session, then make it durable and true."""
        self._records.catch_up()
        with self._lock:
            entry = self.open(name)
            # What was planned on must be what is changed: nobody may put it away in between.
            entry.busy = True
        try:
            done = self._done_before(entry)
            if done is not None:
                record = entry.session.state.records[done]
                return entry.session, Plan(record)
            planned = plan(entry.session)
            self._journal(name, [planned.record.to_json()])
        finally:
            entry.busy = False
        return entry.session, planned

    def write_several(
        self, name: str, work: Callable[[Session], T], again: Callable[[Session, int], T]
    ) -> T:
        """Let something change a copy, then make all that it did durable and true at once.

        `again` tells the same of what an interrupted request has done already.
        """
        self._records.catch_up()
        entry = self.load(name)
        draft = entry.session
        done = self._done_before(entry)
        if done is not None:
            return again(draft, done)
        before = len(draft.state.records)
        result = work(draft)
        records = [r.to_json() for r in draft.state.records.since(before)]
        if records:
            self._journal(name, records)
        return result

    def create(self, name: str, session: Session) -> Session:
        """Keep a new session, whole, under a name that is free."""
        self._records.catch_up()
        if name in self.names:
            entry = self.open(name)
            if self._done_before(entry) is not None:
                return entry.session
        self.check_free(name)
        self._draft = session
        try:
            self._journal(name, [record.to_json() for record in session.state.records])
        finally:
            self._draft = None
        return self.open(name).session

    def check_free(self, name: str) -> None:
        """Refuse a name that a session has."""
        if name in self.names:
            raise SessionTakenError(
                f"there is a session {name!r} already", hint="choose another name"
            )

    def _done_before(self, entry: OpenSession) -> int | None:
        """The last record of this very request, where it was cut off after it had been done."""
        request = self.request
        if request is None or not request.again:
            return None
        return self.store.answered(entry.sid, request.once)

    def _journal(self, name: str, records: Sequence[JsonObject]) -> None:
        item: JsonObject = {"kind": KIND, "name": name, "records": list(records)}
        if self.request is not None:
            item["once"] = self.request.once
        self._records.write([item])

    @contextmanager
    def applying(self, batch: FrameBatch) -> Iterator[None]:
        """Apply a batch's journalled records in memory, and add their rows to it.

        Whatever fails between here and the end of the transaction makes memory forget: the
        journal is ahead then, and redone before the next write.
        """
        touched: dict[str, OpenSession] = {}
        rows = batch.sessions = SessionRows()
        try:
            for item in batch.session_records:
                self._apply(item, rows, touched)
                if "once" in item:
                    sid, last = touched[item["name"]].sid, item["records"][-1]["seq"]
                    rows.requests.append((sid, last, item["once"]))
            for entry in touched.values():
                rows.heads[entry.sid] = _head(entry)
            yield
        except BaseException:
            with self._lock:
                for name in touched:
                    self._open.pop(name, None)
                self._names = self._blobs = None
            raise
        finally:
            for entry in touched.values():
                entry.busy = False
        self.trim()

    def _apply(
        self, item: Mapping[str, Any], rows: SessionRows, touched: dict[str, OpenSession]
    ) -> None:
        name, records = item["name"], [record_from_json(data) for data in item["records"]]
        if records[0].seq == 0:
            self._begin(name, records, rows, touched)
            return
        entry = touched.setdefault(name, self.open(name))
        entry.busy = True
        if records[0].seq != len(entry.session.state.records):
            raise CorruptError(
                f"the journal lacks records of session {name!r} before number {records[0].seq}",
                hint="run `merkle repair`",
            )
        with entry.lock:
            for record in records:
                delta = entry.session.apply(record)
                state = entry.session.state
                rows.records.append((entry.sid, row_of(record)))
                self._keep_blob(record, rows)
                rows.versions += [(entry.sid, record.seq, r) for r in changed_rows(state, delta)]

    def _begin(
        self, name: str, records: Sequence[Any], rows: SessionRows, touched: dict[str, OpenSession]
    ) -> None:
        """A new session, whose rows are written as it stands at the end."""
        if name in self.names:
            raise CorruptError(
                f"the journal begins session {name!r} twice", hint="run `merkle repair`"
            )
        session = self._draft
        if session is None or list(session.state.records.since(-1)) != [records[-1]]:
            session = self.session_of(open_state(records[0]))
            for record in records[1:]:
                session.apply(record)
        session.take_delta()
        with self._lock:
            sid = max(self.names.values(), default=0) + 1
            entry = OpenSession(sid, name, session)
            entry.busy = True
            touched[name] = self._open[name] = entry
            self.names[name] = sid
        rows.names.append((sid, name))
        for record in records:
            rows.records.append((sid, row_of(record)))
            self._keep_blob(record, rows)
        last = records[-1].seq
        rows.versions += [(sid, last, row) for row in all_rows(session.state)]

    def _keep_blob(self, record: Any, rows: SessionRows) -> None:
        content = getattr(record, "content", None)
        if content is None:
            return
        if self._blobs is None:
            self._blobs = self.store.known_blobs()
        if record.content_hash not in self._blobs:
            self._blobs.add(record.content_hash)
            rows.blobs[record.content_hash] = canonical_json(dict(content)).decode()


def _head(entry: OpenSession) -> SessionHead:
    counters = counters_of(entry.session.state)
    released = json.dumps(counters.released) if counters.released else None
    return SessionHead(
        entry.sid, counters.working, counters.creation_index, counters.last_ns, released
    )
