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
from indexer.engine.durable.records import SESSION
from indexer.engine.frames.agents import check_writer
from indexer.engine.sessions.names import SessionNames, SessionUnknownError
from indexer.errors import CorruptError
from indexer.sessions import OpRecord, Plan, Record, Session, record_from_json
from indexer.sessions.keeping import DELETE, NAMING, PURGE, RENAME, RESTORE, Named
from indexer.sessions.session import replay_state
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
from indexer.store.frames import FrameBatch, FrameStore
from indexer.store.sessions import SessionHead, SessionName, SessionRows, SessionStore

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records

T = TypeVar("T")

KEPT: Final = 16
"""Sessions that stay open, at most."""

KEPT_RECORDS: Final = 40_000
"""Records of all open sessions together, at most, about 5 KB each; the one used last stays."""


class OpenSession:
    """A session in memory, and the lock that keeps readers and its next change apart."""

    def __init__(self, sid: int, session: Session) -> None:
        self.sid = sid
        self.session = session
        self.lock = threading.RLock()
        self.busy = False
        """Whether memory is ahead of the database: it must not be loaded anew meanwhile."""


class MarkedRequest(NamedTuple):
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
        self.store, self._agents = SessionStore(database), FrameStore(database)
        self.request: MarkedRequest | None = None
        """The request that is being carried out; only the writing thread has one."""
        self._lock = threading.RLock()
        self._open: OrderedDict[int, OpenSession] = OrderedDict()
        self._names: SessionNames | None = None
        self._blobs: set[str] | None = None
        self._draft: Session | None = None
        """The new session whose records are being journalled, to be kept as it is."""

    @contextmanager
    def requested(self, once: str, again: bool) -> Iterator[None]:
        """While this lasts, what is written is known by a token."""
        self.request = MarkedRequest(once, again)
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
            return self._open_sid(self.names.sid(name))

    def _open_sid(self, sid: int) -> OpenSession:
        with self._lock:
            entry = self._open.get(sid)
            if entry is None:
                entry = self._open[sid] = self._load(sid)
            self._open.move_to_end(sid)
            return entry

    def _load(self, sid: int) -> OpenSession:
        """A session as it is stored, apart from the one that others may use."""
        with no_cycle_collection():
            stored = self.store.load(sid)
            if stored is None:
                name = self.names.named(sid).name
                raise CorruptError(f"session {name!r} has lost its log", hint="run `merkle repair`")
            head = stored.head
            released = tuple(json.loads(head.released)) if head.released else ()
            state = load_state(
                [RecordRow(*row) for row in stored.records],
                (VersionRow(*row) for row in stored.versions),
                stored.blobs,
                Counters(head.working, head.creation_index, head.last_ns, released),
            )
        return OpenSession(sid, self.session_of(state))

    def apart(self, name: str) -> Session:
        """A session as it is stored, for somebody to try something on."""
        return self._load(self.names.sid(name)).session

    def session_of(self, state: Any) -> Session:
        """A state with this workspace's clock and counter."""
        return Session(state, clock=self.clock, counter=self.counter)

    @property
    def names(self) -> SessionNames:
        """What the sessions are called."""
        with self._lock:
            if self._names is None:
                self._names = SessionNames(self.store.names())
            return self._names

    def trim(self) -> None:
        """Put away what was not used for longest, beyond what may stay open."""
        with self._lock:
            held = sum(len(entry.session.state.records) for entry in self._open.values())
            for sid in list(self._open)[:-1]:
                if len(self._open) <= KEPT and held <= KEPT_RECORDS:
                    return
                if not self._open[sid].busy:
                    held -= len(self._open.pop(sid).session.state.records)

    # -- writing, from the owner's writing thread

    def author(self, agent: str | None) -> str | None:
        """In whose name a session is changed: nobody's, or that of an agent that may write."""
        if agent is not None:
            check_writer(self._agents, agent)
        return agent

    def write(
        self, name: str, plan: Callable[[Session], Plan], author: str | None = None
    ) -> tuple[Session, Plan]:
        """Plan one record on a session, then make it durable and true."""
        session, plans = self.write_together(name, lambda session: [plan(session)], author)
        return session, plans[-1]

    def write_together(
        self, name: str, plan: Callable[[Session], list[Plan]], author: str | None
    ) -> tuple[Session, list[Plan]]:
        """Plan records that do not depend on each other, then make all durable and true."""
        self._records.catch_up()
        done = self._answered()
        if done is not None:
            return done
        return self._write(name, self.names.sid(name), plan, author)

    def _write(
        self,
        name: str,
        sid: int,
        plan: Callable[[Session], list[Plan]],
        author: str | None,
    ) -> tuple[Session, list[Plan]]:
        with self._lock:
            entry = self._open_sid(sid)
            # What was planned on must be what is changed: nobody may put it away in between.
            entry.busy = True
        try:
            entry.session.author = author
            planned = plan(entry.session)
            self._journal(name, [each.record.to_json() for each in planned])
        finally:
            entry.busy = False
            entry.session.author = None
        return entry.session, planned

    def write_several(
        self,
        name: str,
        work: Callable[[Session], T],
        again: Callable[[Session, int], T],
        author: str | None,
    ) -> T:
        """Let something change a copy, then make all that it did durable and true at once.

        `again` tells the same of what an interrupted request has done already.
        """
        self._records.catch_up()
        done = self._answered()
        if done is not None:
            return again(done[0], done[1][-1].record.seq)
        draft = self.apart(name)
        before = len(draft.state.records)
        draft.author = author
        result = work(draft)
        records = [r.to_json() for r in draft.state.records.since(before)]
        if records:
            self._journal(name, records)
        return result

    def create(self, name: str, session: Session, *, of: str | None = None) -> Session:
        """Keep a new session, whole, under a name that is free.

        One that branches off another, which `of` names, is journalled from there on.
        """
        self._records.catch_up()
        done = self._answered()
        if done is not None:
            return done[0]
        self.names.check_free(name)
        records = [record.to_json() for record in session.state.records]
        self._draft = session
        try:
            if of is None:
                self._journal(name, records)
            else:
                self._journal(name, records[-1:], of=of, shared=len(records) - 1)
        finally:
            self._draft = None
        return self.open(name).session

    def check_free(self, name: str) -> None:
        """Refuse a name that a session has, unless this very request may have given it one."""
        if self.request is None or not self.request.again:
            self.names.check_free(name)

    def rename(self, name: str, new: str, author: str | None = None) -> None:
        """Call a session something else."""
        self._records.catch_up()
        if self._answered() is None:
            sid = self.names.sid(name)
            self.names.check_free(new)
            self._write(
                name, sid, lambda s: [s.plan_naming(RENAME, **{"from": name, "to": new})], author
            )

    def delete(self, name: str, author: str | None = None) -> None:
        """Take a session away; until it is purged it can be brought back."""
        self.write(name, lambda s: s.plan_naming(DELETE), author)

    def restore(self, name: str, new: str | None = None, author: str | None = None) -> str:
        """Bring back the session that was deleted last of those that had a name."""
        self._records.catch_up()
        done = self._answered()
        if done is None:
            found = self.names.deleted(name)
            if not found:
                raise SessionUnknownError(
                    f"no deleted session was called {name!r}",
                    hint="`merkle session list --deleted` names them all",
                )
            to = name if new is None else new
            self.names.check_free(to)
            done = self._write(
                name,
                found[0],
                lambda s: [s.plan_naming(RESTORE, **{"from": name, "to": to})],
                author,
            )
        record = done[1][-1].record
        assert isinstance(record, OpRecord)
        return str(record.data["to"])

    def purge(self) -> int:
        """Let deleted sessions go for good; returns how many there were."""
        self._records.catch_up()
        found = self.names.deleted()
        for sid in found:
            self._write(self.names.named(sid).name, sid, lambda s: [s.plan_naming(PURGE)], None)
        return len(found)

    def _answered(self) -> tuple[Session, list[Plan]] | None:
        """What this very request did, where it was cut off after it had been done."""
        request = self.request
        if request is None or not request.again:
            return None
        found = self.store.answered(request.once)
        if found is None:
            return None
        session = self._open_sid(found[0]).session
        return session, [Plan(session.state.records[found[1]])]

    def _journal(self, name: str, records: Sequence[JsonObject], **more: Any) -> None:
        item: JsonObject = {"kind": SESSION, "name": name, **more, "records": list(records)}
        if self.request is not None:
            item["once"] = self.request.once
        self._records.write([item])

    @contextmanager
    def applying(self, batch: FrameBatch) -> Iterator[None]:
        """Apply a batch's journalled records in memory, and add their rows to it.

        Whatever fails between here and the end of the transaction makes memory forget: the
        journal is ahead then, and redone before the next write.
        """
        touched: dict[int, OpenSession] = {}
        rows = batch.sessions = SessionRows()
        try:
            for item in batch.session_records:
                entry = self._apply(item, rows)
                touched[entry.sid] = entry
                if "once" in item:
                    rows.requests.append((entry.sid, item["records"][-1]["seq"], item["once"]))
            for entry in touched.values():
                rows.heads[entry.sid] = _head(entry)
            yield
        except BaseException:
            with self._lock:
                # Whatever was written to, as far as it came.
                for sid in [sid for sid, entry in self._open.items() if entry.busy]:
                    del self._open[sid]
                self._names = self._blobs = None
            raise
        finally:
            for entry in touched.values():
                entry.busy = False
        with self._lock:
            for sid in rows.purged:
                self._open.pop(sid, None)
                self._blobs = None
        self.trim()

    def _apply(self, item: Mapping[str, Any], rows: SessionRows) -> OpenSession:
        name, records = item["name"], [record_from_json(data) for data in item["records"]]
        if records[0].seq == 0 or "of" in item:
            return self._begin(item, records, rows)
        entry = self._addressed(name, records[0])
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
                if isinstance(record, OpRecord) and record.op in NAMING:
                    self._name(entry.sid, record, rows)
        return entry

    def _addressed(self, name: str, first: Record) -> OpenSession:
        """The session that a journalled record goes on with."""
        if isinstance(first, OpRecord) and first.op in (RESTORE, PURGE):
            for sid in self.names.deleted(name):
                entry = self._open_sid(sid)
                if len(entry.session.state.records) == first.seq:
                    return entry
        return self.open(name)

    def _name(self, sid: int, record: OpRecord, rows: SessionRows) -> None:
        """Follow what a record says of the name of a session."""
        with self._lock:
            before = self.names.named(sid)
            named = before.after(record)
            if named != before:
                self.names.put(sid, named)
                rows.names.append(SessionName(sid, named.name, record.seq, named.deleted_ns))
            if named.purged:
                rows.purged.append(sid)

    def _begin(
        self, item: Mapping[str, Any], records: Sequence[Record], rows: SessionRows
    ) -> OpenSession:
        """A new session, whose rows are written as it stands at the end."""
        shared: Sequence[Record] = ()
        if "of" in item:
            parent = self.open(item["of"])
            with parent.lock:
                shared = list(parent.session.state.records.first(item["shared"]))
            if len(shared) != records[0].seq:
                raise CorruptError(
                    f"the journal lacks what session {item['name']!r} branched off",
                    hint="run `merkle repair`",
                )
        session = self._draft
        if session is None or list(session.state.records.since(-1)) != [records[-1]]:
            session = self.session_of(replay_state([*shared, *records], verify=False))
        session.take_delta()
        named = Named(item["name"]).after_all(records)
        with self._lock:
            sid = self.names.new_sid()
            entry = OpenSession(sid, session)
            entry.busy = True
            self._open[sid] = entry
            self.names.put(sid, named)
        first = Named(item["name"])
        for record in records:
            if first.after(record) != first or record.seq == records[0].seq:
                first = first.after(record)
                rows.names.append(SessionName(sid, first.name, record.seq, first.deleted_ns))
        if named.purged:
            rows.purged.append(sid)
        for record in (*shared, *records):
            rows.records.append((sid, row_of(record)))
            self._keep_blob(record, rows)
        last = records[-1].seq
        rows.versions += [(sid, last, row) for row in all_rows(session.state)]
        return entry

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
