"""Opening the DuckDB file: settings, migrations, and its errors in our words."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from indexer.errors import CorruptError, MerkleError, UncheckedError
from indexer.store.atomic import sync_folder
from indexer.store.driver import duckdb
from indexer.store.layout import NewerFormatError
from indexer.store.memory import SERVED, Room, most_memory
from indexer.store.migrations import MIGRATIONS, TABLES
from indexer.store.own_folder import OPEN_OWN_FOLDER, PRIVATE_FILE, PRIVATE_FOLDER, own_folder
from indexer.store.parsed import parsed
from indexer.store.utf8_folder import Utf8Folder

Row = tuple[Any, ...]
T = TypeVar("T")

_PIECE: Final = 20_000
"""Rows that are fetched at once."""
_FEW: Final = 4
"""Rows that are added by one statement rather than by an appender."""

_SETTINGS: Final = (
    "PRAGMA disable_checkpoint_on_shutdown",
    "SET enable_external_access = false",
    "SET allowed_configs = ['memory_limit']",
    "SET lock_configuration = true",
)

SPILL: Final = "spill"
"""The folder for what a query needs beyond its memory; empty unless one runs."""

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

# What it says when the operating system lets nothing be written, by whatever kind of error.
_UNWRITTEN: Final = (
    "could not write",
    "could not truncate",
    "could not flush",
    "fsync failed",
    "no space left",
    "file too large",
    "read-only file system",
    "disk quota",
)


_DOCTOR: Final = "run `merkle doctor` for what to do"

_OF_THE_FILE: Final = (
    duckdb.FatalException,
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.SerializationException,
)


class DatabaseError(UncheckedError):
    """DuckDB refused an operation; nothing of it was stored."""

    code = "database"


class UnwrittenError(DatabaseError):
    """The operating system would not let the database read or write; the rows are not at fault."""


class ReadOnlyError(UncheckedError):
    """Nothing can be written where the index is; what is in it can be read."""

    code = "read_only"

    def __init__(self) -> None:
        super().__init__(
            "the index is on a read-only file system: nothing can be recorded there",
            hint="commands that only read work; mount it for writing to do more",
        )


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
        return DamagedError(f"{doing}: {text}", hint=_DOCTOR)
    unwritten = isinstance(error, duckdb.IOException) or any(
        word in text.lower() for word in _UNWRITTEN
    )
    kind = UnwrittenError if unwritten else DatabaseError
    return kind(f"{doing}: {text}", hint="run `merkle doctor` if this happens again")


class Database:
    """One open database: the writer's connection and cursors for readers."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        before_writing: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._before_writing = before_writing
        """Called once, before the first transaction that may change anything."""
        self.read_only = read_only
        self._damage: str | None = None
        """What the library said when it found that the file is damaged."""
        self._gate = threading.Lock()
        """Held for moments by readers that come and go, and while the file changes places."""
        self._readers = 0
        self._at_rest: int | None = None
        """Bytes that the library may keep while nobody needs more; None: as for a command."""
        self.writes = 0
        """How many transactions were committed since this was opened."""
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as opening:
            # Looked over before the library opens by path, and compared with what is there after.
            self._folder = opening.enter_context(own_folder(path.parent, look_over=True))
            self._place = opening.enter_context(contextlib.closing(Utf8Folder(path.parent)))
            if read_only and not path.exists():
                raise ReadOnlyError
            with contextlib.suppress(OSError):
                # Where nothing can be removed nothing will be rewritten.
                self.remove_rewritten()
            self._most_memory = most_memory()
            opening.callback(self._remove_spilled)
            self._remove_spilled()
            is_new = not (os.path.lexists(path) or os.path.lexists(f"{path}.wal"))
            with contextlib.suppress(OSError):
                os.mkdir(SPILL, PRIVATE_FOLDER, dir_fd=self._folder)
            self._connect()
            opening.callback(self._disconnect)
            self._make_private()
            if not os.path.samestat(os.fstat(self._folder), os.lstat(path.parent)):
                raise DatabaseError(f"{path.parent} was replaced while it was opened")
            self._migrate(0 if is_new else self._schema())
            self._opened = opening.pop_all()

    def _connect(self) -> None:
        self._connection = _connect(
            self._place, self._path.name, self._most_memory, read_only=self.read_only
        )
        self._room = Room(self._connection, self._most_memory, self.size, self._at_rest)

    def serve(self) -> None:
        """From now on use as little memory at rest as a service can do with."""
        self._at_rest = SERVED
        self._room.rest_with(SERVED)

    def _disconnect(self) -> None:
        self._room.close()
        self._connection.close()

    def _remove_spilled(self) -> None:
        """Remove what queries of a process that was killed have left."""
        with contextlib.suppress(OSError):
            folder = os.open(SPILL, OPEN_OWN_FOLDER, dir_fd=self._folder)
            try:
                for name in os.listdir(folder):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(SPILL, dir_fd=self._folder)

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
                if fold and self._damage is None and not self.read_only:
                    with self._room.taken():
                        self._connection.execute("CHECKPOINT")
            finally:
                self._opened.close()

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Turn DuckDB errors into ours, and ask nothing more once one says that it is damaged.

        A second question that needs a damaged index (DuckDB 2.0) is never answered.
        """
        if self._damage is not None:
            raise DamagedError(self._damage, hint=_DOCTOR)
        try:
            with translated(doing):
                yield
        except DamagedError as error:
            self._damage = error.message
            raise

    def refuse_if_damaged(self, error: duckdb.Error) -> None:
        """Raise when an error of somebody's own query says that the file is damaged."""
        # Other errors repeat what the query says, and that may be anything.
        if isinstance(error, _OF_THE_FILE) and self._damage is None:
            with self._translated("cannot read the index"):
                if isinstance(_translate(error, ""), DamagedError):
                    raise error

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
    def roomy(self, doing: str = "cannot read the index") -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for what cannot be done again, with all the memory that there is for it."""
        with self._translated(doing), self._room.taken(), self.reading() as cursor:
            yield cursor

    @contextlib.contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All of the statements inside, or none."""
        if self.read_only:
            raise ReadOnlyError
        if self._before_writing is not None:
            self._before_writing()
            self._before_writing = None
        # With room: the commit may fold the WAL into the file, and then has texts in its hands.
        with self._translated("cannot write to the index"), self._room.taken():
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
            question = parsed(cursor, statement)
            return self.with_room_if_needed(
                lambda: cursor.execute(question, list(parameters)).fetchall()
            )

    def with_room_if_needed(self, read: Callable[[], T]) -> T:
        """What a reading gives; where it runs out of memory, it is done again with more."""
        try:
            return read()
        except duckdb.OutOfMemoryException:
            with self._room.taken():
                return read()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Callable[[str, Sequence[object]], list[Row]]]:
        """Several queries that see one and the same moment."""
        with self.roomy() as cursor:
            cursor.begin()
            try:
                yield lambda statement, parameters: cursor.execute(
                    parsed(cursor, statement), list(parameters)
                ).fetchall()
            finally:
                with contextlib.suppress(duckdb.Error):
                    cursor.rollback()

    def stream(self, statement: str) -> Iterator[Row]:
        """The rows of a query a piece at a time, for results that are large beside what is kept."""
        with self.roomy() as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_PIECE):
                yield from rows

    def read_all(self) -> set[str]:
        """Read every value there is, so that a block that does not hold is found wherever it is.

        Gives the names of the tables that hold anything.
        """
        # As one question: planning one for each takes longer than reading a small index.
        found = self.rows(
            " UNION ALL ".join(
                f"SELECT '{table}', bit_xor(hash(every)) FROM {table} every" for table in TABLES
            )
        )
        return {table for table, every in found if every is not None}

    def checkpoint(self) -> None:
        """Fold the WAL into the file."""
        with self._translated("cannot checkpoint the index"), self._room.taken():
            self._connection.execute("CHECKPOINT")

    # -- another file in its place

    @property
    def rewritten(self) -> Path:
        """Where a rewriting puts the file that is to take this one's place."""
        return self._place.path / (self._path.name + REWRITTEN[0])

    def size(self) -> int:
        """How large the file is, with the WAL beside it."""
        total = 0
        for name in (self._path.name, f"{self._path.name}.wal"):
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_size
        return total

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
            with self._room.taken():
                self._connection.execute("CHECKPOINT")
            self._disconnect()
            try:
                # The new file must not find a WAL of the old one.
                if not self._path.with_name(self._path.name + ".wal").exists():
                    fresh = self._path.with_name(self.rewritten.name)
                    fresh.chmod(self._path.stat().st_mode & 0o777)
                    os.replace(fresh, self._path)
                    sync_folder(self._path.parent)
            finally:
                self._connect()
            return True

    def _schema(self) -> int:
        """The number of the schema that the file has; 0 where it has none."""
        # Asked for by name: a list of the tables, or a look for one that is not there, makes DuckDB
        # parse all the views of its own.
        with (
            self._translated("cannot read the index"),
            contextlib.suppress(duckdb.CatalogException),
        ):
            question = parsed(self._connection, "SELECT value FROM meta WHERE key = 'schema'")
            row = self._connection.execute(question).fetchone()
            return int(row[0]) if row else 0
        return 0

    def _migrate(self, version: int) -> None:
        """Bring a file that has this schema to the present one."""
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


def among(kind: str, wanted: Collection[object]) -> tuple[str, list[object]]:
    """SQL for "is one of these", of one kind, and what to give with it.

    A single one is compared: to plan a join with a list takes as long as such a question in all.
    Of two and more the join is faster, where there are many rows.
    """
    if len(wanted) == 1:
        return f"= ?::{kind}", list(wanted)
    return f"IN (SELECT unnest(?::{kind}[]))", [list(wanted)]


def append_rows(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]
) -> None:
    """Add rows inside the running transaction.

    A few of them by one statement: making ready to take in many takes longer than that.
    """
    if 0 < len(rows) <= _FEW:
        places = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
        insertion = parsed(connection, f"INSERT INTO {table} VALUES {places}")
        connection.execute(insertion, [value for row in rows for value in row])
    elif rows:
        appender = connection.appender(table)
        appender.append_rows(rows)
        appender.flush()


def put_meta(connection: duckdb.DuckDBPyConnection, key: str, value: str) -> None:
    """Set one value of the meta table."""
    change = parsed(connection, "UPDATE meta SET value = ? WHERE key = ?")
    if connection.execute(change, [value, key]).fetchone() == (0,):
        connection.execute("INSERT INTO meta VALUES (?, ?)", [key, value])


def _connect(
    place: Utf8Folder, name: str, most_memory: int, *, read_only: bool
) -> duckdb.DuckDBPyConnection:
    with translated("cannot open the index"):
        connection = duckdb.connect(
            str(place.path / name),
            read_only=read_only,
            config={
                # A file of another kind must not make DuckDB load what would read it.
                "extension_directory": os.devnull,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                # Handing a part of a question to a second thread takes longer than most questions.
                "threads": "1",
                # Besides it would begin eight more, for files that are far away.
                "async_threads": "1",
                # To begin with: a WAL may hold much, and is replayed now.
                "memory_limit": f"{most_memory}B",
                # Last: before the first of these it would be refused because of it.
                "temp_directory": str(place.path / SPILL),
            },
        )
        # A query must not reach other files, and must not be able to allow itself to; only a
        # rewriting makes one, and none is there otherwise.
        allowed = ", ".join(quoted(str(place.path / (name + ending))) for ending in REWRITTEN)
        connection.execute(f"SET allowed_paths = [{allowed}]")
        for setting in _SETTINGS:
            connection.execute(parsed(connection, setting))
        return connection
