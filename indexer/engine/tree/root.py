"""Whether the workspace on disk is there, and is the one that was opened."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.core import filestat, listing, paths
from indexer.core.kinds import Kind
from indexer.errors import UncheckedError
from indexer.store.layout import FOLDER, Layout

if TYPE_CHECKING:
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


def check_root(root: Path, layout: Layout, lock_identity: tuple[int, int]) -> None:
    """Raise unless the root holds the very lock file that this process holds."""
    try:
        device = os.stat(root).st_dev
    except OSError as error:
        raise UnavailableError(
            f"{root} cannot be reached: {error.strerror or error}",
            hint="the index keeps its last state until the folder is back",
        ) from error
    try:
        stat = os.stat(layout.lock)
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


def is_bare(root: Path) -> bool:
    """Whether nothing but the index and git's own folder is left; ignored files count."""
    with os.scandir(root) as entries:
        return all(entry.name in (FOLDER, ".git") for entry in entries)


def refuse_emptying(root: Path, nodes_before: int) -> EmptiedError:
    """The error for a root that had nodes and now shows none."""
    return EmptiedError(
        f"{root} is suddenly empty; the index knows {nodes_before - 1} nodes there",
        hint="if that is right, confirm it with `merkle scan --accept-empty`",
    )
