"""Opening the DuckDB file: settings, migrations, and its errors in our words."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from indexer.errors import CorruptError, MerkleError, UncheckedError
from indexer.store.layout import NewerFormatError
from indexer.store.migrations import MIGRATIONS
from indexer.store.own_folder import PRIVATE_FILE, PRIVATE_FOLDER, own_folder
from indexer.store.utf8_folder import Utf8Folder

Row = tuple[Any, ...]

_PIECE: Final = 20_000

# What DuckDB says of a file that is broken, cut off, or another kind of database.
_DAMAGE: Final = (
    "corrupt",
    "checksum",
    "not a valid duckdb",
    "invalidated",
    "could not read enough bytes",
    "loading external extensions is disabled",
    "failure while replaying wal",
    "internal error",
)


class DatabaseError(UncheckedError):
    """DuckDB refused an operation; nothing of it was stored."""

    code = "database"


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
    return DatabaseError(f"{doing}: {text}", hint="run `merkle doctor` if this happens again")


class Database:
    """One open database: the writer's connection and cursors for readers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damaged = False
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as opening:
            # Looked over before the library opens by path, and compared with what is there after.
            self._folder = opening.enter_context(own_folder(path.parent, look_over=True))
            place = opening.enter_context(contextlib.closing(Utf8Folder(path.parent)))
            self._connection = _connect(place, path.name)
            opening.callback(self._connection.close)
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
            self._make_private()

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """All rows of a query, on a cursor of its own."""
        with self._translated("cannot read the index"), contextlib.closing(self.cursor()) as cursor:
            return cursor.execute(statement, list(parameters)).fetchall()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Callable[[str, Sequence[object]], list[Row]]]:
        """Several queries that see one and the same moment."""
        with self._translated("cannot read the index"), contextlib.closing(self.cursor()) as cursor:
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
        with self._translated("cannot read the index"), contextlib.closing(self.cursor()) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_PIECE):
                yield from rows

    def checkpoint(self) -> None:
        """Fold the WAL into the file."""
        with self._translated("cannot checkpoint the index"):
            self._connection.execute("CHECKPOINT")

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
                # A query must not reach other files, and must not be able to allow itself to.
                "enable_external_access": "false",
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
        connection.execute("SET lock_configuration = true")
        return connection
