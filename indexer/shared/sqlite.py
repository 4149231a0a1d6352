"""A team's store in one SQLite file: for several clones and worktrees on one machine."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

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

_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS bodies (
        namespace TEXT NOT NULL, sha256 BLOB NOT NULL, body BLOB NOT NULL,
        touched_at REAL NOT NULL,
        PRIMARY KEY (namespace, sha256)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS entries (
        namespace TEXT NOT NULL, key BLOB NOT NULL, generation INTEGER NOT NULL,
        content BLOB NOT NULL, mac BLOB NOT NULL, used_at REAL NOT NULL,
        PRIMARY KEY (namespace, key)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS leases (
        namespace TEXT NOT NULL, key BLOB NOT NULL, holder TEXT NOT NULL, expires_at REAL NOT NULL,
        PRIMARY KEY (namespace, key)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS entries_content ON entries (namespace, content);
"""
_NOTES: Final = (
    "CREATE TABLE IF NOT EXISTS notes (namespace TEXT NOT NULL, number INTEGER NOT NULL,"
    " token BLOB NOT NULL, key BLOB NOT NULL, content BLOB NOT NULL,"
    " PRIMARY KEY (namespace, number)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS notes_key ON notes (namespace, key)",
    "CREATE TABLE IF NOT EXISTS note_numbers ("
    " namespace TEXT NOT NULL PRIMARY KEY, newest INTEGER NOT NULL) WITHOUT ROWID",
)
"""The log of notes: made when it is first needed, beside what releases without it go on using."""

_VERSION: Final = 1
_AT_ONCE: Final = 500
"""Keys in one statement; SQLite counts parameters."""


class SqliteStore:
    """One namespace of an SQLite file. Its clock is that of the machine."""

    def __init__(self, path: Path, namespace: str, timeout: float) -> None:
        self._namespace = namespace
        with _translated(path):
            self._connection = sqlite3.connect(
                path, timeout=timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(timeout)
                self._file = _identity(path)
            except BaseException:
                self._connection.close()
                raise
        self._path = path

    def _prepare(self, timeout: float) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise SharedError(
                f"the team's store has schema {version}; this release knows {_VERSION}",
                hint="upgrade merkle",
            )
        if version < _VERSION:
            self._write_ahead(timeout)
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def _write_ahead(self, timeout: float) -> None:
        """Let readers read while somebody writes; SQLite itself does not wait for this."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def has_many(self, keys: Sequence[MemoKey]) -> dict[bytes, int]:
        """The generation that is kept, for each of the keys that is."""
        with _translated(self._path):
            return {
                key: generation
                for marks, group in _groups(keys)
                for key, generation in self._connection.execute(
                    f"SELECT key, generation FROM entries WHERE namespace = ? AND key IN {marks}",
                    (self._namespace, *group),
                )
            }

    def get_many(self, keys: Sequence[MemoKey]) -> list[Row]:
        """The entries of some keys, with their bodies."""
        found: list[Row] = []
        with _translated(self._path):
            for marks, group in _groups(keys):
                found += map(
                    Row._make,
                    self._connection.execute(
                        "SELECT e.key, e.generation, e.content, e.mac, b.body FROM entries e"
                        " LEFT JOIN bodies b ON b.namespace = e.namespace AND b.sha256 = e.content"
                        f" WHERE e.namespace = ? AND e.key IN {marks}",
                        (self._namespace, *group),
                    ),
                )
        # A use that cannot be noted is no reason to do without what was found.
        with contextlib.suppress(SharedError), _translated(self._path):
            self._touch(keys)
        return found

    def _touch(self, keys: Sequence[MemoKey]) -> None:
        now = time.time()
        old = [
            key
            for marks, group in _groups(keys)
            for (key,) in self._connection.execute(
                f"SELECT key FROM entries WHERE namespace = ? AND key IN {marks} AND used_at < ?",
                (self._namespace, *group, now - COARSE_SECONDS),
            )
        ]
        if old:
            with self._transaction() as connection:
                connection.executemany(
                    "UPDATE entries SET used_at = ? WHERE namespace = ? AND key = ?",
                    [(now, self._namespace, key) for key in old],
                )

    def page(self, after: bytes, limit: int) -> list[Row]:
        """Entries in order of key, behind one key."""
        with _translated(self._path):
            rows = self._connection.execute(
                "SELECT e.key, e.generation, e.content, e.mac, b.body FROM entries e"
                " LEFT JOIN bodies b ON b.namespace = e.namespace AND b.sha256 = e.content"
                " WHERE e.namespace = ? AND e.key > ? ORDER BY e.key LIMIT ?",
                (self._namespace, after, limit),
            )
            return [Row(*row) for row in rows]

    def put_many(
        self, rows: Sequence[Row], *, mend: Collection[bytes] = (), notes: bool = False
    ) -> int:
        """Keep entries; the highest generation wins, and the first of equals."""
        if notes:
            self._begin_notes()
        added, mended = newest(rows, mend)
        namespace, now = self._namespace, time.time()
        with self._transaction() as connection:
            before = connection.total_changes
            for group, older in ((added, " WHERE generation < excluded.generation"), (mended, "")):
                connection.executemany(
                    "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (namespace, key) DO UPDATE SET generation = excluded.generation,"
                    " content = excluded.content, mac = excluded.mac, used_at = excluded.used_at"
                    + older,
                    [
                        (namespace, row.key, row.generation, row.content, row.mac, now)
                        for row in group
                    ],
                )
            count = connection.total_changes - before
            for group, body in ((added, ""), (mended, ", body = excluded.body")):
                connection.executemany(
                    "INSERT INTO bodies VALUES (?, ?, ?, ?) ON CONFLICT (namespace, sha256)"
                    f" DO UPDATE SET touched_at = excluded.touched_at{body}",
                    [(namespace, *pair, now) for pair in bodies_of(group).items()],
                )
            if notes:
                # Whoever refused what was mended looks at it again.
                connection.executemany(
                    "UPDATE notes SET content = x'' WHERE namespace = ? AND key = ?",
                    [(namespace, row.key) for row in mended],
                )
                self._enter_keys([row.key for row in rows])
        return count

    # -- the log of notes

    def note_log(self, since: int, limit: int) -> list[tuple[Mark, bytes]]:
        """The log of notes from a number on, that one included."""
        if not since:
            with contextlib.suppress(ReadOnlyError):
                self._begin_notes()
        with _translated(self._path):
            self._check_file()
            if not self._has_notes():
                return []
            rows = self._connection.execute(
                "SELECT number, token, key FROM notes WHERE namespace = ? AND number >= ?"
                " ORDER BY number LIMIT ?",
                (self._namespace, since, limit),
            )
            return [(Mark(number, token), key) for number, token, key in rows]

    def enter_notes(self, keys: Sequence[MemoKey]) -> None:
        """Enter in the log those of some notes that releases which keep none have given."""
        self._begin_notes()
        with self._transaction():
            self._enter_keys(keys)

    def _enter_keys(self, keys: Sequence[bytes]) -> None:
        for marks, group in _groups(keys):
            self._enter(f"e.key IN {marks}", group)

    def _begin_notes(self) -> None:
        """Make the log where there is none, with all that is there of this namespace."""
        with _translated(self._path):
            if (
                self._has_notes()
                and self._connection.execute(
                    "SELECT 1 FROM note_numbers WHERE namespace = ?", (self._namespace,)
                ).fetchall()
            ):
                return
        with self._transaction() as connection:
            for statement in _NOTES:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO note_numbers VALUES (?, 0) ON CONFLICT DO NOTHING", (self._namespace,)
            )
            self._enter(
                "EXISTS (SELECT 1 FROM bodies b WHERE b.namespace = e.namespace"
                f" AND b.sha256 = e.content AND substr(b.body, 1, {len(NOTE_BEGINS)}) = ?)",
                [NOTE_BEGINS],
            )

    def _has_notes(self) -> bool:
        question = "SELECT 1 FROM sqlite_master WHERE name = 'note_numbers'"
        return self._connection.execute(question).fetchone() is not None

    def _enter(self, which: str, values: Sequence[bytes]) -> None:
        """Number those of some entries that the log does not have as they are; one writes."""
        added = self._connection.execute(
            "INSERT INTO notes SELECT e.namespace, c.newest + row_number() OVER (ORDER BY e.key),"
            " ?, e.key, e.content FROM entries e JOIN note_numbers c ON c.namespace = e.namespace"
            f" WHERE e.namespace = ? AND {which} AND NOT EXISTS (SELECT 1 FROM notes n"
            " WHERE n.namespace = e.namespace AND n.key = e.key AND n.content = e.content)",
            (os.urandom(8), self._namespace, *values),
        ).rowcount
        self._connection.execute(
            "UPDATE note_numbers SET newest = newest + ? WHERE namespace = ?",
            (added, self._namespace),
        )

    def wait_for_notes(self, seconds: float, also: int) -> None:
        """Sleep until a descriptor has something: a file tells nobody."""
        readable([also], seconds)

    # -- leases

    def lease(self, keys: Sequence[MemoKey], holder: str, seconds: float) -> set[bytes]:
        """Take the right to compute some keys; returns those that nobody else holds."""
        with self._transaction() as connection:
            now = time.time()
            connection.executemany(
                "INSERT INTO leases VALUES (?, ?, ?, ?) ON CONFLICT (namespace, key) DO UPDATE"
                " SET holder = excluded.holder, expires_at = excluded.expires_at"
                " WHERE holder = excluded.holder OR expires_at <= ?",
                [(self._namespace, key, holder, now + seconds, now) for key in keys],
            )
            return {
                key
                for marks, group in _groups(keys)
                for (key,) in connection.execute(
                    f"SELECT key FROM leases WHERE namespace = ? AND key IN {marks} AND holder = ?",
                    (self._namespace, *group, holder),
                )
            }

    def renew(self, keys: Sequence[MemoKey], holder: str, seconds: float) -> int:
        """Hold on to those leases of some keys that have not run out; how many there are."""
        with self._transaction() as connection:
            now = time.time()
            return sum(
                connection.execute(
                    "UPDATE leases SET expires_at = ? WHERE namespace = ?"
                    f" AND key IN {marks} AND holder = ? AND expires_at > ?",
                    (now + seconds, self._namespace, *group, holder, now),
                ).rowcount
                for marks, group in _groups(keys)
            )

    def release(self, keys: Sequence[MemoKey], holder: str) -> None:
        """Give leases back."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM leases WHERE namespace = ? AND key = ? AND holder = ?",
                [(self._namespace, key, holder) for key in keys],
            )

    def wait(self, seconds: float) -> None:
        """Sleep: a file tells nobody."""
        time.sleep(seconds)

    def usage(self) -> Usage:
        """How much there is."""
        with _translated(self._path):
            return Usage(
                *self._connection.execute(
                    "SELECT (SELECT count(*) FROM entries WHERE namespace = ?1),"
                    " count(*), coalesce(sum(length(body)), 0),"
                    " (SELECT count(*) FROM leases WHERE namespace = ?1 AND expires_at > ?2)"
                    " FROM bodies WHERE namespace = ?1",
                    (self._namespace, time.time()),
                ).fetchone()
            )

    def sweep(self, unused_seconds: float, *, dry_run: bool) -> Swept:
        """Drop what nobody has asked for so long, except what is being computed again."""
        now = time.time()
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM leases WHERE namespace = ? AND expires_at <= ?", (self._namespace, now)
            )
            entries = connection.execute(
                "DELETE FROM entries WHERE namespace = ? AND used_at <= ? AND NOT EXISTS"
                " (SELECT 1 FROM leases l WHERE l.namespace = entries.namespace"
                " AND l.key = entries.key)",
                (self._namespace, now - unused_seconds),
            ).rowcount
            bodies = connection.execute(
                "DELETE FROM bodies WHERE namespace = ? AND touched_at <= ? AND NOT EXISTS"
                " (SELECT 1 FROM entries e WHERE e.namespace = bodies.namespace"
                " AND e.content = bodies.sha256)",
                (self._namespace, now - min(unused_seconds, GRACE_SECONDS)),
            ).rowcount
            if self._has_notes():
                self._sweep_notes()
            if dry_run:
                connection.execute("ROLLBACK")
        return Swept(entries, bodies)

    def _sweep_notes(self) -> None:
        # The newest stays, as of nothing: whoever has read up to there need not begin anew.
        gone = (
            " WHERE namespace = ?1 AND number {} (SELECT newest FROM note_numbers"
            " WHERE namespace = ?1) AND NOT EXISTS (SELECT 1 FROM entries e"
            " WHERE e.namespace = notes.namespace AND e.key = notes.key)"
        )
        values = (self._namespace,)
        self._connection.execute("DELETE FROM notes" + gone.format("<"), values)
        self._connection.execute("UPDATE notes SET content = x''" + gone.format("="), values)

    def _check_file(self) -> None:
        """Refuse to go on with a file that is no longer there: nobody else would see it."""
        if _identity(self._path) != self._file:
            raise UnreachableError(
                f"the team's store {self._path} was replaced", hint="it is opened anew"
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _translated(self._path):
            self._check_file()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _groups(keys: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """The keys in groups, each behind the bracket of placeholders that it goes into."""
    distinct = list(dict.fromkeys(keys))
    for start in range(0, len(distinct), _AT_ONCE):
        group = distinct[start : start + _AT_ONCE]
        yield f"({', '.join('?' * len(group))})", group


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if "readonly" in str(error):
            raise ReadOnlyError(
                f"the team's store {path} cannot be written to: {error}",
                hint="set `read_only = true` under [shared], or make the file writable",
            ) from None
        if isinstance(error, sqlite3.OperationalError):
            raise UnreachableError(
                f"the team's store {path} cannot be used: {error}",
                hint="its folder must exist and be writable",
            ) from None
        raise SharedError(
            f"the team's store {path} is damaged: {error}", hint="put the file aside"
        ) from None
