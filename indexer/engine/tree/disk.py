"""The workspace on disk: whether it is there and the one that was opened, and what a look needs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.core import filestat, listing, paths
from indexer.core.clock import Clock
from indexer.core.kinds import Kind
from indexer.engine.owned import Owned
from indexer.errors import UncheckedError
from indexer.scan.scopes import Scopes
from indexer.store.layout import FOLDER, Layout

if TYPE_CHECKING:
    from indexer.engine.tree.unchanged import FirstLook
    from indexer.scan.large_files import LargeFiles
    from indexer.scan.reading import Between
    from indexer.scan.walk import Observed
    from indexer.store.trees import TreeStore


class UnavailableError(UncheckedError):
    """The workspace cannot be looked at now; nothing is concluded from that."""

    code = "unavailable"


class ReplacedError(UncheckedError):
    """Another folder stands where the workspace was."""

    code = "replaced"


class EmptiedError(UnavailableError):
    """Everything in the workspace is gone at once."""

    code = "emptied"


class Disk:
    """All that a look needs but what is recorded; a database that is opened anew leaves it."""

    def __init__(self, owned: Owned, clock: Clock) -> None:
        self.root, self.layout, self.algorithm = owned.root, owned.layout, owned.algorithm
        self._owned, self.clock = owned, clock
        self.scopes = Scopes(owned.root)
        self.between: Between | None = None
        """What breaks off long reading on the writing thread of a service that is to end."""
        self.large: LargeFiles | None = None
        """Who reads large files for a service."""
        self.first: FirstLook | None = None
        """What was seen before the database was opened, or while it was, until it is taken."""

    def check_root(self) -> None:
        """Raise when the workspace on disk is not the one that was opened."""
        check_root(self._owned)

    @property
    def looking_since(self) -> float:
        """When the look that comes next began: now, or before the database was opened."""
        return self.clock.monotonic() if self.first is None else self.first.began

    def take_first_look(self) -> Observed | None:
        """What was seen first, once."""
        first, self.first = self.first, None
        return first and first.observed


def check_root(owned: Owned) -> None:
    """Raise unless the root holds the very lock file that this process holds."""
    root, lock_identity = owned.root, owned.lock_identity
    try:
        device = os.stat(root).st_dev
    except OSError as error:
        raise UnavailableError(
            f"{root} cannot be reached: {error.strerror or error}",
            hint="the index keeps its last state until the folder is back",
        ) from error
    try:
        stat = os.stat(owned.layout.lock)
    except OSError as error:
        if device != lock_identity[0]:
            raise UnavailableError(
                f"{root} is on another file system now, without the index that was opened",
                hint="mount it again; the index keeps its last state until it is back",
            ) from error
        raise ReplacedError(
            f"{root} no longer holds the index that was opened",
            hint="stop the service, then run `merkle scan` in the folder that is there now",
        ) from error
    if (stat.st_dev, stat.st_ino) != lock_identity:
        raise ReplacedError(
            f"{root} is another folder now, with an index of its own",
            hint="start `merkle watch` again to serve the new one",
        )


def was_made_here(root: Path, trees: TreeStore, id_size: int) -> bool:
    """Whether the stat cache knows a file by the inode and the times that only this one has."""
    for folder, found in (trees.listings() or {}).items():
        for listed in listing.decode(found, id_size):
            if listed.kind is Kind.FILE:
                path = root / paths.text_to_os(paths.join(folder, listed.name))
                with contextlib.suppress(OSError):
                    if filestat.pack(os.lstat(path)) == listed.stat:
                        return True
    return False


def database_files(layout: Layout) -> frozenset[tuple[int, int]]:
    """The database's files: whoever opens and closes one of them here drops DuckDB's lock."""
    found = set()
    for path in (layout.database, layout.wal):
        with contextlib.suppress(OSError):
            stat = os.lstat(path)
            found.add((stat.st_dev, stat.st_ino))
    return frozenset(found)


def refuse_emptying(root: Path, nodes_before: int) -> None:
    """Raise where a root that had nodes has nothing left, not even ignored files."""
    with os.scandir(root) as entries:
        is_bare = all(entry.name in (FOLDER, ".git") for entry in entries)
    if is_bare:
        raise EmptiedError(
            f"{root} is suddenly empty; the index knows {nodes_before - 1} nodes there",
            hint="if that is right, confirm it with `merkle scan --accept-empty`",
        )
