"""Where things are in `.merkle/`, and the format a workspace was initialised with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core.hashing import DEFAULT_HASH, workspace_hash
from indexer.errors import CorruptError, NoWorkspaceError, UncheckedError, UsageError
from indexer.store.atomic import write_atomically
from indexer.store.binding import ForeignIndexError, bind, is_bound
from indexer.store.noted import LastKnown, Noted
from indexer.store.own_folder import PRIVATE_FILE, PRIVATE_FOLDER, own_folder, read_own_file
from indexer.store.utf8_folder import Utf8Folder

FORMAT: Final = 1
FOLDER: Final = ".merkle"
_MOST_IDS: Final = 8


class NewerFormatError(UncheckedError):
    """The store was written by a later release."""

    code = "newer_store"


class DamagedFormatError(CorruptError):
    """The index was made here, and no longer says of itself what it is."""

    code = "format_damaged"


class Layout(NamedTuple):
    """The paths of one workspace's own files."""

    root: Path

    @property
    def folder(self) -> Path:
        """`.merkle/`."""
        return self.root / FOLDER

    @property
    def database(self) -> Path:
        """The DuckDB file."""
        return self.folder / "index.duckdb"

    @property
    def wal(self) -> Path:
        """What DuckDB has not yet folded into its file."""
        return self.folder / "index.duckdb.wal"

    @property
    def lock(self) -> Path:
        """The file whose flock makes its holder the owner."""
        return self.folder / "lock"

    @property
    def socket(self) -> Path:
        """The file that holds the address of the service's socket."""
        return self.folder / "socket"

    @property
    def cookies(self) -> Path:
        """Where the service writes files whose events prove that it has seen everything before."""
        return self.folder / "cookies"

    @property
    def journal(self) -> Path:
        """The folder of what cannot be recomputed."""
        return self.folder / "journal"

    @property
    def noted(self) -> Path:
        """What the index is and what its newest root was, in case it no longer says so itself."""
        return self.folder / "noted"

    @property
    def standing(self) -> Path:
        """What the database held when it was last closed, for who finds that nothing changed."""
        return self.folder / "standing"

    @property
    def listings(self) -> Path:
        """The stat cache as it was then."""
        return self.folder / "listings"

    @property
    def quarantine(self) -> Path:
        """Where damaged files are put aside."""
        return self.folder / "quarantine"

    @property
    def starting(self) -> Path:
        """The file whose flock lets one client at a time start a service."""
        return self.folder / "starting"

    @property
    def service_log(self) -> Path:
        """What a service that a client started has to say."""
        return self.folder / "service.log"

    @property
    def format_file(self) -> Path:
        """Format number and hash name, readable without opening the database."""
        return self.folder / "format.json"


class Format(NamedTuple):
    """What `init` recorded."""

    hash_name: str
    version: int = FORMAT
    ids: tuple[str, ...] = ()
    """Ids that are noted where it was made or adopted, newest first; those of old have none."""


def is_initialised(root: Path) -> bool:
    """Whether the workspace has been initialised; what must not be looked at is there."""
    layout = Layout(root)
    try:
        with own_folder(layout.folder) as folder:
            os.stat(layout.format_file.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    return True


def initialise(root: Path, hash_name: str | None = None) -> tuple[Format, bool]:
    """Make `.merkle/`; harmless to repeat with the same hash. The flag says whether it was new."""
    layout = Layout(root)
    if is_initialised(root):
        existing = read_format(root, or_older=True)
        refuse_other_hash(existing, hash_name)
        return existing, False
    chosen = Format(workspace_hash(hash_name or DEFAULT_HASH).name)
    if any(os.path.lexists(each) for each in (layout.database, layout.wal, layout.journal)):
        # Without its format it is nobody's, and must not become ours by being there.
        raise ForeignIndexError(layout.folder)
    return record_format(root, chosen), True


def refuse_other_hash(existing: Format, hash_name: str | None) -> None:
    """Raise when another hash is asked for than the one that an index has."""
    if hash_name is not None and hash_name != existing.hash_name:
        raise UsageError(
            f"this workspace already uses {existing.hash_name}",
            hint="a workspace keeps its hash; move .merkle away to start again",
        )


def record_format(root: Path, chosen: Format) -> Format:
    """Make `.merkle/` where there is none, and record that what is in it was made here."""
    layout = Layout(root)
    # Where the database could never be opened, nothing is begun.
    Utf8Folder(root).close()
    try:
        layout.folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        with own_folder(layout.folder, look_over=True) as folder:
            os.fchmod(folder, PRIVATE_FOLDER)
        layout.cookies.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        # The folder ignores itself, so no repository has to mention it.
        write_atomically(layout.folder / ".gitignore", b"*\n", mode=PRIVATE_FILE)
        # Earlier ones stay: the same folder may be used from a container, or by another machine.
        ids = (bind(layout.folder), *chosen.ids)[:_MOST_IDS]
        recorded = {"format": chosen.version, "hash": chosen.hash_name, "ids": ids}
        text = json.dumps(recorded).encode() + b"\n"
        write_atomically(layout.format_file, text, mode=PRIVATE_FILE)
        _note(layout, LastKnown(chosen.version, chosen.hash_name, ids[0]))
    except OSError as error:
        raise UncheckedError(
            f"cannot create {FOLDER} in {root}: {error.strerror or error}",
            hint="merkle keeps its index inside the workspace; make the folder writable",
        ) from error
    return Format(chosen.hash_name, chosen.version, ids)


def _note(layout: Layout, now: LastKnown) -> None:
    """LastKnown what an index is from now on; how far its history went stays."""
    noted = Noted(layout.noted)
    before = noted.read()
    noted.write(now if before is None else now._replace(seq=before.seq, root=before.root))
    noted.close()


def noted_format(root: Path) -> Format | None:
    """The format that was noted of an index that was made here; None where none was, or elsewhere.

    The id that is noted with it is as good as the one that the index itself should have.
    """
    layout = Layout(root)
    note = Noted(layout.noted).read()
    if note is None or note.version > FORMAT or not is_bound(layout.folder, note.index_id):
        return None
    return Format(note.hash_name, note.version, (note.index_id,))


def read_format(root: Path, *, or_older: bool = False) -> Format:
    """The format of an index that was made here; refuses any other.

    With `or_older`, also of one without an id, for a caller who finds out where it was made.
    """
    try:
        return _read_format(root, or_older=or_older)
    except (CorruptError, NewerFormatError, ForeignIndexError) as error:
        if noted_format(root) is None:
            raise
        if isinstance(error, NewerFormatError):
            # It may be so: whoever knows better can say so.
            hint = f"{error.hint}; if no later release was used here, `merkle repair` mends it"
            raise NewerFormatError(error.message, hint=hint) from error
        raise DamagedFormatError(
            f"{Layout(root).format_file} is damaged: {error.message}",
            hint="run `merkle repair`; it knows what this index is",
        ) from error


def _read_format(root: Path, *, or_older: bool) -> Format:
    layout, recorded = Layout(root), recorded_format(root)
    if recorded.ids:
        known = any(is_bound(layout.folder, each) for each in recorded.ids)
    else:
        known = or_older and layout.database.exists() and layout.database.stat().st_nlink == 1
    if not known:
        raise ForeignIndexError(layout.folder)
    return recorded


def recorded_format(root: Path) -> Format:
    """What an index says of itself, wherever it was made."""
    path = Layout(root).format_file
    try:
        recorded = json.loads(read_own_file(path, look_over=True))
        version, hash_name = int(recorded["format"]), str(recorded["hash"])
        if version <= FORMAT:
            workspace_hash(hash_name)
        ids = tuple(map(str, recorded.get("ids", ())))[:_MOST_IDS]
    except FileNotFoundError:
        raise NoWorkspaceError(
            f"{root} is not a merkle workspace", hint="run `merkle init` or `merkle scan` there"
        ) from None
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise CorruptError(
            f"{path} is damaged: {error}", hint="restore it, or move .merkle away and scan again"
        ) from error
    except OSError as error:
        raise UncheckedError(
            f"cannot read {path}: {error.strerror or error}",
            hint=f"let this user read and write {FOLDER}, or run merkle as the one it belongs to",
        ) from error
    refuse_newer(version)
    return Format(workspace_hash(hash_name).name, version, ids)


def refuse_newer(version: int) -> None:
    """Raise when the store's format number is beyond what this release can read."""
    if version > FORMAT:
        raise NewerFormatError(
            f"the index has format {version}; this release reads up to {FORMAT}",
            hint="upgrade merkle; the index was left untouched",
        )
