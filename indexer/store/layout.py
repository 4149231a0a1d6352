"""Where things are in `.merkle/`, and the format a workspace was initialised with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from indexer.core.hashing import DEFAULT_HASH, workspace_hash
from indexer.errors import CorruptError, NoWorkspaceError, UncheckedError, UsageError
from indexer.store.atomic import write_atomically
from indexer.store.utf8_folder import Utf8Folder

FORMAT: Final = 1
FOLDER: Final = ".merkle"


class NewerFormatError(UncheckedError):
    """The store was written by a later release."""

    code = "newer_store"


@dataclass(frozen=True, slots=True)
class Layout:
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


@dataclass(frozen=True, slots=True)
class Format:
    """What `init` recorded."""

    hash_name: str
    version: int = FORMAT


def is_initialised(root: Path) -> bool:
    """Whether the workspace has been initialised; what must not be looked at is there."""
    try:
        return Layout(root).format_file.exists()
    except PermissionError:
        return True


def initialise(root: Path, hash_name: str | None = None) -> tuple[Format, bool]:
    """Make `.merkle/`; harmless to repeat with the same hash. The flag says whether it was new."""
    layout = Layout(root)
    if is_initialised(root):
        existing = read_format(root)
        if hash_name is not None and hash_name != existing.hash_name:
            raise UsageError(
                f"this workspace already uses {existing.hash_name}",
                hint="a workspace keeps its hash; move .merkle away to start again",
            )
        return existing, False
    chosen = Format(workspace_hash(hash_name or DEFAULT_HASH).name)
    # Where the database could never be opened, nothing is begun.
    Utf8Folder(root).close()
    try:
        layout.folder.mkdir(exist_ok=True)
        layout.cookies.mkdir(exist_ok=True)
        # The folder ignores itself, so no repository has to mention it.
        (layout.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        recorded = {"format": chosen.version, "hash": chosen.hash_name}
        write_atomically(layout.format_file, json.dumps(recorded).encode() + b"\n")
    except OSError as error:
        raise UncheckedError(
            f"cannot create {FOLDER} in {root}: {error.strerror or error}",
            hint="merkle keeps its index inside the workspace; make the folder writable",
        ) from error
    return chosen, True


def read_format(root: Path) -> Format:
    """The recorded format, refusing one that this release does not know."""
    path = Layout(root).format_file
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        version, hash_name = int(recorded["format"]), str(recorded["hash"])
    except FileNotFoundError:
        raise NoWorkspaceError(
            f"{root} is not a merkle workspace", hint="run `merkle init` or `merkle scan` there"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"{path} is damaged: {error}", hint="restore it, or move .merkle away and scan again"
        ) from error
    except OSError as error:
        raise UncheckedError(
            f"cannot read {path}: {error.strerror or error}",
            hint=f"let this user read and write {FOLDER}, or run merkle as the one it belongs to",
        ) from error
    refuse_newer(version)
    return Format(workspace_hash(hash_name).name, version)


def refuse_newer(version: int) -> None:
    """Raise when the store's format number is beyond what this release can read."""
    if version > FORMAT:
        raise NewerFormatError(
            f"the index has format {version}; this release reads up to {FORMAT}",
            hint="upgrade merkle; the index was left untouched",
        )
