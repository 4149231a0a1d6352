"""Every version of every node with the cycles between which it stood; a snapshot is a range."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from indexer.sessions.node import REGIONS, SEQ, Node, SortKey

_KEY = attrgetter("key")


class Version:
    """A node under one parent, visible in cycles from `born` up to but without `gone`."""

    __slots__ = ("_made", "born", "gone", "key", "parent")

    def __init__(
        self,
        made: Node | Callable[[], Node],
        parent: str | None,
        born: int,
        gone: int | None = None,
        key: SortKey | None = None,
    ) -> None:
        self._made = made
        self.parent = parent
        self.born = born
        self.gone = gone
        # A version that comes with its key is read from a store, its node only once asked for.
        self.key = key if key is not None else self.node.sort_key

    @property
    def id(self) -> str:
        """The id of the node, which ends its sort key."""
        return self.key[3]

    @property
    def node(self) -> Node:
        """The node itself."""
        made = self._made
        if not isinstance(made, Node):
            made = self._made = made()
        return made

    def to_json(self) -> dict[str, Any]:
        """The version as a row of a store."""
        row = {"id": self.id, "parent": self.parent, "born": self.born, "gone": self.gone}
        return {**row, "node": self.node.document()}

    def visible(self, cycle: int) -> bool:
        """Whether the snapshot of that cycle contains this version."""
        return self.born <= cycle and (self.gone is None or cycle < self.gone)


@dataclass(slots=True)
class Delta:
    """What one record changed in the stored versions; a version's key is (id, born)."""

    upserts: dict[tuple[str, int], Version] = field(default_factory=dict)
    deletes: dict[tuple[str, int], None] = field(default_factory=dict)

    def put(self, version: Version) -> None:
        """Note a version that is new or has changed."""
        key = (version.id, version.born)
        self.deletes.pop(key, None)
        self.upserts[key] = version

    def drop(self, version: Version) -> None:
        """Note a version that no snapshot will ever show."""
        key = (version.id, version.born)
        self.upserts.pop(key, None)
        self.deletes[key] = None


class History:
    """All versions, with the ones that are alive now kept apart from the archive."""

    def __init__(self, cycle: int) -> None:
        self.working = cycle + 1
        self.delta = Delta()
        self.regions: dict[str, str] = {}
        self.root_id = ""
        self._versions: dict[str, list[Version]] = {}
        # Alive, or leaving with the cycle in progress; this is all that @t0 and @w look at.
        self._recent: dict[str, list[Version]] = {}
        self._archive: dict[str, list[Version]] = {}
        self._leaving: list[Version] = []

    def knows(self, node_id: str) -> bool:
        """Whether an id was ever used, even by a node that is gone."""
        return node_id in self._versions

    def committed(self, node_id: str) -> bool:
        """Whether any snapshot shows a node."""
        versions = self._versions.get(node_id)
        return versions is not None and versions[0].born < self.working

    def current(self, node_id: str) -> Version | None:
        """The version of a node in the working tree."""
        versions = self._versions.get(node_id)
        return versions[-1] if versions and versions[-1].gone is None else None

    def version(self, node_id: str, cycle: int) -> Version | None:
        """The version of a node that the snapshot of a cycle shows."""
        for version in reversed(self._versions.get(node_id, ())):
            if version.visible(cycle):
                return version
        return None

    def ids(self) -> Iterator[tuple[str, Sequence[Version]]]:
        """Every id ever used with its versions; an id that no snapshot will show has none."""
        yield from self._versions.items()

    def restore(self, ids: Iterable[tuple[str, list[Version]]], working: int) -> None:
        """Take in everything that a store kept of a history, `working` being its cycle."""
        self.working = working
        for node_id, versions in ids:
            self._versions[node_id] = versions
            for version in versions:
                if version.gone is not None and version.gone < working:
                    self._archive.setdefault(version.parent or "", []).append(version)
                    continue
                if version.parent is not None:
                    self._recent.setdefault(version.parent, []).append(version)
                if version.gone is not None:
                    self._leaving.append(version)
        for lists in (self._recent, self._archive):
            for siblings in lists.values():
                siblings.sort(key=_KEY)

    def add(self, node: Node, parent: str | None, *, born: int | None = None) -> None:
        """Put a node into the working tree."""
        version = Version(node, parent, self.working if born is None else born)
        self._versions.setdefault(node.id, []).append(version)
        if parent is None:
            self.root_id = node.id
        else:
            insort(self._recent.setdefault(parent, []), version, key=_KEY)
        if node.node_type in REGIONS:
            self.regions[node.node_type] = node.id
        self.delta.put(version)

    def close(self, node_id: str) -> None:
        """Take a node out of the working tree; snapshots that show it keep it."""
        version = self.current(node_id)
        assert version is not None
        if version.born == self.working:
            self._versions[node_id].pop()
            self._take(version, self._recent)
            self.delta.drop(version)
        else:
            version.gone = self.working
            self._leaving.append(version)
            self.delta.put(version)

    def relocate(self, node: Node, parent: str) -> None:
        """Hang a node of the working tree elsewhere, headers as given."""
        self.close(node.id)
        self.add(node, parent)

    def advance(self) -> None:
        """Make the working tree the snapshot of its cycle, and begin the next one."""
        for version in self._leaving:
            self._take(version, self._recent)
            insort(self._archive.setdefault(version.parent or "", []), version, key=_KEY)
        self._leaving.clear()
        self.working += 1

    def children(self, node_id: str, cycle: int) -> list[Node]:
        """Children of a node in canonical order in one snapshot."""
        recent = self._recent.get(node_id, [])
        found = [v.node for v in self._candidates(node_id, recent, cycle) if v.visible(cycle)]
        if node_id == self.root_id:
            found.sort(key=lambda node: REGIONS.index(node.node_type))
        return found

    def turns(self, cycle: int) -> Iterator[Node]:
        """Sealed turns of a snapshot, newest first."""
        seq = self.regions[SEQ]
        recent = self._recent.get(seq, [])
        archived = self._archive.get(seq, []) if cycle < self.working - 1 else []
        streams = (reversed(recent), reversed(archived))
        merged = heapq.merge(*streams, key=_KEY, reverse=True) if archived else streams[0]
        return (version.node for version in merged if version.visible(cycle))

    def view(self, cycle: int) -> HistoryView:
        """The tree as the snapshot of a cycle shows it; the working cycle shows the work."""
        return HistoryView(self, cycle)

    def take_delta(self) -> Delta:
        """What changed since the last call, for a store to write."""
        delta, self.delta = self.delta, Delta()
        return delta

    def _candidates(
        self, node_id: str, recent: list[Version], cycle: int
    ) -> Sequence[Version] | Iterator[Version]:
        archived = self._archive.get(node_id) if cycle < self.working - 1 else None
        return heapq.merge(recent, archived, key=_KEY) if archived else recent

    @staticmethod
    def _take(version: Version, lists: dict[str, list[Version]]) -> None:
        siblings = lists[version.parent or ""]
        place = bisect_left(siblings, version.key, key=_KEY)
        # A node moved away and back leaves two versions with one key.
        while siblings[place] is not version:
            place += 1
        del siblings[place]
        if not siblings:
            del lists[version.parent or ""]


@dataclass(frozen=True, slots=True)
class HistoryView:
    """One snapshot of a history, computed as it is read."""

    history: History
    cycle: int

    @property
    def root_id(self) -> str:
        """The root's id."""
        return self.history.root_id

    def region_id(self, region: str) -> str:
        """The id of a region, or of the root, by its alias."""
        return self.history.regions.get(region, self.history.root_id)

    def node(self, node_id: str) -> Node | None:
        """The node of that id, if this snapshot shows it."""
        version = self.history.version(node_id, self.cycle)
        return version.node if version is not None else None

    def parent(self, node_id: str) -> str | None:
        """The id a node hangs under; the root and nodes that are not shown have none."""
        version = self.history.version(node_id, self.cycle)
        return version.parent if version is not None else None

    def children(self, node_id: str) -> list[Node]:
        """Children in canonical order; those of the root in render order."""
        return self.history.children(node_id, self.cycle)

    def turns(self) -> Iterator[Node]:
        """Sealed turns, newest first, without looking at more than are taken."""
        return self.history.turns(self.cycle)
