"""What vouches for the tree elsewhere: `merkle.lock`, and proofs that a root holds a node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core.hashing import WorkspaceHash
from indexer.core.lockfile import NAME, LockFile, LockFileError, departures, lock_text, parse_lock
from indexer.core.paths import on_screen
from indexer.core.progress import Progress, begin
from indexer.core.proofs import ProofDocument
from indexer.core.proofs import prove as inclusion_proof
from indexer.core.tree import Tree
from indexer.engine.documents import Report
from indexer.engine.tree.resolve import UnknownNodeError, resolve_node
from indexer.engine.tree.scan import record_everything
from indexer.errors import UncheckedError
from indexer.scan.reading import OPEN_FILE
from indexer.store.atomic import write_atomically

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

_LONGEST: Final = 256 << 20
"""Bytes of the longest lock that is read; a million folders need about 100 MiB."""

_MEANINGS: Final = {
    "added": "is not in merkle.lock",
    "changed": "is not as merkle.lock has it",
    "removed": "is in merkle.lock but gone",
}


class LockDocument(TypedDict):
    """Result of `lock`."""

    path: str
    root: str
    folders: int
    written: bool


def lock(engine: Engine, *, progress: Progress | None = None) -> LockDocument:
    """Bring the index up to date and write merkle.lock.

    A file that says the same already is left alone.
    """
    if not engine.served:
        record_everything(engine, "lock", progress=progress)
    unreadable = engine.trees.remarks().unreadable
    if unreadable:
        raise UncheckedError(
            f"{len(unreadable)} paths could not be read, {on_screen(unreadable[0][0])} among them: "
            "a lock would vouch for what nobody has seen",
            hint="make them readable or ignore them, then lock again",
        )
    begin(progress, "writing merkle.lock")
    tree = engine.tree
    text = lock_text(tree).encode()
    target = engine.root / NAME
    written = _read(target) != text
    if written:
        _write(target, text, engine.layout.folder)
    return {
        "path": NAME,
        "root": tree.root_id.hex(),
        "folders": tree.root.totals.directories,
        "written": written,
    }


def prove(engine: Engine, node: str) -> ProofDocument:
    """The proof that the recorded root holds a node; sha256 workspaces only."""
    if engine.trees.head() is None:
        raise UncheckedError("nothing has been recorded yet", hint="run `merkle scan` first")
    # One tree throughout: the service may put the next one in its place meanwhile.
    tree = engine.tree
    found = resolve_node(tree, engine.trees, node)
    if found["superseded"] or tree.get(found["path"]) is None:
        raise UnknownNodeError(
            "that is the id of an earlier state", hint="name the node by its path"
        )
    return inclusion_proof(tree, found["path"])


def check_lock(
    root: Path, tree: Tree, algorithm: WorkspaceHash, error: Report, could_not: Report
) -> None:
    """Tell which files of a tree are not as locked, or why that cannot be told."""
    try:
        locked = _load(root / NAME)
        if locked.hash_name != algorithm.name:
            raise LockFileError(
                f"{NAME} was made with {locked.hash_name}, and this workspace uses "
                f"{algorithm.name}",
                hint="`merkle init --hash` in a fresh clone chooses, or `merkle lock` again",
            )
    except LockFileError as problem:
        could_not(problem.code, NAME, f"{problem.message}; {problem.hint}")
        return
    for change, path in departures(locked, tree):
        error(f"lock_{change}", path, _MEANINGS[change])


def _load(path: Path) -> LockFile:
    try:
        raw = _read(path)
    except OSError as error:
        raise LockFileError(
            f"{NAME} cannot be read: {error.strerror or error}", hint="check the file"
        ) from error
    if raw is None:
        raise LockFileError(f"there is no {NAME}", hint="`merkle lock` writes it; commit it")
    return parse_lock(raw)


def _read(path: Path) -> bytes | None:
    """The bytes of a lock, None where there is none."""
    try:
        descriptor = os.open(path, OPEN_FILE)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        raw = file.read(_LONGEST + 1)
    if len(raw) > _LONGEST:
        raise OSError("it is too long for a lock")
    return raw


def _write(target: Path, text: bytes, within: Path) -> None:
    """Write a lock; nobody who watches the workspace sees it before it is whole."""
    try:
        write_atomically(target, text, within=within)
    except OSError as error:
        raise UncheckedError(
            f"cannot write {target.name}: {error.strerror or error}",
            hint="it is as it was; check the folder and the space on the disk",
        ) from error
