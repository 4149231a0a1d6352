"""The engine: an open, owned workspace and its operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from indexer.core import listing, paths
from indexer.core.changes import Change, count, find_renames, first_changes, tree_changes
from indexer.core.clock import Clock, SystemClock
from indexer.core.hashing import workspace_hash
from indexer.core.listing import Listing
from indexer.core.tree import Tree
from indexer.engine.audit_methods import AuditMethods
from indexer.engine.collector import no_cycle_collection
from indexer.engine.context_methods import ContextMethods
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
from indexer.engine.frame_methods import FrameMethods
from indexer.engine.late import LateModule
from indexer.engine.models.in_flight import Asked
from indexer.engine.session_methods import SessionMethods
from indexer.engine.shared_methods import SharedMethods
from indexer.engine.tree.root import check_root
from indexer.engine.tree.scan import Looked, all_of, look, look_again, scan_document
from indexer.errors import MerkleError
from indexer.scan.reconcile import Reconciled
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Remark
from indexer.store.database import Database
from indexer.store.layout import Layout, initialise, read_format
from indexer.store.lock import OwnerLock
from indexer.store.trees import Batch, Listings, Remarks, Root, TreeStore

if TYPE_CHECKING:
    from indexer.core.frames import FrameId, HeadKey
    from indexer.engine import framing
    from indexer.engine.durable import journal as journaling
    from indexer.engine.durable import validate as validation
    from indexer.engine.frames import notes
    from indexer.engine.frames.heads import Shelf
    from indexer.engine.frames.read import States
    from indexer.engine.frames.types import FrameType
    from indexer.engine.framing import Framing
    from indexer.engine.make.events import Event
    from indexer.engine.make.run import Run
    from indexer.engine.tree import history, resolve, status
    from indexer.store import query as queries
    from indexer.store.frames import FrameStore
    from indexer.store.journal import Journal
else:
    framing = LateModule("indexer.engine.framing")
    history = LateModule("indexer.engine.tree.history")
    journaling = LateModule("indexer.engine.durable.journal")
    notes = LateModule("indexer.engine.frames.notes")
    resolve = LateModule("indexer.engine.tree.resolve")
    status = LateModule("indexer.engine.tree.status")
    validation = LateModule("indexer.engine.durable.validate")
    queries = LateModule("indexer.store.query")

DEFAULT_WAIT: Final = 30.0
"""Seconds a command waits for another one to let go of the index."""


class Engine(FrameMethods, ContextMethods, SessionMethods, AuditMethods, SharedMethods):
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
        self._framing: Framing | None = None
        self.asked = Asked()
        self.journal_at_hand: Journal | None = None
        """Open since before the database failed, until it has taken in what is there."""
        self._carried: list[Event] = []
        """Notes that followed a rename which is being stored."""
        self._tree: Tree | None = None
        self._loaded: dict[str, Listing] | None = None
        self._remarks: Remarks | None = None
        self._listed: Tree | None = None
        """The tree whose listings are in the store; None when that is not known in memory."""
        self.subscribers: list[Callable[[Root, list[Change]], None]] = []
        self.frame_subscribers: list[Callable[[list[Event]], None]] = []
        self.on_writing_thread: Callable[[Callable[[], None]], None] = lambda work: work()
        """Runs something that writes; a service whose readers are threads puts its own here."""
        self.served = False
        """Whether a service keeps the tree in memory true, so that reads need no look at disk."""

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
        ours = False
        try:
            with contextlib.suppress(MerkleError):
                # No reason to write where another workspace may be now.
                self.check_root()
                ours = True
                if self._tree is not None and self._listed is not self._tree:
                    self.flush_listings()
        finally:
            if self._framing is not None:
                self._framing.close()
            if self.journal_at_hand is not None:
                self.journal_at_hand.close()
            self.database.close(fold=ours)
            self._lock.release()

    def reopen(self) -> None:
        """Open the database again after it failed, and forget what was in memory."""
        self.database.close()
        self._tree = self._loaded = self._listed = self._remarks = None
        self.database = Database(self.layout.database)
        self.trees = TreeStore(self.database, self.algorithm)
        if self._framing is not None:
            journal = self._framing.give_up()
            if journal is not None and journal.takes_records:
                self.journal_at_hand = journal
            elif journal is not None:
                journal.close()
            self._framing = None

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
        with no_cycle_collection():
            looked = look(
                self,
                force=force,
                accept_empty=accept_empty,
                progress=progress,
                on_folder=on_folder,
            )
            root, changes = self._record_look(looked, cause)
        carried = self._after_changes(root, changes)
        return scan_document(root, looked, changes, carried, self.clock.monotonic() - started)

    def reconcile(
        self, dirty: Iterable[tuple[str, bool]], *, on_folder: Callable[[str], None] | None = None
    ) -> tuple[Root, list[Change], list[str]]:
        """Look at paths that events named, in one batch and one transaction.

        Each comes with whether everything below it has to be looked at too. Returns the root,
        what changed, and the paths that were still being written and need another look.
        """
        again = look_again(self, list(dirty), on_folder=on_folder)
        head = self.trees.head()
        assert head is not None
        changes = tree_changes(self.tree, again.tree)
        remarks = self._remarks_after(again)
        if changes:
            head = self._store(again.tree, changes, "watch", remarks, None)
        elif remarks is not None:
            self.trees.put_remarks(remarks)
        self._tree = again.tree
        self._remarks = remarks or self._remarks
        self._after_changes(head, changes)
        return head, changes, again.unsettled

    def status(self) -> StatusDocument:
        """Compare the disk with the recorded tree, changing nothing."""
        with no_cycle_collection():
            return status.status_document(self)

    def validate(
        self,
        *,
        content: bool = False,
        subset: tuple[int, int] | None = None,
        expect_root: str | None = None,
        locked: bool = False,
    ) -> ValidateDocument:
        """Every invariant of what is stored; the disk against it, or against merkle.lock."""
        with no_cycle_collection():
            return validation.validate_document(
                self, content=content, subset=subset, expect_root=expect_root, locked=locked
            )

    def log(self, limit: int = 20) -> LogDocument:
        """Recorded roots, newest first."""
        return history.log_document(self.trees.roots(limit))

    def diff(self, old: str, new: str) -> DiffDocument:
        """What differs between two recorded roots, or between two manifests."""
        return history.diff_document(self, old, new)

    def sql(self, query: str, *, limit: int = 1000, timeout: float = 10.0) -> SqlDocument:
        """One read-only SELECT on the documented views."""
        columns, rows, truncated = queries.run_query(self.database, query, limit, timeout)
        return {"columns": columns, "rows": rows, "truncated": truncated}

    def resolve(self, node: str) -> NodeDocument:
        """The node a path or an id prefix stands for."""
        return resolve.resolve_node(self, node)

    def why_ignored(self, path: str) -> JsonObject:
        """The rule that leaves a path out of the tree, or lets it in."""
        return resolve.ignored_document(self, path)

    # -- frames

    @property
    def framing(self) -> Framing:
        """Everything about frames, opened on first use: a scan needs none of it."""
        if self._framing is None:
            # In place before it opens: bringing the database up to the journal goes through it.
            self._framing = framing.Framing(self)
            try:
                self._framing.open()
            except BaseException:
                self._framing = None
                raise
        return self._framing

    def open_runs(self) -> list[Run]:
        """Runs that may have answers of models under way."""
        return list(self.asked.runs)

    @property
    def frames(self) -> FrameStore:
        """The frame store."""
        return self.framing.store

    @property
    def shelf(self) -> Shelf:
        """Heads, memo and known frames in memory."""
        return self.framing.shelf

    @property
    def journal(self) -> Journal:
        """What cannot be recomputed."""
        return self.framing.journal

    @property
    def redone(self) -> int:
        """How many journal records the database had missed when it was opened."""
        return self.framing.redone

    @property
    def input_chains(self) -> dict[HeadKey, tuple[bytes, dict[str, Any] | None, int]]:
        """The list of inputs last stored for a head, to store the next as a difference."""
        return self.framing.input_chains

    @property
    def types(self) -> dict[str, FrameType]:
        """The declared frame types, as last read."""
        return self.framing.types

    def refresh_types(self) -> None:
        """Read the declared types again when merkle.toml has changed."""
        self.framing.refresh_types()

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return self.framing.count_tokens(text)

    def frame_states(self, present: Tree | None) -> States:
        """Heads by freshness in a tree that is what is on disk, per type, and agents' coverage."""
        return self.framing.states(present)

    def note_inputs(self, frame_id: FrameId) -> dict[str, Any] | None:
        """What a note is bound to."""
        return self.framing.note_inputs(frame_id)

    def serve(self) -> None:
        """From now on a service keeps the tree true, and reads may come from other threads."""
        self.served = True
        # Loaded by one thread, before several ask for them.
        _ = self.framing.shelf.slots

    def bring_up_to_date(self, path: str) -> None:
        """Record what is on disk at a path, before something is bound to it."""
        if not self.served and self.trees.head() is not None:
            self.reconcile(all_of(self.root, path))

    def tree_as_on_disk(self, path: str) -> Tree:
        """The tree with a path and everything below it as they are on disk now; stores nothing."""
        self.refresh_types()
        if self.served or self.trees.head() is None:
            return self.tree
        return look_again(self, all_of(self.root, path)).tree

    def journal_and_apply(self, records: Sequence[JsonObject]) -> None:
        """Make records durable, then store what they say."""
        journaling.journal_and_apply(self, records)

    def journal_now(self, records: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Make records durable while the database may fail; it takes them from there later."""
        if records:
            (self.journal_at_hand or self.journal).append(records)
        return records

    def catch_up_with_journal(self) -> None:
        """Bring the database up to the journal, before something is planned on what it says."""
        journaling.catch_up_with_journal(self)

    def publish_frames(self, events: list[Event]) -> None:
        """Tell subscribers which frames moved."""
        if events:
            for subscriber in self.frame_subscribers:
                subscriber(events)

    # -- storing

    def _record_look(self, looked: Looked, cause: str) -> tuple[Root, list[Change]]:
        head = self.trees.head()
        remarks = Remarks(_pairs(looked.skipped), _pairs(looked.unreadable))
        if looked.tree is None:
            assert head is not None
            if remarks != self.trees.remarks():
                self.trees.put_remarks(remarks)
            self._remarks = remarks
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
        self._remarks = remarks
        return head, changes

    def _remarks_after(self, again: Reconciled) -> Remarks | None:
        """The remarks after a look at some paths; None when they stay as they are."""
        if self._remarks is None:
            self._remarks = self.trees.remarks()
        old = self._remarks
        new = Remarks(
            _merged(old.skipped, again, again.skipped),
            _merged(old.unreadable, again, again.unreadable),
        )
        return None if new == old else new

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
        if counts.renamed:
            # First: when this fails or is cut off, the next look finds the same renames again.
            self._carried = notes.carry(self, tree, find_renames(changes))
        return self.trees.record(Batch(tree, changes, cause, at_ns, *counts, remarks, listings))

    def _after_changes(self, root: Root, changes: list[Change]) -> int:
        """Tell subscribers which notes were carried along and what changed; how many were."""
        if not changes:
            return 0
        carried, self._carried = self._carried, []
        self.publish_frames(carried)
        for subscriber in self.subscribers:
            subscriber(root, changes)
        return len(carried)

    def check_root(self) -> None:
        """Raise when the workspace on disk is not the one that was opened."""
        check_root(self.root, self.layout, self.lock_identity)


def _pairs(remarks: list[Remark]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((remark.path, remark.reason) for remark in remarks))


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
