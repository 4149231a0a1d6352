"""Looking at the disk, the whole workspace or the paths that events named, and recording it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.changes import (
    Change,
    Counts,
    Node,
    count,
    find_renames,
    first_changes,
    nodes_of,
    tree_changes,
)
from indexer.core.garbage import no_cycle_collection
from indexer.core.kinds import Kind
from indexer.core.progress import Progress, begin
from indexer.core.tree import Tree
from indexer.engine.tree.disk import (
    Disk,
    UnavailableError,
    database_files,
    refuse_emptying,
)
from indexer.engine.tree.recorded import RecordedTree
from indexer.engine.tree.results import ScanDocument, pairs, scan_document
from indexer.scan import reconcile as reconciling
from indexer.scan.assemble import assemble
from indexer.scan.previous import ListingsBefore, NothingBefore, Previous, TreeBefore
from indexer.scan.reconcile import Reconciled
from indexer.scan.walk import Observed, Remark, Walker
from indexer.store.roots import Remarks, Root
from indexer.store.trees import Batch

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames
    from indexer.engine.make.events import Event
    from indexer.engine.workspace import Engine

OnFolder = Callable[[str], None]

_KEPT: Final = 100
"""Changed paths that are kept in mind for what is made of them next."""


def scan(
    engine: Engine,
    *,
    force: bool = False,
    accept_empty: bool = False,
    progress: Progress | None = None,
) -> ScanDocument:
    """Bring the index up to date with the disk."""
    return record_everything(
        engine, "scan", force=force, accept_empty=accept_empty, progress=progress
    )


def record_everything(
    engine: Engine,
    cause: str,
    *,
    force: bool = False,
    accept_empty: bool = False,
    progress: Progress | None = None,
    on_folder: OnFolder | None = None,
) -> ScanDocument:
    """A scan of everything, for whatever cause."""
    disk, recorded, head = engine.disk, engine.recorded, engine.trees.head()
    started, told_of = disk.looking_since, engine.told_tree
    carried: list[Event] = []
    with no_cycle_collection():
        looked = look(
            disk, recorded,
            force=force, accept_empty=accept_empty, progress=progress, on_folder=on_folder,
        )  # fmt: skip
        begin(progress, "recording what changed")
        tree, at_ns = looked.tree, disk.clock.now_ns()
        changes = [] if tree is None or head is None else tree_changes(recorded.tree, tree)
        counts = count(changes)
        if tree is not None and counts.renamed:
            carried = _carried(engine.frames, engine.records, tree, changes)
        root = _record_look(recorded, looked, changes, counts, cause, at_ns)
        if tree is not None and head is None and (engine.subscribers or engine.frame_subscribers):
            # Everything is new, and only who is told has need of it piece by piece.
            changes = first_changes(tree)
        recorded.changed = [change.path for change in changes[:_KEPT]]
    engine.publish(root, changes, carried, told_of)
    # The root already counted what it stands for; without changes it stands for an older step.
    return scan_document(
        root, [root] if root != head else [], looked.hashed, len(carried), looked.remarks,
        disk.clock.monotonic() - started,
    )  # fmt: skip


def reconcile(
    engine: Engine, dirty: Iterable[tuple[str, bool]], *, on_folder: OnFolder | None = None
) -> tuple[Root, list[Change], list[str]]:
    """Look at paths that events named, in one batch and one transaction.

    Each comes with whether everything below it has to be looked at too. Returns the root,
    what changed, and the paths that were still being written and need another look.
    """
    disk, recorded, told_of = engine.disk, engine.recorded, engine.told_tree
    again = look_again(disk, recorded.tree, list(dirty), on_folder=on_folder)
    head = engine.trees.head()
    assert head is not None
    changes = tree_changes(recorded.tree, again.tree)
    before = recorded.remarks
    remarks = Remarks(
        _merged(before.skipped, again, again.skipped),
        _merged(before.unreadable, again, again.unreadable),
    )
    moved = None if remarks == before else remarks
    carried: list[Event] = []
    if changes:
        counts, at_ns = count(changes), disk.clock.now_ns()
        if counts.renamed:
            carried = _carried(engine.frames, engine.records, again.tree, changes)
        head = engine.trees.record(Batch(again.tree, changes, "watch", at_ns, *counts, moved))
    elif moved is not None:
        engine.trees.put_remarks(moved)
    recorded.replace(again.tree, remarks, listed=False)
    if not again.linked <= recorded.linked:
        known = (path for path in recorded.linked if again.tree.get(path) is not None)
        others = _other_names(disk.root, again.tree, again.linked)
        recorded.linked = frozenset(again.linked.union(known, others))
    engine.publish(head, changes, carried, told_of)
    return head, changes, again.unsettled


def _other_names(root: Path, tree: Tree, linked: set[str]) -> set[str]:
    """The other names in the tree of files that have got one more: nothing was told of those."""
    inodes = set()
    for path in linked:
        with contextlib.suppress(OSError):
            inodes.add(os.lstat(root / paths.text_to_os(path)).st_ino)
    found = set()
    for path, entry in tree.walk():
        if entry.kind is Kind.FILE:
            inode = filestat.inode_of(entry.stat)
            if not inode:
                with contextlib.suppress(OSError):
                    inode = os.lstat(root / paths.text_to_os(path)).st_ino
            if inode in inodes:
                found.add(path)
    return found


def bring_up_to_date(engine: Engine, path: str) -> None:
    """Record what is on disk at and below a path, before something is bound to it."""
    if engine.trees.head() is None:
        return
    if engine.served:
        look_at_files(engine, [path])
    else:
        reconcile(engine, all_of(engine.root, path))


def tree_as_on_disk(engine: Engine, *named: str) -> Tree:
    """The tree with some paths and everything below them as they are on disk now.

    Nothing is stored, except by a service, for a file that it was not told of.
    """
    engine.frames.declared.refresh()
    if engine.trees.head() is None:
        return engine.tree
    if engine.served:
        look_at_files(engine, named)
        return engine.tree
    if engine.disk.first is not None:
        return look(engine.disk, engine.recorded).tree or engine.tree
    around = (each for path in named for each in all_of(engine.root, path))
    return look_again(engine.disk, engine.tree, dict.fromkeys(around)).tree


def look_at_files(engine: Engine, shown: Iterable[str]) -> bool:
    """Compare files that are about to be shown with the disk; True when one is another now.

    Events do not come for a hard link under another name, or when they were lost. Folders are
    vouched for by the service, which has seen all events.
    """
    before = engine.tree
    doubtful = [path for path in shown if is_doubtful(engine.root, before, path)]
    if not doubtful:
        return False
    if engine.look_at is not None:
        engine.look_at(doubtful)
    else:
        reconcile(engine, [(path, False) for path in doubtful])
    return any(_known(before, path) != _known(engine.tree, path) for path in doubtful)


def untold(root: Path, recorded: RecordedTree) -> list[str]:
    """The files that are not what is recorded, of those that change without an event.

    They have another name besides, under which they are changed, or could not be read. Any thread
    may ask.
    """
    unread = (path for path, _ in recorded.remarks.unreadable)
    doubtful = (*recorded.linked, *unread)
    # Most have none, and then nobody loads the tree for it.
    return [path for path in doubtful if is_doubtful(root, recorded.tree, path)]


def is_doubtful(root: Path, tree: Tree, path: str) -> bool:
    """Whether a recorded file or link is not, by its stat, what is on disk."""
    entry = tree.get(path)
    if entry is None or entry.folder is not None:
        return False
    try:
        return filestat.pack(os.lstat(root / paths.text_to_os(path))) != entry.stat
    except OSError:
        return True


def _known(tree: Tree, path: str) -> tuple[object, ...] | None:
    """What labels depend on: which content it is, and whether it could be read."""
    entry = tree.get(path)
    return entry and (entry.kind, entry.content_id, filestat.problem_of(entry.stat))


# -- recording


def _record_look(
    recorded: RecordedTree,
    looked: Looked,
    changes: list[Change],
    counts: Counts,
    cause: str,
    at_ns: int,
) -> Root:
    """Record what a look at everything found; `changes` are against what was recorded before."""
    store, tree, remarks = recorded.store, looked.tree, looked.remarks
    head = store.head()
    recorded.linked = looked.linked
    if tree is None:
        assert head is not None
        if remarks != store.remarks():
            store.put_remarks(remarks)
        recorded.replace(None, remarks, listed=False)
        return head
    listings = recorded.listings_of(tree)
    if head is None:
        nodes = looked.nodes or nodes_of(tree.algorithm, paths.ROOT, tree.root)
        head = store.record(
            Batch(tree, (), cause, at_ns, len(nodes), 0, 0, 0, remarks, listings, nodes)
        )
    elif changes:
        head = store.record(Batch(tree, changes, cause, at_ns, *counts, remarks, listings))
    else:
        store.refresh(listings, head.seq, remarks)
    recorded.replace(tree, remarks, listed=True)
    return head


def _carried(frames: Frames, records: Records, tree: Tree, changes: list[Change]) -> list[Event]:
    """Carry the notes of renamed nodes along, before the tree is recorded.

    When this fails or is cut off, the next look finds the same renames again.
    """
    # Imported late: most batches rename nothing, and a scan needs nothing else of frames.
    from indexer.engine.frames.carrying import carry

    return carry(frames, records, tree, find_renames(changes))


def _merged(
    old: tuple[tuple[str, str], ...], again: Reconciled, found: Sequence[Remark]
) -> tuple[tuple[str, str], ...]:
    """Old remarks, except about what was looked at again, and the new ones."""
    if not old and not found:
        return ()
    looked = set(again.looked)
    kept = {
        path: reason
        for path, reason in old
        if path not in looked and not any(paths.is_within(path, top) for top in again.walked)
    }
    kept.update(found)
    return tuple(sorted(kept.items()))


# -- looking


class Looked(NamedTuple):
    """What a look at the whole workspace found; `tree` is None when nothing moved at all."""

    tree: Tree | None
    hashed: int
    skipped: list[Remark]
    unreadable: list[Remark]
    linked: frozenset[str]
    nodes: Sequence[Node] = ()
    """All there are, where they were put together on the way."""

    @property
    def remarks(self) -> Remarks:
        """What was skipped and what could not be read, as it is stored."""
        return Remarks(pairs(self.skipped), pairs(self.unreadable))


def look(
    disk: Disk,
    recorded: RecordedTree,
    *,
    force: bool = False,
    accept_empty: bool = False,
    progress: Progress | None = None,
    on_folder: OnFolder | None = None,
) -> Looked:
    """Walk the workspace and put together its present tree, storing nothing."""
    disk.check_root()
    head = recorded.store.head()
    observed, first = disk.take_first_look(), head is None
    if observed is None or force or on_folder is not None:
        before, first = _before(recorded, disk.algorithm.size)
        known = None if head is None else head.totals.nodes
        begin(progress, "reading every file again" if force else "scanning", "entries", known)
        walker = Walker(
            disk.root, disk.algorithm, disk.scopes, before, disk.clock.now_ns(),
            trust=not force, on_folder=on_folder, progress=progress,
            own=database_files(disk.layout), between=disk.between,
            large=None if force else disk.large,
        )  # fmt: skip
        with _available(disk.root):
            observed = walker.walk()
    recorded.looked_at = True
    begin(progress, "comparing")
    linked = frozenset(observed.linked)
    if observed.unchanged and not first:
        return Looked(None, observed.hashed, observed.skipped, observed.unreadable, linked)
    old = Tree.empty(disk.algorithm) if first else recorded.tree
    if not accept_empty:
        _refuse_sudden_emptiness(disk.root, observed, old)
    folder = assemble(old, observed)
    assert folder is not None
    tree = Tree(disk.algorithm, folder)
    nodes = _nodes(tree, observed)
    return Looked(tree, observed.hashed, observed.skipped, observed.unreadable, linked, nodes)


def _nodes(tree: Tree, observed: Observed) -> list[Node]:
    """All nodes, where those of some folders were put together on the way; none elsewhere."""
    stored = {path: seen.stored for path, seen in observed.folders.items() if seen.stored}
    nodes = nodes_of(tree.algorithm, paths.ROOT, tree.root, stored) if stored else []
    return nodes + [node for each in stored.values() for node in each.nodes]


def _before(recorded: RecordedTree, id_size: int) -> tuple[Previous, bool]:
    """What is known, by the cheapest way, and whether this is the first scan ever."""
    if recorded.in_memory:
        return TreeBefore(recorded.tree), False
    if recorded.store.head() is None:
        return NothingBefore(), True
    listings = recorded.store.listings()
    if listings is None:
        return TreeBefore(recorded.tree), False
    recorded.remember(listings)
    return ListingsBefore(listings, id_size), False


@contextlib.contextmanager
def _available(root: Path) -> Iterator[None]:
    """Raise an error of ours where the system says that the workspace cannot be read."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"{root} cannot be read: {error.strerror or error}",
            hint="the index keeps its last state; check the folder and its permissions",
        ) from error


def _refuse_sudden_emptiness(root: Path, observed: Observed, old: Tree) -> None:
    seen = observed.folders[paths.ROOT]
    shows_nothing = seen.entries == {} and not seen.folders
    if shows_nothing and old.root.entries:
        refuse_emptying(root, old.root.totals.nodes)


def look_again(
    disk: Disk,
    before: Tree,
    dirty: Iterable[tuple[str, bool]],
    *,
    on_folder: OnFolder | None = None,
) -> Reconciled:
    """The tree after looking at the named paths only."""
    disk.check_root()
    walker = Walker(
        disk.root, disk.algorithm, disk.scopes, TreeBefore(before), disk.clock.now_ns(),
        on_folder=on_folder, own=database_files(disk.layout), between=disk.between,
        large=disk.large,
    )  # fmt: skip
    with _available(disk.root):
        found = reconciling.reconcile(walker, before, dirty)
    if before.root.entries and not found.tree.root.entries:
        refuse_emptying(disk.root, before.root.totals.nodes)
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


def known_scan(recorded: RecordedTree, before: Root, tree: Tree, seconds: float) -> ScanDocument:
    """The result of a scan that looks at nothing: what a service has recorded since a root.

    It is true where the service has just shown that no event is left that it has not seen.
    """
    head = recorded.store.head()
    assert head is not None
    since = recorded.store.roots(head.seq - before.seq) if head.seq > before.seq else []
    moved = tree_changes(tree, recorded.tree) if since else []
    read = sum(each.new is not None and each.new.kind is Kind.FILE for each in moved)
    return scan_document(head, since, read, 0, recorded.remarks, seconds)
