"""What was known of each folder before a walk: from a tree in memory or from the stat cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from indexer.core import listing
from indexer.core.ids import ContentId
from indexer.core.listing import ListedFolder, Listing
from indexer.core.tree import Entry, Tree


class Previous(Protocol):
    """What a walk compares with."""

    def stats_of(self, path: str) -> bytes | None:
        """The `stats` string of a folder's listing, None for a folder not known."""
        ...

    def entries_of(self, path: str) -> Mapping[str, Entry]:
        """A folder's files and links; sub-folders may be missing."""
        ...

    def ids_of(self, path: str) -> Sequence[ContentId]:
        """The content ids of all that is in a folder, in byte order of the names."""
        ...


class NothingBefore:
    """A workspace never scanned, or one whose stats are not to be trusted."""

    def stats_of(self, path: str) -> bytes | None:
        """Nothing is known."""
        return None

    def entries_of(self, path: str) -> Mapping[str, Entry]:
        """Nothing is known."""
        return {}

    def ids_of(self, path: str) -> Sequence[ContentId]:
        """Nothing is known."""
        return ()


class TreeBefore:
    """A tree in memory."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def stats_of(self, path: str) -> bytes | None:
        """The stats as the stat cache stores them, encoded where the folder is in memory."""
        root = self._tree.root
        if isinstance(root, ListedFolder) and (found := root.listing_of(path)) is not None:
            return found.stats
        folder = self._tree.folder(path)
        return None if folder is None else listing.encode(folder).stats

    def entries_of(self, path: str) -> Mapping[str, Entry]:
        """The folder's own entries."""
        folder = self._tree.folder(path)
        return {} if folder is None else folder.entries

    def ids_of(self, path: str) -> Sequence[ContentId]:
        """The content ids of the folder's own entries."""
        return [entry.content_id for entry in self.entries_of(path).values()]


class ListingsBefore:
    """The stat cache as the store keeps it, decoded only where a folder differs."""

    def __init__(self, listings: Mapping[str, Listing], id_size: int) -> None:
        self._listings = listings
        self._id_size = id_size

    def stats_of(self, path: str) -> bytes | None:
        """The stats as the stat cache stores them."""
        found = self._listings.get(path)
        return None if found is None else found.stats

    def entries_of(self, path: str) -> Mapping[str, Entry]:
        """Decoded files and links."""
        found = self._listings.get(path)
        return {} if found is None else listing.leaves(found, self._id_size)

    def ids_of(self, path: str) -> Sequence[ContentId]:
        """The ids as the stat cache stores them."""
        found = self._listings.get(path)
        return () if found is None else listing.ids(found, self._id_size)
