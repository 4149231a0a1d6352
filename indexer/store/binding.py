"""Which folder an index was made in, noted where no repository brings anything.

An index carries a random id. The user's own state folder has a file of that name, with the place
of the index. Moving a workspace keeps the folder, and mounting it elsewhere or putting it back
keeps its path; either will do. A copy, a clone or an archive has neither.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Final

from indexer.core import paths
from indexer.core.quiet_git import git_command, git_environment
from indexer.errors import UncheckedError
from indexer.store.atomic import write_atomically
from indexer.store.own_folder import PRIVATE_FILE, PRIVATE_FOLDER, own_folder

_ID: Final = re.compile("[0-9a-f]{32}")


class TrackedIndexError(UncheckedError):
    """Git keeps the index, so whoever can push could change what it says."""

    code = "tracked_index"

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{_shown(folder)} is tracked by git, and changes with every pull",
            hint="`git rm -r --cached .merkle` takes it out of git; an index is for one folder",
        )


class ForeignIndexError(UncheckedError):
    """The index was made in another folder, and nobody has asked for it to be taken over."""

    code = "foreign_index"

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{_shown(folder)} was not made in this folder: it came with a clone, a copy or an"
            " archive",
            hint="`merkle init --adopt` checks it and takes over what can be checked;"
            " `rm -r .merkle` starts afresh",
        )


def state_folder() -> Path:
    """Where this user's indexes are noted."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "merkle" / "indexes"


def bind(folder: Path) -> str:
    """Note that the index in a folder is made here; the id that it is to carry."""
    index_id = os.urandom(16).hex()
    noted = state_folder()
    try:
        noted.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        _note(noted / index_id, _place(folder))
    except OSError as error:
        raise UncheckedError(
            f"cannot note in {noted} which index is this user's: {error.strerror or error}",
            hint="set XDG_STATE_HOME to a folder that you can write to",
        ) from error
    return index_id


def is_bound(folder: Path, index_id: str) -> bool:
    """Whether the index that carries this id was made in this folder, by this user."""
    if not _ID.fullmatch(index_id):
        return False
    noted, here = state_folder() / index_id, _place(folder)
    try:
        known = json.loads(noted.read_bytes())
        same_folder = [known["device"], known["inode"]] == [here["device"], here["inode"]]
        same_path = known["path"] == here["path"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if not same_folder and not same_path:
        return False
    moved = not (same_folder and same_path)
    if moved or _git_was_used(folder, noted):
        refuse_tracked(folder)
        # This is its place from now on, and git had its say.
        with contextlib.suppress(OSError):
            _note(noted, here)
    return True


def refuse_tracked(folder: Path) -> None:
    """Raise when git keeps anything of the index."""
    # Imported late: asked only where git was used since it was asked last.
    import subprocess

    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            git_command(folder.parent, "ls-files", "-z", "--", folder.name),
            env=git_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        )  # fmt: skip
        if told.stdout:
            raise TrackedIndexError(folder)


def _git_was_used(folder: Path, noted: Path) -> bool:
    """Whether git has written its own index since the place was noted, as far as can be told."""
    for above in folder.parents:
        own = above / ".git"
        if own.is_dir():
            with contextlib.suppress(OSError):
                return (own / "index").stat().st_mtime_ns >= noted.stat().st_mtime_ns
        if own.exists():
            # A worktree or a submodule keeps it elsewhere.
            return True
    return False


def _shown(folder: Path) -> str:
    return paths.on_screen(paths.bytes_to_text(os.fsencode(folder)))


def _note(file: Path, place: dict[str, str | int]) -> None:
    write_atomically(file, json.dumps(place).encode() + b"\n", mode=PRIVATE_FILE)


def _place(folder: Path) -> dict[str, str | int]:
    with own_folder(folder) as descriptor:
        stat = os.fstat(descriptor)
    path = paths.bytes_to_text(os.path.realpath(os.fsencode(folder)))
    return {"path": path, "device": stat.st_dev, "inode": stat.st_ino}
