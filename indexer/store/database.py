"""Opening the DuckDB file: settings, migrations, and its errors in our words."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from indexer.errors import CorruptError, MerkleError, UncheckedError
from indexer.store.atomic import sync_folder
from indexer.store.layout import NewerFormatError
from indexer.store.migrations import MIGRATIONS
from indexer.store.own_folder import PRIVATE_FILE, PRIVATE_FOLDER, own_folder
from indexer.store.utf8_folder import Utf8Folder

Row = tuple[Any, ...]

_PIECE: Final = 20_000

REWRITTEN: Final = (".new", ".new.wal", ".new.wal.checkpoint", ".new.wal.recovery")
"""The endings of the files that a rewriting leaves when it is broken off."""

# What DuckDB says of a file that is broken, cut off, or another kind of database.
_DAMAGE: Final = (
    "corrupt",
    "checksum",
    "not a valid duckdb",
    "invalidated",
    "could not read enough bytes",
    "is an existing extension",
    "failure while replaying wal",
    "internal error",
)


class DatabaseError(UncheckedError):
    """DuckDB refused an operation; nothing of it was stored."""

    code = "database"


class UnwrittenError(DatabaseError):
    """The operating system would not let the database read or write; the rows are not at fault."""


class DamagedError(CorruptError):
    """The database file cannot be read."""

    code = "damaged"


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn any DuckDB error into one of ours."""
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise _translate(error, doing) from error


def _translate(error: duckdb.Error | UnicodeDecodeError, doing: str) -> MerkleError:
    said = str(error)
    if isinstance(error, UnicodeDecodeError):
        # DuckDB's own words, which name a folder whose name is not UTF-8.
        said = error.object.decode(errors="backslashreplace")
    text = " ".join(said.split())[:400]
    damaged = isinstance(error, duckdb.FatalException | duckdb.SerializationException) or any(
        word in text.lower() for word in _DAMAGE
    )
    if damaged:
        return DamagedError(f"{doing}: {text}", hint="run `merkle doctor` for what to do")
    kind = UnwrittenError if isinstance(error, duckdb.IOException) else DatabaseError
    return kind(f"{doing}: {text}", hint="run `merkle doctor` if this happens again")


class Database:
    """One open database: the writer's connection and cursors for readers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damaged = False
        self._gate = threading.Lock()
        """Held for moments by readers that come and go, and while the file changes places."""
        self._readers = 0
        self.writes = 0
        """How many transactions were committed since this was opened."""
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as opening:
            # Looked over before the library opens by path, and compared with what is there after.
            self._folder = opening.enter_context(own_folder(path.parent, look_over=True))
            self._place = opening.enter_context(contextlib.closing(Utf8Folder(path.parent)))
            with contextlib.suppress(OSError):
                # Where nothing can be removed nothing will be rewritten.
                self.remove_rewritten()
            self._connection = _connect(self._place, path.name)
            # By name: a rewriting puts another connection in its place.
            opening.callback(lambda: self._connection.close())
            self._make_private()
            if not os.path.samestat(os.fstat(self._folder), os.lstat(path.parent)):
                raise DatabaseError(f"{path.parent} was replaced while it was opened")
            self._migrate()
            self._opened = opening.pop_all()

    def _make_private(self) -> None:
        """Let nobody else read the folder, the file, or the WAL, which comes and goes."""
        with contextlib.suppress(OSError):
            if os.fstat(self._folder).st_mode & 0o077:
                os.fchmod(self._folder, PRIVATE_FOLDER)
        for name in (self._path.name, f"{self._path.name}.wal"):
            with contextlib.suppress(OSError):
                if os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mode & 0o077:
                    os.chmod(name, PRIVATE_FILE, dir_fd=self._folder)

    def close(self, *, fold: bool = True) -> None:
        """Close the file; what was committed is in it or its WAL.

        Without `fold` the WAL stays beside it: folding removes the WAL that has its name now,
        which is another one's when the folder was replaced.
        """
        with contextlib.suppress(duckdb.Error, UnicodeDecodeError):
            try:
                # Folding a file whose index is damaged never ends (DuckDB 2.0), and would gain
                # nothing: what was committed is in the WAL.
                if fold and not self._damaged:
                    self._connection.execute("CHECKPOINT")
            finally:
                self._opened.close()

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Turn DuckDB errors into ours, and remember when one says that the file is damaged."""
        try:
            with translated(doing):
                yield
        except DamagedError:
            self._damaged = True
            raise

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own for one reader."""
        with self._translated("cannot open a cursor"):
            return self._connection.cursor()

    @contextlib.contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for one reader, and the file does not change places until it is closed."""
        with self._gate:
            cursor = self.cursor()
            self._readers += 1
        try:
            yield cursor
        finally:
            cursor.close()
            with self._gate:
                self._readers -= 1

    @contextlib.contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All of the statements inside, or none."""
        with self._translated("cannot write to the index"):
            self._connection.begin()
            try:
                yield self._connection
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    self._connection.rollback()
                raise
            self._connection.commit()
            self.writes += 1
            self._make_private()

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """All rows of a query, on a cursor of its own."""
        with self._translated("cannot read the index"), self.reading() as cursor:
            return cursor.execute(statement, list(parameters)).fetchall()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Callable[[str, Sequence[object]], list[Row]]]:
        """Several queries that see one and the same moment."""
        with self._translated("cannot read the index"), self.reading() as cursor:
            cursor.begin()
            try:
                yield lambda statement, parameters: cursor.execute(
                    statement, list(parameters)
                ).fetchall()
            finally:
                with contextlib.suppress(duckdb.Error):
                    cursor.rollback()

    def stream(self, statement: str) -> Iterator[Row]:
        """The rows of a query a piece at a time, for results that are large beside what is kept."""
        with self._translated("cannot read the index"), self.reading() as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_PIECE):
                yield from rows

    def checkpoint(self) -> None:
        """Fold the WAL into the file."""
        with self._translated("cannot checkpoint the index"):
            self._connection.execute("CHECKPOINT")

    # -- another file in its place

    @property
    def rewritten(self) -> Path:
        """Where a rewriting puts the file that is to take this one's place."""
        return self._place.path / (self._path.name + REWRITTEN[0])

    def size(self) -> int:
        """How large the file is."""
        return self._path.stat().st_size

    def remove_rewritten(self) -> None:
        """Remove what a rewriting left that was broken off."""
        for ending in REWRITTEN:
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def take_place(self) -> bool:
        """Let the rewritten file take this one's place; False while somebody reads.

        It must be closed, durable, and hold what this one holds. Until the renaming the old file
        is the index, with everything in it and no WAL beside it; from then on the new one is.
        """
        with self._gate, self._translated("cannot rewrite the index"):
            if self._readers:
                return False
            self._connection.execute("CHECKPOINT")
            self._connection.close()
            try:
                # The new file must not find a WAL of the old one.
                if not self._path.with_name(self._path.name + ".wal").exists():
                    fresh = self._path.with_name(self.rewritten.name)
                    fresh.chmod(self._path.stat().st_mode & 0o777)
                    os.replace(fresh, self._path)
                    sync_folder(self._path.parent)
            finally:
                self._connection = _connect(self._place, self._path.name)
            return True

    def _migrate(self) -> None:
        with self._translated("cannot read the index"):
            known = self._connection.execute(
                "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'meta'"
            ).fetchone()
            version = 0
            if known and known[0]:
                row = self._connection.execute(
                    "SELECT value FROM meta WHERE key = 'schema'"
                ).fetchone()
                version = int(row[0]) if row else 0
        if version > len(MIGRATIONS):
            raise NewerFormatError(
                f"the index has schema {version}; this release reads up to {len(MIGRATIONS)}",
                hint="upgrade merkle; the index was left untouched",
            )
        if version == len(MIGRATIONS):
            return
        with self.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS meta (key VARCHAR, value VARCHAR)")
            for step in MIGRATIONS[version:]:
                connection.execute(step)
            put_meta(connection, "schema", str(len(MIGRATIONS)))
        if version:
            # A new store has nothing that a half-replayed WAL could lose.
            self.checkpoint()


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def append_rows(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]
) -> None:
    """Add rows in bulk inside the running transaction."""
    if rows:
        appender = connection.appender(table)
        appender.append_rows(rows)
        appender.flush()


def put_meta(connection: duckdb.DuckDBPyConnection, key: str, value: str) -> None:
    """Set one value of the meta table."""
    connection.execute("DELETE FROM meta WHERE key = ?", [key])
    connection.execute("INSERT INTO meta VALUES (?, ?)", [key, value])


def _connect(place: Utf8Folder, name: str) -> duckdb.DuckDBPyConnection:
    # Beside the file by itself, which DuckDB names in its own way where that is not UTF-8.
    spill = {"temp_directory": str(place.path / f"{name}.tmp")} if place.is_renamed else {}
    with translated("cannot open the index"):
        connection = duckdb.connect(
            str(place.path / name),
            config={
                # A file of another kind must not make DuckDB load what would read it.
                "extension_directory": os.devnull,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                # Deterministic and light: an index of 100,000 nodes needs neither many threads
                # nor much memory. What a larger one needs beyond this goes to a file beside it.
                "threads": "2",
                "memory_limit": "64MB",
                # Last: before the first of these it would be refused because of it.
                **spill,
            },
        )
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        # A query must not reach other files, and must not be able to allow itself to; only a
        # rewriting makes one, and none is there otherwise.
        allowed = ", ".join(quoted(str(place.path / (name + ending))) for ending in REWRITTEN)
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection
