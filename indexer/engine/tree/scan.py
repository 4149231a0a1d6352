"""Looking at the disk: the whole workspace, or the paths that events named."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.changes import Change
from indexer.core.tree import Tree
from indexer.engine.documents import RemarkDocument, ScanDocument
from indexer.engine.tree.root import UnavailableError, is_bare, refuse_emptying
from indexer.scan.assemble import assemble
from indexer.scan.previous import ListingsBefore, NothingBefore, Previous, TreeBefore
from indexer.scan.reconcile import Reconciled, reconcile
from indexer.scan.walk import Observed, Remark, Walker
from indexer.store.trees import Root

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at the whole workspace found; `tree` is None when nothing moved at all."""

    tree: Tree | None
    hashed: int
    skipped: list[Remark] = field(default_factory=list)
    unreadable: list[Remark] = field(default_factory=list)


def look(
    engine: Engine,
    *,
    force: bool = False,
    accept_empty: bool = False,
    progress: Callable[[int], None] | None = None,
    on_folder: Callable[[str], None] | None = None,
) -> Looked:
    """Walk the workspace and put together its present tree, storing nothing."""
    engine.check_root()
    before, first = _before(engine)
    walker = Walker(
        engine.root, engine.algorithm, engine.scopes, before, engine.clock.now_ns(),
        trust=not force, on_folder=on_folder, progress=progress,
    )  # fmt: skip
    observed = _walk(engine, walker)
    if observed.unchanged and not first:
        return Looked(None, observed.hashed, observed.skipped, observed.unreadable)
    old = Tree.empty(engine.algorithm) if first else engine.tree
    if not accept_empty:
        _refuse_sudden_emptiness(engine, observed, old)
    folder = assemble(old, observed)
    assert folder is not None
    tree = Tree(engine.algorithm, folder)
    return Looked(tree, observed.hashed, observed.skipped, observed.unreadable)


def _before(engine: Engine) -> tuple[Previous, bool]:
    """What is known, by the cheapest way, and whether this is the first scan ever."""
    if engine.tree_in_memory:
        return TreeBefore(engine.tree), False
    if engine.trees.head() is None:
        return NothingBefore(), True
    listings = engine.trees.listings()
    if listings is None:
        return TreeBefore(engine.tree), False
    engine.remember(listings)
    return ListingsBefore(listings, engine.algorithm.size), False


def _walk(engine: Engine, walker: Walker) -> Observed:
    try:
        return walker.walk()
    except OSError as error:
        raise UnavailableError(
            f"{engine.root} cannot be read: {error.strerror or error}",
            hint="the index keeps its last state; check the folder and its permissions",
        ) from error


def _refuse_sudden_emptiness(engine: Engine, observed: Observed, old: Tree) -> None:
    seen = observed.folders[paths.ROOT]
    shows_nothing = seen.entries == {} and not seen.folders
    if shows_nothing and old.root.entries and is_bare(engine.root):
        raise refuse_emptying(engine.root, old.root.totals.nodes)


def look_again(
    engine: Engine,
    dirty: Iterable[tuple[str, bool]],
    *,
    on_folder: Callable[[str], None] | None = None,
) -> Reconciled:
    """The tree after looking at the named paths only."""
    engine.check_root()
    before = engine.tree
    walker = Walker(
        engine.root, engine.algorithm, engine.scopes, TreeBefore(before), engine.clock.now_ns(),
        on_folder=on_folder,
    )  # fmt: skip
    try:
        found = reconcile(walker, before, dirty)
    except OSError as error:
        raise UnavailableError(
            f"{engine.root} cannot be read: {error.strerror or error}",
            hint="the index keeps its last state; check the folder and its permissions",
        ) from error
    if before.root.entries and not found.tree.root.entries and is_bare(engine.root):
        raise refuse_emptying(engine.root, before.root.totals.nodes)
    return found


def all_of(root: Path, path: str) -> list[tuple[str, bool]]:
    """What to look at for one path: it and everything below, or the folder around it that went."""
    for above in reversed(paths.ancestors(path)):
        try:
            mode = os.lstat(root / paths.text_to_os(above)).st_mode
        except OSError:
            mode = 0
        if above and not stat.S_ISDIR(mode):
            return [(above, True)]
    return [(path, True)]


def remark_documents(remarks: Iterable[tuple[str, str]]) -> list[RemarkDocument]:
    """Remarks as JSON has them."""
    return [{"path": path, "reason": reason} for path, reason in sorted(remarks)]


def scan_document(
    root: Root, looked: Looked, changes: Sequence[Change], carried: int, seconds: float
) -> ScanDocument:
    """The result of a scan."""
    # The root already counted what it stands for; without changes it stands for an older step.
    counts = (root.added, root.modified, root.removed, root.renamed) if changes else (0, 0, 0, 0)
    return {
        "root": root.root.hex(),
        "content_id": root.content_id.hex(),
        "nodes": root.totals.nodes,
        "files": root.totals.files,
        "directories": root.totals.directories,
        "links": root.totals.links,
        "bytes": root.totals.bytes,
        "hashed": looked.hashed,
        "added": counts[0],
        "modified": counts[1],
        "removed": counts[2],
        "renamed": counts[3],
        "carried": carried,
        "skipped": remark_documents(looked.skipped),
        "unreadable": remark_documents(looked.unreadable),
        "seconds": round(seconds, 3),
    }
