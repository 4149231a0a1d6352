"""The seam to a team's store: what it keeps, what it can be asked, and how it fails."""

from __future__ import annotations

import select
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from indexer.core.frames import BodyHash, MemoKey
from indexer.errors import UncheckedError

COARSE_SECONDS: Final = 86400.0
"""A use is noted only where the last one is older than this, so as not to write at every read."""

GRACE_SECONDS: Final = 3600.0
"""A body so young may be about to be named by an entry: sweeping leaves it."""

LAST_GENERATION: Final = (1 << 31) - 1
"""The highest generation that is believed of a row."""

NOTE_BEGINS: Final = b'{"agent":'
"""What the body of every note begins with; few results do."""


class SharedError(UncheckedError):
    """The team's store refused something; local work is not affected."""

    code = "shared"


class UnreachableError(SharedError):
    """The team's store cannot be reached now."""

    code = "shared_unreachable"


class ReadOnlyError(SharedError):
    """This member may read the team's store and not write to it."""

    code = "shared_read_only"


class Entry(NamedTuple):
    """A computed result: of a key in a generation, with its body."""

    key: MemoKey
    generation: int
    content: BodyHash
    body: str


class Row(NamedTuple):
    """An entry as a store keeps it; nothing in it is trusted before it was checked."""

    key: bytes
    generation: int
    content: bytes
    mac: bytes
    """Empty where no team key was set."""
    body: bytes | None
    """None where the store has lost it."""


class Mark(NamedTuple):
    """A place in the log of a namespace's notes: everything up to it was read.

    Numbers are given in the order of commits, without a gap that is filled later. The token is
    drawn when a number is given: another one at the same number is another log, because the store
    was replaced or an older copy of it was brought back.
    """

    number: int
    token: bytes


BEGINNING: Final = Mark(0, b"")
"""Before every note."""


class Usage(NamedTuple):
    """How much a namespace holds."""

    entries: int
    bodies: int
    bytes: int
    leases: int


class Swept(NamedTuple):
    """What was dropped, or would be."""

    entries: int
    bodies: int


class SharedStore(Protocol):
    """Results of one namespace by memo key. Every call is one bounded conversation.

    Times are those of the store's own clock. All of a call happens, or nothing of it.
    """

    def has_many(self, keys: Sequence[MemoKey]) -> dict[bytes, int]:
        """The generation that is kept, for each of the keys that is."""
        ...

    def get_many(self, keys: Sequence[MemoKey]) -> list[Row]:
        """The entries of some keys, with their bodies."""
        ...

    def put_many(
        self, rows: Sequence[Row], *, mend: Collection[bytes] = (), notes: bool = False
    ) -> int:
        """Keep entries; the highest generation wins, and the first of equals.

        The keys in `mend` are replaced whatever is there: a reader found them broken. Notes are
        entered in their log too. Returns how many are new.
        """
        ...

    def note_log(self, since: int, limit: int) -> list[tuple[Mark, bytes]]:
        """The log of notes from a number on, that one included: each place, and the note's key."""
        ...

    def enter_notes(self, keys: Sequence[MemoKey]) -> None:
        """Enter in the log those of some notes that releases which keep none have given."""
        ...

    def lease(self, keys: Sequence[MemoKey], holder: str, seconds: float) -> set[bytes]:
        """Take the right to compute some keys; returns those that nobody else holds."""
        ...

    def renew(self, keys: Sequence[MemoKey], holder: str, seconds: float) -> int:
        """Hold on to those leases of some keys that have not run out; how many there are."""
        ...

    def release(self, keys: Sequence[MemoKey], holder: str) -> None:
        """Give leases back."""
        ...

    def wait(self, seconds: float) -> None:
        """Sleep until entries may have come, at most so long."""
        ...

    def wait_for_notes(self, seconds: float, also: int) -> None:
        """Sleep until notes may have come or a descriptor has something, at most so long."""
        ...

    def page(self, after: bytes, limit: int) -> list[Row]:
        """Entries in order of key, behind one key."""
        ...

    def usage(self) -> Usage:
        """How much there is."""
        ...

    def sweep(self, unused_seconds: float, *, dry_run: bool) -> Swept:
        """Drop what nobody has asked for so long, except what is being computed again."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


def readable(descriptors: Sequence[int], seconds: float) -> set[int]:
    """The descriptors that have something to read, as soon as one has, or after so long."""
    poll = select.poll()
    for one in descriptors:
        poll.register(one, select.POLLIN)
    return {one for one, _ in poll.poll(max(0.0, seconds) * 1000)}


def newest(rows: Sequence[Row], mend: Collection[bytes]) -> tuple[list[Row], list[Row]]:
    """Rows without repeated keys, in order of key: those to add and those to mend."""
    best: dict[bytes, Row] = {}
    for row in rows:
        known = best.get(row.key)
        if known is None or known.generation < row.generation:
            best[row.key] = row
    # One order everywhere: two writers with the same keys cannot wait for each other.
    ordered = [best[key] for key in sorted(best)]
    chosen = frozenset(mend)
    return (
        [row for row in ordered if row.key not in chosen],
        [row for row in ordered if row.key in chosen],
    )


def bodies_of(rows: Sequence[Row]) -> Mapping[bytes, bytes]:
    """Every body once, in order of its hash."""
    return dict(sorted((row.content, row.body) for row in rows if row.body is not None))
