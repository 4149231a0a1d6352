"""A team's store in PostgreSQL, in SQL that its relatives understand too."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors

from indexer.core.frames import MemoKey
from indexer.shared.base import (
    COARSE_SECONDS,
    GRACE_SECONDS,
    NOTE_BEGINS,
    Mark,
    ReadOnlyError,
    Row,
    SharedError,
    Swept,
    UnreachableError,
    Usage,
    bodies_of,
    newest,
    readable,
)
from indexer.shared.connection import connect
from indexer.shared.masking import without_secrets
from indexer.shared.schema import BEGINS_AS_NOTE, MIGRATIONS, NAMED, NOTES, VERSIONS

CHANNEL: Final = "merkle_entries"
NOTES_CHANNEL: Final = "merkle_notes"
"""A channel of its own: whoever waits for notes need not look whenever results come."""

_ATTEMPTS: Final = 8
"""How often a change is tried that loses against another client."""

Result = TypeVar("Result")


class PostgresStore:
    """One namespace of a PostgreSQL database, over one connection."""

    def __init__(self, url: str, namespace: str, timeout: float) -> None:
        self._url = url
        self._namespace = namespace
        self._tells = True
        """Whether the server knows LISTEN and NOTIFY."""
        self._listens_for_notes = False
        try:
            self._connection = connect(url, timeout)
        except (psycopg.Error, ValueError) as error:
            raise self._translated(error) from None
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    # -- results

    def has_many(self, keys: Sequence[MemoKey]) -> dict[bytes, int]:
        """The generation that is kept, for each of the keys that is."""
        return dict(
            self._rows(
                "SELECT key, generation FROM merkle_entries WHERE namespace = %s"
                " AND key = ANY(%b::bytea[])",
                (self._namespace, list(keys)),
            )
        )

    def get_many(self, keys: Sequence[MemoKey]) -> list[Row]:
        """The entries of some keys, with their bodies."""
        found = self._rows(
            "SELECT e.key, e.generation, e.content, e.mac, b.body,"
            f" e.used_at < now() - interval '{COARSE_SECONDS} seconds'"
            " FROM merkle_entries e LEFT JOIN merkle_bodies b"
            " ON b.namespace = e.namespace AND b.sha256 = e.content"
            " WHERE e.namespace = %s AND e.key = ANY(%b::bytea[])",
            (self._namespace, list(keys)),
        )
        long_unused = [row[0] for row in found if row[5]]
        if long_unused:
            # A member who may only read leaves no trace.
            with contextlib.suppress(ReadOnlyError):
                self._in_transaction(lambda: self._touch(long_unused))
        return [Row(*row[:5]) for row in found]

    def page(self, after: bytes, limit: int) -> list[Row]:
        """Entries in order of key, behind one key."""
        found = self._rows(
            "SELECT e.key, e.generation, e.content, e.mac, b.body"
            " FROM merkle_entries e LEFT JOIN merkle_bodies b"
            " ON b.namespace = e.namespace AND b.sha256 = e.content"
            " WHERE e.namespace = %s AND e.key > %s ORDER BY e.key LIMIT %s",
            (self._namespace, after, limit),
        )
        return [Row(*row) for row in found]

    def put_many(
        self, rows: Sequence[Row], *, mend: Collection[bytes] = (), notes: bool = False
    ) -> int:
        """Keep entries; the highest generation wins, and the first of equals."""
        if not rows:
            return 0
        if notes:
            self._begin_notes()
        added, mended = newest(rows, mend)

        def put() -> int:
            count = self._put(added, mend=False) + self._put(mended, mend=True)
            if notes:
                # Whoever refused what was mended looks at it again.
                again = [row.key for row in mended]
                self._enter(NAMED, [*again, *(row.key for row in added)], again)
            return count

        count = self._in_transaction(put)
        self._tell(NOTES_CHANNEL if notes else CHANNEL)
        return count

    def _put(self, rows: Sequence[Row], *, mend: bool) -> int:
        if not rows:
            return 0
        bodies = bodies_of(rows)
        body = ", body = excluded.body" if mend else ""
        self._execute(
            "INSERT INTO merkle_bodies (namespace, sha256, body)"
            " SELECT %s, given.sha256, given.body"
            " FROM unnest(%b::bytea[], %b::bytea[]) AS given(sha256, body)"
            f" ON CONFLICT (namespace, sha256) DO UPDATE SET touched_at = now(){body}",
            (self._namespace, list(bodies), list(bodies.values())),
        )
        older = "" if mend else " WHERE merkle_entries.generation < excluded.generation"
        return self._execute(
            "INSERT INTO merkle_entries (namespace, key, generation, content, mac)"
            " SELECT %s, given.key, given.generation, given.content, given.mac"
            " FROM unnest(%b::bytea[], %b::bigint[], %b::bytea[], %b::bytea[])"
            " AS given(key, generation, content, mac)"
            " ON CONFLICT (namespace, key) DO UPDATE SET generation = excluded.generation,"
            f" content = excluded.content, mac = excluded.mac, used_at = now(){older}",
            (
                self._namespace,
                [row.key for row in rows],
                [row.generation for row in rows],
                [row.content for row in rows],
                [row.mac for row in rows],
            ),
        )

    def _touch(self, keys: Sequence[bytes]) -> int:
        return self._execute(
            "UPDATE merkle_entries SET used_at = now()"
            " WHERE namespace = %s AND key = ANY(%b::bytea[])",
            (self._namespace, sorted(keys)),
        )

    # -- the log of notes

    def note_log(self, since: int, limit: int) -> list[tuple[Mark, bytes]]:
        """The log of notes from a number on, that one included."""
        if not since:
            with contextlib.suppress(ReadOnlyError):
                self._begin_notes()
        try:
            rows = self._rows(
                "SELECT number, token, key FROM merkle_notes WHERE namespace = %s AND number >= %s"
                " ORDER BY number LIMIT %s",
                (self._namespace, since, limit),
            )
        except _NoTableError:
            return []
        return [(Mark(number, token), key) for number, token, key in rows]

    def enter_notes(self, keys: Sequence[MemoKey]) -> None:
        """Enter in the log those of some notes that releases which keep none have given."""
        self._begin_notes()
        self._in_transaction(lambda: self._enter(NAMED, sorted(keys)))

    def _begin_notes(self) -> None:
        """Make the log where there is none, with all that is there of this namespace."""
        question = "SELECT 1 FROM merkle_note_numbers WHERE namespace = %s"
        try:
            if self._rows(question, (self._namespace,)):
                return
        except _NoTableError:
            for statement in NOTES:
                self._retried(partial(self._connection.execute, statement))
        try:
            self._in_transaction(lambda: self._enter(BEGINS_AS_NOTE, NOTE_BEGINS))
        except UnreachableError:
            # Too many to look through in time: those that a pull comes across are entered then.
            self._in_transaction(lambda: self._enter(NAMED, []))

    def _enter(self, which: str, value: object, again: Sequence[bytes] = ()) -> None:
        """Number those of some entries that the log does not have as they are, and some again.

        The row of the newest number is locked until the end of the transaction, so numbers are
        seen in their order: nobody reads past one that is yet to come.
        """
        ((newest_number,),) = self._fetch(
            "INSERT INTO merkle_note_numbers (namespace, newest) VALUES (%s, 0)"
            " ON CONFLICT (namespace) DO UPDATE SET newest = merkle_note_numbers.newest"
            " RETURNING newest",
            (self._namespace,),
        )
        if again:
            self._execute(
                "UPDATE merkle_notes SET content = ''"
                " WHERE namespace = %s AND key = ANY(%b::bytea[])",
                (self._namespace, list(again)),
            )
        added = self._execute(
            "INSERT INTO merkle_notes (namespace, number, token, key, content)"
            " SELECT e.namespace, %s + row_number() OVER (ORDER BY e.key), %b, e.key, e.content"
            f" FROM merkle_entries e WHERE e.namespace = %s AND {which}"
            " AND NOT EXISTS (SELECT 1 FROM merkle_notes n WHERE n.namespace = e.namespace"
            " AND n.key = e.key AND n.content = e.content)",
            (newest_number, os.urandom(8), self._namespace, value),
        )
        self._execute(
            "UPDATE merkle_note_numbers SET newest = %s WHERE namespace = %s",
            (newest_number + added, self._namespace),
        )

    def wait_for_notes(self, seconds: float, also: int) -> None:
        """Sleep until the server tells of notes or a descriptor has something, at most so long."""
        if not self._tells:
            readable([also], seconds)
            return
        try:
            if not self._listens_for_notes:
                self._connection.execute(f"LISTEN {NOTES_CHANNEL}")
                self._listens_for_notes = True
                # Something may have come between the last look and this.
                return
            deadline = time.monotonic() + seconds
            while not self._is_told() and (left := deadline - time.monotonic()) > 0:
                if also in readable([self._connection.fileno(), also], left):
                    return
        except (errors.SyntaxError, errors.FeatureNotSupported):
            self._tells = False
        except psycopg.Error as error:
            raise self._translated(error) from None

    def _is_told(self) -> bool:
        """Whether somebody else has told of notes since this was last asked."""
        ours = self._connection.info.backend_pid
        return any(
            told.channel == NOTES_CHANNEL and told.payload == self._namespace and told.pid != ours
            for told in list(self._connection.notifies(timeout=0))
        )

    # -- leases

    def lease(self, keys: Sequence[MemoKey], holder: str, seconds: float) -> set[bytes]:
        """Take the right to compute some keys; returns those that nobody else holds."""
        granted = self._in_transaction(
            lambda: self._fetch(
                "INSERT INTO merkle_leases (namespace, key, holder, expires_at)"
                " SELECT %s, given.key, %s, now() + %s * interval '1 second'"
                " FROM unnest(%b::bytea[]) AS given(key)"
                " ON CONFLICT (namespace, key) DO UPDATE"
                " SET holder = excluded.holder, expires_at = excluded.expires_at"
                " WHERE merkle_leases.holder = excluded.holder"
                " OR merkle_leases.expires_at <= now()"
                " RETURNING key",
                (self._namespace, holder, float(seconds), sorted(set(keys))),
            )
        )
        return {row[0] for row in granted}

    def renew(self, keys: Sequence[MemoKey], holder: str, seconds: float) -> int:
        """Hold on to those leases of some keys that have not run out; how many there are."""
        return self._in_transaction(
            lambda: self._execute(
                "UPDATE merkle_leases SET expires_at = now() + %s * interval '1 second'"
                " WHERE namespace = %s AND key = ANY(%b::bytea[]) AND holder = %s"
                " AND expires_at > now()",
                (float(seconds), self._namespace, sorted(set(keys)), holder),
            )
        )

    def release(self, keys: Sequence[MemoKey], holder: str) -> None:
        """Give leases back."""
        self._in_transaction(
            lambda: self._execute(
                "DELETE FROM merkle_leases"
                " WHERE namespace = %s AND holder = %s AND key = ANY(%b::bytea[])",
                (self._namespace, holder, sorted(set(keys))),
            )
        )
        self._tell()

    def wait(self, seconds: float) -> None:
        """Sleep until the server tells of entries, at most so long."""
        if not self._tells:
            time.sleep(seconds)
            return
        try:
            self._connection.execute(f"LISTEN {CHANNEL}")
            for told in self._connection.notifies(timeout=seconds):
                # A busy neighbour on the same server is no reason to look.
                if told.channel == CHANNEL and told.payload == self._namespace:
                    break
        except (errors.SyntaxError, errors.FeatureNotSupported):
            self._tells = False
            time.sleep(seconds)
        except psycopg.Error as error:
            raise self._translated(error) from None

    def _tell(self, channel: str = CHANNEL) -> None:
        """A hint to whoever waits; they look for themselves from time to time anyway."""
        if not self._tells:
            return
        try:
            self._connection.execute("SELECT pg_notify(%s, %s)", (channel, self._namespace))
        except (errors.UndefinedFunction, errors.FeatureNotSupported):
            self._tells = False
        except psycopg.Error:
            pass

    # -- keeping house

    def usage(self) -> Usage:
        """How much there is."""
        rows = self._rows(
            "SELECT (SELECT count(*) FROM merkle_entries WHERE namespace = %s),"
            " count(*), coalesce(sum(length(body)), 0)::bigint,"
            " (SELECT count(*) FROM merkle_leases WHERE namespace = %s AND expires_at > now())"
            " FROM merkle_bodies WHERE namespace = %s",
            (self._namespace,) * 3,
        )
        return Usage(*rows[0])

    def sweep(self, unused_seconds: float, *, dry_run: bool) -> Swept:
        """Drop what nobody has asked for so long, except what is being computed again."""
        swept = self._in_transaction(lambda: self._sweep(unused_seconds, dry_run))
        if not dry_run:
            with contextlib.suppress(_NoTableError):
                self._in_transaction(self._sweep_notes)
        return swept

    def _sweep_notes(self) -> None:
        # The newest stays, as of nothing: whoever has read up to there need not begin anew.
        gone = (
            " WHERE namespace = %s AND number {} (SELECT newest FROM merkle_note_numbers"
            " WHERE namespace = %s) AND NOT EXISTS (SELECT 1 FROM merkle_entries e"
            " WHERE e.namespace = merkle_notes.namespace AND e.key = merkle_notes.key)"
        )
        values = (self._namespace,) * 2
        self._execute("DELETE FROM merkle_notes" + gone.format("<"), values)
        self._execute("UPDATE merkle_notes SET content = ''" + gone.format("="), values)

    def _sweep(self, unused_seconds: float, dry_run: bool) -> Swept:
        namespace, seconds = self._namespace, float(unused_seconds)
        old = (
            " FROM merkle_entries WHERE namespace = %s"
            " AND used_at <= now() - %s * interval '1 second' AND NOT EXISTS (SELECT 1"
            " FROM merkle_leases l WHERE l.namespace = merkle_entries.namespace"
            " AND l.key = merkle_entries.key AND l.expires_at > now())"
        )
        unnamed = (
            " FROM merkle_bodies WHERE namespace = %s"
            " AND touched_at <= now() - %s * interval '1 second' AND NOT EXISTS (SELECT 1"
            " FROM merkle_entries e WHERE e.namespace = merkle_bodies.namespace"
            " AND e.content = merkle_bodies.sha256{but})"
        )
        young = min(seconds, GRACE_SECONDS)
        if dry_run:
            but = f" AND e.key NOT IN (SELECT key{old})"
            return Swept(
                self._fetch(f"SELECT count(*){old}", (namespace, seconds))[0][0],
                self._fetch(
                    f"SELECT count(*){unnamed.format(but=but)}",
                    (namespace, young, namespace, seconds),
                )[0][0],
            )
        entries = self._execute(f"DELETE{old}", (namespace, seconds))
        bodies = self._execute(f"DELETE{unnamed.format(but='')}", (namespace, young))
        self._execute(
            "DELETE FROM merkle_leases WHERE namespace = %s AND expires_at <= now()", (namespace,)
        )
        return Swept(entries, bodies)

    # -- talking to the server

    def _migrate(self) -> None:
        """Bring the tables up to this release; whoever comes second finds it done."""
        version = self._version()
        if version > len(MIGRATIONS):
            raise SharedError(
                f"the team's store has schema {version}; this release knows {len(MIGRATIONS)}",
                hint="upgrade merkle",
            )
        if version == len(MIGRATIONS):
            return
        try:
            self._retried(lambda: self._connection.execute(VERSIONS))
            for number, statements in enumerate(MIGRATIONS[version:], version + 1):
                self._in_transaction(partial(self._step, number, statements))
        except ReadOnlyError:
            raise ReadOnlyError(
                "the team's store has no tables yet, and this member may not make them",
                hint="let a member who may write run `merkle shared status` once",
            ) from None

    def _version(self) -> int:
        try:
            return int(self._rows("SELECT coalesce(max(version), 0) FROM merkle_schema")[0][0])
        except _NoTableError:
            return 0

    def _step(self, number: int, statements: Sequence[str]) -> None:
        # The row is the lock: a second client waits here until the first has committed.
        ours = self._execute(
            "INSERT INTO merkle_schema (version) VALUES (%s) ON CONFLICT DO NOTHING", (number,)
        )
        if ours:
            for statement in statements:
                self._connection.execute(statement)

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._retried(lambda: self._fetch(statement, values))
        except ReadOnlyError as error:
            raise SharedError(
                error.message.replace("let this member write", "let this member read"),
                hint="ask for the right to read the tables merkle_*",
            ) from None

    def _fetch(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:
            # Statements are written in this module; only values come from outside.
            return cursor.execute(statement, values).fetchall()

    def _execute(self, statement: str, values: Sequence[object]) -> int:
        return self._connection.execute(statement, values).rowcount

    def _in_transaction(self, work: Callable[[], Result]) -> Result:
        def all_or_nothing() -> Result:
            with self._connection.transaction():
                return work()

        return self._retried(all_or_nothing)

    def _retried(self, work: Callable[[], Result]) -> Result:
        """Run something again that lost against another client."""
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except _LOST as error:
                if attempt == _ATTEMPTS - 1:
                    raise self._translated(error) from None
                time.sleep(0.01 * 2**attempt)
            except psycopg.Error as error:
                raise self._translated(error) from None
        raise AssertionError("the last attempt returns or raises")

    def _translated(self, error: Exception) -> SharedError:
        """An error in our words, without the address's secrets."""
        text = without_secrets(str(error), self._url) or type(error).__name__
        if isinstance(error, errors.UndefinedTable):
            return _NoTableError(text, hint="run `merkle shared status`")
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return ReadOnlyError(
                f"the team's store does not let this member write: {text}",
                hint="set `read_only = true` under [shared], or ask for the right to write",
            )
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | ValueError):
            return UnreachableError(
                f"the team's store cannot be reached: {text}",
                hint="work goes on; `merkle shared push` sends later what was computed meanwhile",
            )
        return SharedError(
            f"the team's store refused: {text}", hint="`merkle doctor` looks at its address"
        )


class _NoTableError(SharedError):
    """The tables are not there."""


# Two clients that make the same table at once collide in the catalogue.
_LOST: Final = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
    errors.DuplicateTable,
    errors.DuplicateObject,
)
