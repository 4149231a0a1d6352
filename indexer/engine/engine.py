"""The engine: an open, owned workspace and its operations."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from indexer.core import listing
from indexer.core.changes import Change, count, first_changes, tree_changes
from indexer.core.clock import Clock, SystemClock
from indexer.core.hashing import workspace_hash
from indexer.core.listing import Listing
from indexer.core.tree import Tree
from indexer.engine.documents import (
    DiffDocument,
    JsonObject,
    LogDocument,
    NodeDocument,
    ScanDocument,
    SqlDocument,
    StatusDocument,
    ValidateDocument,
)
from indexer.engine.history import diff_document, log_document
from indexer.engine.resolve import ignored_document, resolve_node
from indexer.engine.root import check_root
from indexer.engine.scanning import Looked, look, look_again, scan_document
from indexer.engine.status import status_document
from indexer.engine.validation import validate_document
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Remark
from indexer.store.database import Database
from indexer.store.layout import Layout, initialise, read_format
from indexer.store.lock import OwnerLock
from indexer.store.query import run_query
from indexer.store.trees import Batch, Listings, Remarks, Root, TreeStore

DEFAULT_WAIT: Final = 30.0
"""Seconds a command waits for another one to let go of the index."""


class Engine:
    """One workspace, owned by this process while it is open."""

    def __init__(
        self,
        root: Path,
        *,
        role: str = "command",
        wait: float = DEFAULT_WAIT,
        clock: Clock | None = None,
    ) -> None:
        self.root = root
        self.layout = Layout(root)
        self.format = read_format(root)
        self.algorithm = workspace_hash(self.format.hash_name)
        self.clock = clock or SystemClock()
        self.scopes = Scopes(root)
        self._lock = OwnerLock(self.layout.lock, role)
        self._lock.acquire(wait)
        try:
            self.lock_identity = self._lock.identity()
            self.database = Database(self.layout.database)
        except BaseException:
            self._lock.release()
            raise
        self.trees = TreeStore(self.database, self.algorithm)
        self._tree: Tree | None = None
        self._loaded: dict[str, Listing] | None = None
        self._listed: Tree | None = None
        """The tree whose listings are in the store; None when that is not known in memory."""
        self.subscribers: list[Callable[[Root, list[Change]], None]] = []

    @classmethod
    def create(cls, root: Path, *, hash_name: str | None = None, role: str = "command") -> Engine:
        """Initialise the workspace where needed and open it."""
        initialise(root, hash_name)
        return cls(root, role=role)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database, then let go of the lock."""
        try:
            if self._tree is not None and self._listed is not self._tree:
                self.flush_listings()
        finally:
            self.database.close()
            self._lock.release()

    # -- the tree in memory

    @property
    def tree(self) -> Tree:
        """The recorded tree, loaded on first use."""
        if self._tree is None:
            listings = self._loaded or self.trees.listings()
            self._loaded = None
            self._tree = self.trees.tree(listings)
            self._listed = self._tree if listings is not None else None
        return self._tree

    @property
    def tree_in_memory(self) -> bool:
        """Whether the tree has been loaded."""
        return self._tree is not None

    def remember(self, listings: dict[str, Listing]) -> None:
        """Keep the stat cache just read, for the case that the whole tree is needed after all."""
        self._loaded = listings

    def flush_listings(self) -> None:
        """Write the stat cache of every folder that moved since it was last written."""
        head = self.trees.head()
        if head is None or self._tree is None:
            return
        self.trees.refresh(self._listings_of(self._tree), head.seq)
        self._listed = self._tree

    def _listings_of(self, tree: Tree) -> Listings:
        if self._listed is None:
            return Listings(listing.changed(None, tree.root), everything=True)
        return Listings(listing.changed(self._listed.root, tree.root))

    # -- operations

    def scan(
        self,
        *,
        force: bool = False,
        accept_empty: bool = False,
        cause: str = "scan",
        progress: Callable[[int], None] | None = None,
        on_folder: Callable[[str], None] | None = None,
    ) -> ScanDocument:
        """Bring the recorded tree up to date with the disk."""
        started = self.clock.monotonic()
        with _no_cycle_collection():
            looked = look(
                self,
                force=force,
                accept_empty=accept_empty,
                progress=progress,
                on_folder=on_folder,
            )
            root, changes = self._record_look(looked, cause)
        self._publish(root, changes)
        return scan_document(root, looked, changes, self.clock.monotonic() - started)

    def reconcile(
        self, dirty: Iterable[tuple[str, bool]], *, on_folder: Callable[[str], None] | None = None
    ) -> tuple[Root, list[Change], list[str]]:
        """Look at paths that events named, in one batch and one transaction.

        Each comes with whether everything below it has to be looked at too. Returns the root,
        what changed, and the paths that were still being written and need another look.
        """
        again = look_again(self, dirty, on_folder=on_folder)
        head = self.trees.head()
        assert head is not None
        changes = tree_changes(self.tree, again.tree)
        if changes:
            head = self._store(again.tree, changes, "watch", None, None)
        self._tree = again.tree
        self._publish(head, changes)
        return head, changes, again.unsettled

    def status(self) -> StatusDocument:
        """Compare the disk with the recorded tree, changing nothing."""
        with _no_cycle_collection():
            return status_document(self)

    def validate(
        self,
        *,
        content: bool = False,
        subset: tuple[int, int] | None = None,
        expect_root: str | None = None,
    ) -> ValidateDocument:
        """Check every invariant of what is stored, and with `content` the disk against it."""
        with _no_cycle_collection():
            return validate_document(self, content=content, subset=subset, expect_root=expect_root)

    def log(self, limit: int = 20) -> LogDocument:
        """Recorded roots, newest first."""
        return log_document(self.trees.roots(limit))

    def diff(self, old: str, new: str) -> DiffDocument:
        """What differs between two recorded roots."""
        return diff_document(self.trees, old, new)

    def sql(self, query: str, *, limit: int = 1000, timeout: float = 10.0) -> SqlDocument:
        """One read-only SELECT on the documented views."""
        columns, rows, truncated = run_query(self.database, query, limit, timeout)
        return {"columns": columns, "rows": rows, "truncated": truncated}

    def resolve(self, node: str) -> NodeDocument:
        """The node a path or an id prefix stands for."""
        return resolve_node(self, node)

    def why_ignored(self, path: str) -> JsonObject:
        """The rule that leaves a path out of the tree, or lets it in."""
        return ignored_document(self, path)

    # -- storing

    def _record_look(self, looked: Looked, cause: str) -> tuple[Root, list[Change]]:
        head = self.trees.head()
        remarks = Remarks(_pairs(looked.skipped), _pairs(looked.unreadable))
        if looked.tree is None:
            assert head is not None
            if remarks != self.trees.remarks():
                self.trees.refresh(Listings(), head.seq, remarks)
            return head, []
        if head is None:
            changes = first_changes(looked.tree)
        else:
            changes = tree_changes(self.tree, looked.tree)
        listings = self._listings_of(looked.tree)
        if head is None or changes:
            head = self._store(looked.tree, changes, cause, remarks, listings)
        else:
            self.trees.refresh(listings, head.seq, remarks)
        self._tree = self._listed = looked.tree
        return head, changes

    def _store(
        self,
        tree: Tree,
        changes: list[Change],
        cause: str,
        remarks: Remarks | None,
        listings: Listings | None,
    ) -> Root:
        counts = count(changes)
        at_ns = self.clock.now_ns()
        return self.trees.record(Batch(tree, changes, cause, at_ns, *counts, remarks, listings))

    def _publish(self, root: Root, changes: list[Change]) -> None:
        if changes:
            for subscriber in self.subscribers:
                subscriber(root, changes)

    def check_root(self) -> None:
        """Raise when the workspace on disk is not the one that was opened."""
        check_root(self.root, self.layout, self.lock_identity)


def _pairs(remarks: list[Remark]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((remark.path, remark.reason) for remark in remarks))


@contextlib.contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Hold the cycle collector: a scan makes many objects and no cycles, and it would walk them."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
