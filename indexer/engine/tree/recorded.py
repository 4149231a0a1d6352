"""The recorded tree in memory: loaded on first use, and how far its stat cache has been written."""

from __future__ import annotations

from indexer.core import listing
from indexer.core.listing import Listing
from indexer.core.tree import Tree
from indexer.store.roots import Remarks
from indexer.store.trees import Listings, TreeStore


class RecordedTree:
    """What the store has of the tree, as far as somebody has asked for it."""

    def __init__(self, store: TreeStore) -> None:
        self.store = store
        self._tree: Tree | None = None
        self._listings: dict[str, Listing] | None = None
        """The stat cache as a walk has read it, in case that the whole tree is needed after all."""
        self._ends_soon = False
        self._read: tuple[dict[str, Listing], Tree] | None = None
        """That and its tree, held by a process that ends soon and then writes it out again."""
        self._listed: Tree | None = None
        """The tree whose listings are in the store; None when that is not known in memory."""
        self._remarks: Remarks | None = None
        self.changed: list[str] = []
        """The first paths that the last look at everything found changed."""
        self.looked_at = False
        """Whether everything was compared with the disk."""
        self._largest: tuple[Tree, list[str]] | None = None
        self.linked: frozenset[str] = frozenset()
        """Files that had another name besides when they were last looked at."""

    @property
    def tree(self) -> Tree:
        """The recorded tree."""
        if self._tree is None:
            listings = self._listings or self.store.listings()
            self._tree = self.store.tree(listings)
            if self._listings and self._ends_soon:
                self._read = (self._listings, self._tree)
            self._listings = None
            self._listed = self._tree if listings is not None else None
        return self._tree

    def largest(self, limit: int) -> list[str]:
        """The paths of the largest files, looked for once per tree."""
        tree, known = self.tree, self._largest
        if known is None or known[0] is not tree:
            known = self._largest = (tree, tree.largest(limit))
        return known[1]

    @property
    def in_memory(self) -> bool:
        """Whether the tree has been loaded."""
        return self._tree is not None

    @property
    def remarks(self) -> Remarks:
        """What was skipped and what could not be read."""
        if self._remarks is None:
            self._remarks = self.store.remarks()
        return self._remarks

    def remember(self, listings: dict[str, Listing], *, ends_soon: bool = False) -> None:
        """Hold on to the stat cache that was just read, to the end where that comes soon."""
        self._listings, self._ends_soon = listings, ends_soon

    def listings(self) -> dict[str, Listing] | None:
        """The stat cache that is stored, or None when it lags behind the newest root."""
        if self._read is None or self._tree is None or self._listed is not self._tree:
            return self.store.listings()
        read, tree = self._read
        moved = listing.changed(tree.root, self._tree.root)
        return {path: found for path, found in {**read, **moved}.items() if found is not None}

    def loaded(self, tree: Tree) -> None:
        """Somebody has loaded the recorded tree from its listings: that need not be done again."""
        if self._tree is None:
            self._tree = self._listed = tree

    def replace(self, tree: Tree | None, remarks: Remarks, *, listed: bool) -> None:
        """Another tree has been recorded (None: the same one), with or without its stat cache."""
        if tree is not None:
            self._tree = tree
            if listed:
                self._listed = tree
        self._remarks = remarks

    def listings_of(self, tree: Tree) -> Listings:
        """What of a tree's stat cache the store does not have yet."""
        if self._listed is None:
            return Listings(listing.changed(None, tree.root), everything=True)
        return Listings(listing.changed(self._listed.root, tree.root))

    def flush(self) -> None:
        """Write the stat cache of every folder that moved since it was last written."""
        head = self.store.head()
        if head is not None and self._tree is not None and self._listed is not self._tree:
            self.store.refresh(self.listings_of(self._tree), head.seq)
            self._listed = self._tree
