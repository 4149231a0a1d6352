"""A member of the team: checks what it reads, seals what it gives, and bears an outage."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeVar

from indexer.core.frames import MemoKey
from indexer.shared.base import (
    BEGINNING,
    Entry,
    Mark,
    ReadOnlyError,
    Row,
    SharedError,
    SharedStore,
    Swept,
    UnreachableError,
    Usage,
)
from indexer.shared.opening import open_store
from indexer.shared.seal import Refusal, Seal

AT_ONCE: Final = 8 << 20
"""Bytes of bodies that are given in one conversation, unless one is longer by itself."""

LONGEST: Final = 64 << 20
"""Bytes of a body; a longer one costs a team more to fetch than to compute."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
Result = TypeVar("Result")


class News(NamedTuple):
    """Some notes of the team's log."""

    entries: list[Entry]
    mark: Mark
    """Everything up to here has come."""
    more: bool
    anew: bool
    """Whether the log is another than the one that was asked about, and read from its beginning."""


class Opener(Protocol):
    """How a store is opened."""

    def __call__(self, url: str, namespace: str, timeout: float) -> SharedStore:
        """Connect to it."""
        ...


@dataclass(frozen=True, slots=True)
class Membership:
    """How this workspace belongs to a team."""

    url: str
    namespace: str
    read_only: bool = False
    timeout: float = 5.0
    lease_seconds: float = 60.0
    team_key: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Membership(namespace={self.namespace!r})"


class Client:
    """One namespace of a team's store, for one thread."""

    def __init__(
        self,
        member: Membership,
        *,
        opener: Opener = open_store,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.member = member
        self.holder = uuid.uuid4().hex
        """Whose leases these are; in nothing that is kept."""
        self.refused: Counter[str] = Counter()
        """Rows that were not believed, by reason."""
        self.problem: SharedError | None = None
        """Why the store could not be used when it was last tried."""
        self.may_write = not member.read_only
        self._seal = Seal(member.namespace, member.team_key)
        self._broken: set[bytes] = set()
        """Keys whose rows were refused: what is computed instead takes their place."""
        self._unreleased: set[MemoKey] = set()
        """Leases that could not be given back yet."""
        self._opener = opener
        self._clock = clock
        self._store: SharedStore | None = None
        self._again_at = 0.0
        self._pause = _FIRST_PAUSE

    @property
    def is_resting(self) -> bool:
        """Whether the store failed a moment ago and is left alone for a while."""
        return self._store is None and self._clock() < self._again_at

    @property
    def rests_for(self) -> float:
        """Seconds for which the store is left alone."""
        return max(0.0, self._again_at - self._clock()) if self._store is None else 0.0

    def close(self) -> None:
        """Let go of the connection."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def has(self, keys: Sequence[MemoKey]) -> dict[MemoKey, int]:
        """The generation that is kept, for each of the keys that is."""
        found = self._ask(lambda store: store.has_many(keys))
        return {MemoKey(key): generation for key, generation in found.items()}

    def lacking(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that the team does not have in this generation, or has in no usable form."""
        held = self.has([entry.key for entry in entries]) if entries else {}
        return [
            entry
            for entry in entries
            if held.get(entry.key, -1) < entry.generation or entry.key in self._broken
        ]

    def get(self, wanted: Mapping[MemoKey, int]) -> dict[MemoKey, Entry]:
        """The results of some keys, none older than the generation that is asked for."""
        keys = list(wanted)
        found = self._believed(self._ask(lambda store: store.get_many(keys)))
        return {
            entry.key: entry
            for entry in found
            if entry.key in wanted and entry.generation >= wanted[entry.key]
        }

    def page(self, after: bytes, limit: int) -> tuple[list[Entry], bytes | None]:
        """Entries behind a key, and where the next page begins."""
        rows = self._ask(lambda store: store.page(after, limit))
        return self._believed(rows), rows[-1].key if len(rows) == limit else None

    def news(self, after: Mark, limit: int) -> News:
        """The notes behind a place of their log, in the order in which the team got them."""
        log = self._ask(lambda store: store.note_log(after.number, limit + 1))
        anew = after != BEGINNING and (not log or log[0][0] != after)
        if anew:
            after = BEGINNING
            log = self._ask(lambda store: store.note_log(0, limit + 1))
        fresh = [(mark, key) for mark, key in log if _follows(after, mark, key)][:limit]
        keys = list(dict.fromkeys(MemoKey(key) for _, key in fresh))
        kept = self._ask(lambda store: store.get_many(keys)) if keys else []
        rows = {row.key: row for row in kept}
        found = self._believed([rows[key] for key in keys if key in rows])
        return News(found, fresh[-1][0] if fresh else after, bool(fresh) and len(log) > limit, anew)

    def enter_notes(self, keys: Sequence[MemoKey]) -> None:
        """Let the log name notes that somebody came across; whoever only reads leaves it alone."""
        if keys and self.may_write:
            with contextlib.suppress(ReadOnlyError):
                self._write(lambda store: store.enter_notes(keys))

    def wait_for_notes(self, seconds: float, also: int) -> None:
        """Sleep until notes may have come or a descriptor has something, at most so long."""
        self._ask(lambda store: store.wait_for_notes(seconds, also))

    def _believed(self, rows: Sequence[Row]) -> list[Entry]:
        entries = []
        for row in rows:
            try:
                entries.append(self._seal.opened(row))
                self._broken.discard(row.key)
            except Refusal as refusal:
                if row.key not in self._broken:
                    self.refused[str(refusal)] += 1
                    self._broken.add(row.key)
        return entries

    def put(self, entries: Sequence[Entry], *, notes: bool = False) -> int:
        """Give results or notes to the team, except the very long; how many were new to it."""
        if not self.may_write:
            raise ReadOnlyError(
                "this member only reads the team's store",
                hint="take `read_only` out of [shared] to share what is computed here",
            )
        groups = _in_groups([self._seal.row(one) for one in entries])
        return sum(self._put_group(group, notes) for group in groups)

    def _put_group(self, rows: Sequence[Row], notes: bool) -> int:
        mend = self._broken & {row.key for row in rows}
        count = self._write(lambda store: store.put_many(rows, mend=mend, notes=notes))
        self._broken -= mend
        return count

    def lease(self, keys: Sequence[MemoKey]) -> set[MemoKey]:
        """Lease keys that nobody else computes, and return those that this member now has to."""
        seconds = self.member.lease_seconds
        granted = self._write(lambda store: store.lease(keys, self.holder, seconds))
        self._unreleased.difference_update(keys)
        return {MemoKey(key) for key in granted}

    def release(self, keys: Sequence[MemoKey]) -> None:
        """Give leases back; where that fails, with the next connection, unless they ran out."""
        self._unreleased.update(keys)
        if self._store is not None and self._unreleased:
            try:
                self._write(self._give_back)
            except SharedError as error:
                self.problem = error

    def _give_back(self, store: SharedStore) -> None:
        if self._unreleased:
            store.release(sorted(self._unreleased), self.holder)
            self._unreleased.clear()

    def renew(self, keys: Sequence[MemoKey], holder: str) -> int:
        """Renew a holder's leases of some keys, so that they do not end while those are computed.

        Whatever else the holder was granted, and could not give back, runs out.
        """
        seconds = self.member.lease_seconds
        return self._write(lambda store: store.renew(keys, holder, seconds))

    def wait(self, seconds: float) -> None:
        """Sleep until there may be something new, at most so long."""
        self._ask(lambda store: store.wait(seconds))

    def usage(self) -> Usage:
        """How much the namespace holds."""
        return self._ask(lambda store: store.usage())

    def sweep(self, unused_seconds: float, *, dry_run: bool) -> Swept:
        """Drop what nobody has asked for so long."""
        return self._write(lambda store: store.sweep(unused_seconds, dry_run=dry_run))

    def _write(self, work: Callable[[SharedStore], Result]) -> Result:
        try:
            return self._ask(work)
        except ReadOnlyError:
            if self._store is not None:
                # The server knows better than the configuration; it is not asked again.
                self.may_write = False
            raise

    def _ask(self, work: Callable[[SharedStore], Result]) -> Result:
        """Talk to the store, connecting first; once more when an old connection had died."""
        if self.is_resting:
            assert self.problem is not None
            # One error is raised again and again: it must not collect a traceback of each time.
            raise self.problem.with_traceback(None)
        fresh = self._store is None
        try:
            result = work(self._connected())
        except UnreachableError as error:
            self.close()
            if fresh:
                self._rest(error)
                raise
            return self._ask(work)
        except SharedError as error:
            if isinstance(error, ReadOnlyError) and self._store is not None:
                self.problem = error
            else:
                self.close()
                self._rest(error)
            raise
        self._pause = _FIRST_PAUSE
        if self.may_write or not isinstance(self.problem, ReadOnlyError):
            self.problem = None
        return result

    def _connected(self) -> SharedStore:
        if self._store is None:
            member = self.member
            self._store = self._opener(member.url, member.namespace, member.timeout)
            if self.may_write:
                self._give_back(self._store)
        return self._store

    def _rest(self, error: SharedError) -> None:
        """Leave the store alone for longer each time, so that not every chunk waits for it."""
        self.problem = error
        self._again_at = self._clock() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _follows(after: Mark, mark: Mark, key: bytes) -> bool:
    """Whether a line of the log comes after a place; whoever can write there can write anything."""
    return (
        isinstance(mark.number, int)
        and mark.number > after.number
        and isinstance(mark.token, bytes)
        and isinstance(key, bytes)
    )


def _in_groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows in portions that a server takes without trouble; what is longer than any is left out."""
    group: list[Row] = []
    total = 0
    for row in rows:
        size = len(row.body or b"")
        if size > LONGEST:
            continue
        if group and total + size > AT_ONCE:
            yield group
            group, total = [], 0
        group.append(row)
        total += size
    if group:
        yield group
