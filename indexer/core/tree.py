"""The tree of a workspace as an immutable value: an edit copies its path to the root."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping
from copy import copy
from typing import Final, NamedTuple, cast

from indexer.core import filestat, paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId, NodeId
from indexer.core.kinds import Kind

# Folders with fewer children are hashed from scratch; larger ones keep their children encoded, so
# that one edit among 10,000 files does not encode the other 9,999 again.
KEEP_ENCODED: Final = 256

# Looking a kind up is cheaper than making it from its number.
_KINDS: Final = {int(kind): kind for kind in Kind}
_CODES: Final = {kind: bytes((kind,)) for kind in Kind}
_BEFORE_ID: Final = 1 + filestat.PACKED_SIZE


class Totals(NamedTuple):
    """What lies below a folder, itself included."""

    files: int
    directories: int
    links: int
    bytes: int

    @property
    def nodes(self) -> int:
        """Nodes of every kind."""
        return self.files + self.directories + self.links


class Entry(NamedTuple):
    """One child of a folder."""

    kind: Kind
    content_id: ContentId
    size: int
    stat: bytes = filestat.NO_STAT
    folder: Folder | None = None


class PackedEntries(MutableMapping[str, Entry]):
    """Entries by name, those that were read from a listing as one string of bytes each.

    As objects they take three times as much, and a service holds them all.
    """

    __slots__ = ("held",)

    def __init__(self, held: dict[str, bytes | Entry]) -> None:
        self.held = held
        """Kind, stat and content id in one, or an entry: of a folder, or another than was read."""

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __getitem__(self, name: str) -> Entry:
        return _entry(self.held[name])

    def __setitem__(self, name: str, entry: Entry) -> None:
        self.held[name] = entry

    def __delitem__(self, name: str) -> None:
        del self.held[name]

    def __copy__(self) -> PackedEntries:
        return PackedEntries(self.held.copy())

    def items(self) -> ItemsView[str, Entry]:
        """Names with their entries, without looking each name up."""
        return _PackedItems(self)


class _PackedItems(ItemsView[str, Entry]):
    _mapping: PackedEntries

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        return ((name, _entry(one)) for name, one in self._mapping.held.items())


def packed(kind: Kind, stat: bytes, content_id: ContentId) -> bytes:
    """A file or link as `PackedEntries` holds it; its size is in its stat."""
    return _CODES[kind] + stat + content_id


def _entry(held: bytes | Entry) -> Entry:
    if isinstance(held, Entry):
        return held
    stat, content_id = held[1:_BEFORE_ID], held[_BEFORE_ID:]
    # The quick way to make one: a service makes very many.
    return tuple.__new__(Entry, (_KINDS[held[0]], content_id, filestat.size_of(stat), stat, None))


class Folder:
    """A folder's children in byte order of their names, with the id they add up to."""

    __slots__ = ("_encoded", "_source", "_token", "content_id", "entries", "totals", "unreadable")

    def __init__(
        self,
        entries: Mapping[str, Entry],
        content_id: ContentId,
        totals: Totals,
        encoded: dict[str, bytes] | None,
        unreadable: int,
    ) -> None:
        self.entries = entries
        self.unreadable = unreadable
        """How many files and links at or below it could not be read when they were looked at."""
        self.content_id = content_id
        self.totals = totals
        self._encoded = encoded
        self._begin()

    def _begin(self) -> None:
        self._token = object()
        # The folder this one was made from, by its token alone (holding the folder would hold all
        # of its history), and the names that were touched.
        self._source: tuple[object, frozenset[str]] | None = None

    def listed_sizes(self, path: str, least: int) -> list[tuple[str, Kind, int]] | None:
        """What a folder below has of at least so many bytes; None where it must be looked into."""
        return None

    @classmethod
    def of(cls, algorithm: WorkspaceHash, entries: Mapping[str, Entry]) -> Folder:
        """The folder that holds these entries, given in any order."""
        ordered = _in_byte_order(entries)
        encoded = encode_entries(
            algorithm, ((name, entry[0], entry[1]) for name, entry in ordered.items())
        )
        content_id = algorithm.of_folder(encoded, len(encoded))
        keep = len(ordered) >= KEEP_ENCODED
        kept = dict(zip(ordered, encoded, strict=True)) if keep else None
        return cls(ordered, content_id, _sum(ordered), kept, _count_unreadable(ordered))

    def with_changes(self, algorithm: WorkspaceHash, changes: Mapping[str, Entry | None]) -> Folder:
        """This folder with some entries replaced, added or (None) removed."""
        new = self._changed(algorithm, changes)
        new._source = (self._token, frozenset(changes))
        return new

    def touched_since(self, old: Folder) -> Iterable[str]:
        """The names that may differ from another folder: few where this one was made from it."""
        if self._source is not None and self._source[0] is old._token:
            return sorted(self._source[1])
        names = [name for name, entry in self.entries.items() if old.entries.get(name) is not entry]
        if len(old.entries) + len(names) > len(self.entries):
            names += [name for name in old.entries if name not in self.entries]
        return names

    def _changed(self, algorithm: WorkspaceHash, changes: Mapping[str, Entry | None]) -> Folder:
        encoded = self._encoded
        in_place = all(entry and name in self.entries for name, entry in changes.items())
        if encoded is None or not in_place:
            merged = dict(self.entries)
            for name, entry in changes.items():
                if entry is None:
                    merged.pop(name, None)
                else:
                    merged[name] = entry
            return Folder.of(algorithm, merged)
        entries = cast("dict[str, Entry]", copy(self.entries))
        encoded, totals, unreadable = dict(encoded), self.totals, self.unreadable
        for name, entry in changes.items():
            assert entry is not None
            totals = _plus(_minus(totals, entries[name]), entry)
            unreadable += _is_unreadable(entry) - _is_unreadable(entries[name])
            entries[name] = entry
            raw = paths.text_to_bytes(name)
            encoded[name] = algorithm.encode_child(raw, entry.kind, entry.content_id)
        content_id = algorithm.of_folder(encoded.values(), len(encoded))
        return Folder(entries, content_id, totals, encoded, unreadable)

    def made_unreadable(self, problem: int) -> Folder:
        """This folder, its ids as they are, when nothing at or below it can be read any more."""
        entries = {
            name: entry._replace(stat=filestat.unreadable(entry.size, problem))
            if entry.folder is None
            else entry.folder.made_unreadable(problem).as_entry()
            for name, entry in self.entries.items()
        }
        if entries == self.entries:
            return self
        count = _count_unreadable(entries)
        return Folder(entries, self.content_id, self.totals, self._encoded, count)

    def as_entry(self) -> Entry:
        """This folder as its parent lists it."""
        return Entry(Kind.DIRECTORY, self.content_id, self.totals.bytes, filestat.NO_STAT, self)


def encode_entries(
    algorithm: WorkspaceHash, entries: Iterable[tuple[str, Kind, ContentId]]
) -> list[bytes]:
    """The encoded children that a folder's content id is made of."""
    to_bytes = paths.text_to_bytes
    return algorithm.encode_children(
        (name.encode() if "\\" not in name else to_bytes(name), kind, content_id)
        for name, kind, content_id in entries
    )


def _in_byte_order(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    # Code point order is byte order of UTF-8; only escaped names need their bytes looked at.
    key = paths.sort_key if "\\" in "".join(entries) else None
    return {name: entries[name] for name in sorted(entries, key=key)}


def _sum(entries: Mapping[str, Entry]) -> Totals:
    files = directories = links = size = 0
    for entry in entries.values():
        size += entry[2]
        if entry[0] is Kind.FILE:
            files += 1
        elif entry[0] is Kind.LINK:
            links += 1
        else:
            assert entry[4] is not None
            below = entry[4].totals
            files += below[0]
            directories += below[1]
            links += below[2]
    return Totals(files, directories + 1, links, size)


def _is_unreadable(entry: Entry) -> int:
    if entry[4] is not None:
        return entry[4].unreadable
    return int(filestat.problem_of(entry[3]) != 0)


def _count_unreadable(entries: Mapping[str, Entry]) -> int:
    # Only a stat that vouches for nothing can have a problem in it; most do vouch.
    none = filestat.NO_INODE
    return sum(
        _is_unreadable(entry)
        for entry in entries.values()
        if entry[4] is not None or entry[3].startswith(none)
    )


def _of_entry(entry: Entry) -> Totals:
    if entry.folder is not None:
        return entry.folder.totals
    return Totals(int(entry.kind is Kind.FILE), 0, int(entry.kind is Kind.LINK), entry.size)


def _plus(totals: Totals, entry: Entry) -> Totals:
    return Totals(*(a + b for a, b in zip(totals, _of_entry(entry), strict=True)))


def _minus(totals: Totals, entry: Entry) -> Totals:
    return Totals(*(a - b for a, b in zip(totals, _of_entry(entry), strict=True)))


class Tree(NamedTuple):
    """A workspace at one moment."""

    algorithm: WorkspaceHash
    root: Folder

    @classmethod
    def empty(cls, algorithm: WorkspaceHash) -> Tree:
        """The tree of an empty folder."""
        return cls(algorithm, Folder.of(algorithm, {}))

    @property
    def root_id(self) -> NodeId:
        """The NodeID of the root: the one id that stands for everything."""
        return self.node_id(paths.ROOT, self.root.as_entry())

    def node_id(self, path: str, entry: Entry) -> NodeId:
        """The NodeID of an entry at its path."""
        return self.algorithm.node_id(entry.kind, paths.text_to_bytes(path), entry.content_id)

    def get(self, path: str) -> Entry | None:
        """The entry at a path, or None."""
        if not path:
            return self.root.as_entry()
        folder: Folder | None = self.root
        entry: bytes | Entry | None = None
        for name in path.split("/"):
            if folder is None:
                return None
            entries = folder.entries
            # Asked for very often: nothing is called on the way that is not needed.
            held = entries.held if type(entries) is PackedEntries else entries
            entry = held.get(name)
            if entry is None:
                return None
            folder = None if isinstance(entry, bytes) else entry.folder
        return _entry(entry) if isinstance(entry, bytes) else entry

    def folder(self, path: str) -> Folder | None:
        """The folder at a path, or None when something else or nothing is there."""
        entry = self.get(path)
        return entry.folder if entry else None

    def walk(self, below: str = paths.ROOT) -> Iterator[tuple[str, Entry]]:
        """Every node at or below a path, parents before children, in byte order of names."""
        start = self.get(below)
        if start is None:
            return
        stack = [(below, start)]
        while stack:
            path, entry = stack.pop()
            yield path, entry
            if entry.folder is not None:
                stack.extend(
                    (paths.join(path, name), child)
                    for name, child in reversed(list(entry.folder.entries.items()))
                )

    def folders(self) -> Iterator[tuple[str, Folder]]:
        """Every folder with its path, parents first."""
        stack = [(paths.ROOT, self.root)]
        while stack:
            path, folder = stack.pop()
            yield path, folder
            stack.extend(
                (paths.join(path, name), entry.folder)
                for name, entry in folder.entries.items()
                if entry.folder is not None
            )

    def largest(self, limit: int) -> list[str]:
        """The paths of the largest files, largest first, those of equal size by their paths.

        A folder is entered only where it may have one of them: no file is larger than its folder,
        and none comes before it.
        """
        best: list[tuple[int, str]] = []
        heap = [(-self.root.totals.bytes, paths.ROOT)]
        while heap and limit:
            most, path = heapq.heappop(heap)
            if len(best) == limit and most > best[-1][0]:
                break
            least = 0
            if len(best) == limit:
                size, last = -best[-1][0], best[-1][1]
                # Of equal size only what comes before the last of them counts.
                least = size + (f"{path}/" > last if path else 0)
            for name, kind, size in self._sizes(path, least):
                if kind is Kind.DIRECTORY:
                    heapq.heappush(heap, (-size, paths.join(path, name)))
                elif kind is not Kind.LINK:
                    insort(best, (-size, paths.join(path, name)))
                    del best[limit:]
        return [path for _, path in best]

    def _sizes(self, path: str, least: int) -> Iterable[tuple[str, Kind, int]]:
        """What a folder has in it of at least so many bytes."""
        listed = self.root.listed_sizes(path, least)
        if listed is not None:
            return listed
        folder = self.folder(path)
        entries = () if folder is None else folder.entries.items()
        return ((name, entry.kind, entry.size) for name, entry in entries if entry.size >= least)

    def with_updates(self, updates: Mapping[str, Mapping[str, Entry | None]]) -> Tree:
        """The tree after changes given per folder: only those folders and their ancestors move.

        Each key must be a folder of this tree that no other change replaces or removes.
        """
        pending = {folder: dict(changes) for folder, changes in updates.items()}
        for path in updates:
            for ancestor in paths.ancestors(path):
                pending.setdefault(ancestor, {})
        root = self.root
        for path in sorted(pending, key=paths.depth, reverse=True):
            old = self.folder(path)
            assert old is not None, path
            new = old.with_changes(self.algorithm, pending[path]) if pending[path] else old
            if not path:
                root = new
            elif new is not old:
                parent, name = paths.split(path)
                pending[parent][name] = new.as_entry()
        return Tree(self.algorithm, root)
