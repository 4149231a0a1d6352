"""The engine: an open, owned workspace and its operations."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from indexer.core import listing
from indexer.core.changes import Change, count, find_renames, first_changes, tree_changes
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
from indexer.engine.late import LateModule
from indexer.engine.root import check_root
from indexer.engine.scanning import Looked, look, look_again, scan_document
from indexer.errors import MerkleError
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Remark
from indexer.store.database import Database
from indexer.store.layout import Layout, initialise, read_format
from indexer.store.lock import OwnerLock
from indexer.store.trees import Batch, Listings, Remarks, Root, TreeStore

if TYPE_CHECKING:
    from indexer.core.frames import FrameId, HeadKey
    from indexer.engine import operations
    from indexer.engine.events import Event
    from indexer.engine.framing import Framing
    from indexer.engine.shelf import Shelf
    from indexer.engine.types import FrameType
    from indexer.store.frames import FrameStore
    from indexer.store.journal import Journal
else:
    operations = LateModule("indexer.engine.operations")

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
        self._framing: Framing | None = None
        self._tree: Tree | None = None
        self._loaded: dict[str, Listing] | None = None
        self._listed: Tree | None = None
        """The tree whose listings are in the store; None when that is not known in memory."""
        self.subscribers: list[Callable[[Root, list[Change]], None]] = []
        self.frame_subscribers: list[Callable[[list[Event]], None]] = []
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
        try:
            if self._tree is not None and self._listed is not self._tree:
                with contextlib.suppress(MerkleError):
                    # Only a cache, and no reason to write where another workspace is now.
                    self.check_root()
                    self.flush_listings()
        finally:
            if self._framing is not None:
                self._framing.close()
            self.database.close()
            self._lock.release()

    def reopen(self) -> None:
        """Open the database again after it failed, and forget what was in memory."""
        self.database.close()
        self._tree = self._loaded = self._listed = None
        self.database = Database(self.layout.database)
        self.trees = TreeStore(self.database, self.algorithm)
        if self._framing is not None:
            self._framing.close()
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
        with _no_cycle_collection():
            looked = look(
                self,
                force=force,
                accept_empty=accept_empty,
                progress=progress,
                on_folder=on_folder,
            )
            root, changes = self._record_look(looked, cause)
        self._after_changes(root, changes)
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
        self._after_changes(head, changes)
        return head, changes, again.unsettled

    def status(self) -> StatusDocument:
        """Compare the disk with the recorded tree, changing nothing."""
        with _no_cycle_collection():
            return operations.status_document(self)

    def validate(
        self,
        *,
        content: bool = False,
        subset: tuple[int, int] | None = None,
        expect_root: str | None = None,
    ) -> ValidateDocument:
        """Check every invariant of what is stored, and with `content` the disk against it."""
        with _no_cycle_collection():
            return operations.validate_document(
                self, content=content, subset=subset, expect_root=expect_root
            )

    def log(self, limit: int = 20) -> LogDocument:
        """Recorded roots, newest first."""
        return operations.log_document(self.trees.roots(limit))

    def diff(self, old: str, new: str) -> DiffDocument:
        """What differs between two recorded roots."""
        return operations.diff_document(self.trees, old, new)

    def sql(self, query: str, *, limit: int = 1000, timeout: float = 10.0) -> SqlDocument:
        """One read-only SELECT on the documented views."""
        columns, rows, truncated = operations.run_query(self.database, query, limit, timeout)
        return {"columns": columns, "rows": rows, "truncated": truncated}

    def resolve(self, node: str) -> NodeDocument:
        """The node a path or an id prefix stands for."""
        return operations.resolve_node(self, node)

    def why_ignored(self, path: str) -> JsonObject:
        """The rule that leaves a path out of the tree, or lets it in."""
        return operations.ignored_document(self, path)

    # -- frames

    @property
    def framing(self) -> Framing:
        """Everything about frames, opened on first use: a scan needs none of it."""
        if self._framing is None:
            self._framing = operations.Framing(self)
            self._framing.open()
        return self._framing

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

    def frame_states(
        self, present: Tree | None
    ) -> tuple[dict[str, int], JsonObject, list[JsonObject]]:
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
            self.reconcile([(path, False)])

    def tree_as_on_disk(self, path: str) -> Tree:
        """The tree with a path and everything below it as they are on disk now; stores nothing."""
        self.refresh_types()
        if self.served or self.trees.head() is None:
            return self.tree
        return look_again(self, [(path, True)]).tree

    def journal_and_apply(self, records: Sequence[JsonObject]) -> None:
        """Make records durable, then store what they say."""
        operations.journal_and_apply(self, records)

    def put_frame(
        self,
        node: str,
        content: str,
        *,
        frame_type: str,
        agent: str,
        seen: str | None = None,
        on: str | None = None,
        meta: Mapping[str, str] | None = None,
        allow_secrets: bool = False,
    ) -> JsonObject:
        """Append a note, bound to what its author read."""
        return operations.put_frame(
            self, node, content, frame_type=frame_type, agent=agent, seen=seen, on=on, meta=meta,
            allow_secrets=allow_secrets,
        )  # fmt: skip

    def get_node(
        self,
        node: str,
        *,
        view: str = "recency",
        max_frames: int = 20,
        frame_type: str | None = None,
        agent: str | None = None,
    ) -> JsonObject:
        """A node with the frames a view selects."""
        return operations.get_node(
            self, node, view=view, max_frames=max_frames, frame_type=frame_type, agent=agent
        )

    def list_frames(self, node: str, *, frame_type: str | None = None) -> JsonObject:
        """The full history of a node, newest first."""
        return operations.list_frames(self, node, frame_type=frame_type)

    def get_head(
        self, node: str, *, frame_type: str | None = None, agent: str | None = None
    ) -> JsonObject:
        """The heads of a node."""
        return operations.get_head(self, node, frame_type=frame_type, agent=agent)

    def explain(self, node: str, *, frame_type: str | None = None) -> JsonObject:
        """Why a frame is what it is, or why it is stale."""
        return operations.explain(self, node, frame_type=frame_type)

    def regenerate(
        self,
        node: str = "",
        *,
        frame_type: str | None = None,
        recursive: bool = True,
        plan: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """Make again what is stale at a node, or only tell what that would be."""
        return operations.regenerate(
            self, node, frame_type=frame_type, recursive=recursive, plan=plan, progress=progress
        )

    def synthesize(
        self,
        node: str,
        *,
        frame_type: str,
        policy: str | None = None,
        agent: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """Frames of a type for a folder, children first."""
        return operations.synthesize(
            self, node, frame_type=frame_type, policy=policy, agent=agent, progress=progress
        )

    def invalidate(self, node: str, *, frame_type: str | None = None) -> JsonObject:
        """Make generated frames run again next time, past the memo."""
        return operations.invalidate(self, node, frame_type=frame_type)

    def add_agent(self, agent_id: str, role: str, can: Sequence[str] = ()) -> JsonObject:
        """Register an agent."""
        return operations.add_agent(self, agent_id, role, can)

    def list_agents(self) -> JsonObject:
        """Every registered agent."""
        return operations.list_agents(self)

    def export_pack(self, file: Path, nodes: Sequence[str] = ()) -> JsonObject:
        """Write what was written and computed to a file."""
        return operations.export_pack(self, file, nodes)

    def import_pack(self, file: Path) -> JsonObject:
        """Take in a pack."""
        return operations.import_pack(self, file)

    def compact(self, keep_seconds: float) -> JsonObject:
        """Forget the bodies of old deterministic frames."""
        return operations.compact(self, keep_seconds)

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
                # This declares the stat cache current, so it has to be.
                if self._listed is not self._tree:
                    self.flush_listings()
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

    def _after_changes(self, root: Root, changes: list[Change]) -> None:
        """Carry notes along renames, then tell subscribers what changed."""
        if not changes:
            return
        if root.renamed:
            operations.carry(self, find_renames(changes))
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
