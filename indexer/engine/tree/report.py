"""What a report tells: root, coverage, freshness, changes since a base, and a map of the tree."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.frames import Freshness
from indexer.core.progress import Progress
from indexer.core.tree import Entry, Tree
from indexer.engine.documents import DiffDocument, JsonObject
from indexer.engine.frames.freshness import freshness_of
from indexer.engine.tree.history import diff, find_root
from indexer.engine.tree.results import ChangesDocument, RemarkDocument
from indexer.engine.tree.status import present_status, recorded_status
from indexer.errors import UncheckedError

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

MAPPED: Final = 600
"""How many nodes the map shows; smaller folders are shown closed."""

NONE: Final = "none"
_GRAVITY: Final = (Freshness.FRESH.value, Freshness.STALE.value, Freshness.UNKNOWN.value)


class CoverageDocument(TypedDict):
    """How many nodes have frames, by their gravest state."""

    nodes: int
    fresh: int
    stale: int
    unknown: int
    none: int
    fresh_pct: float


class _MappedDocument(TypedDict):
    path: str
    kind: str
    bytes: int
    nodes: int
    state: str
    below: str


class MappedDocument(_MappedDocument, total=False):
    """A node of the map; `children` where it is shown open."""

    children: list[MappedDocument]


class ReportDocument(TypedDict):
    """Result of `report`: what `status` tells of the index, and more."""

    root: str | None
    content_id: str | None
    hash: str | None
    state: str
    nodes: int
    files: int
    directories: int
    links: int
    bytes: int
    changes: ChangesDocument
    unreadable: list[RemarkDocument]
    frames: dict[str, int]
    types: JsonObject
    agents: list[JsonObject]
    not_fresh: list[JsonObject]
    coverage: CoverageDocument
    base: str | None
    since_base: DiffDocument | None
    map: MappedDocument


def report(
    engine: Engine, base: str | None = None, *, progress: Progress | None = None
) -> ReportDocument:
    """Root, coverage, freshness, changes since a base root, and a map.

    All of it depends on content alone: no clock, no place, no process.
    """
    head = engine.trees.head()
    if head is None:
        raise UncheckedError("nothing has been recorded yet", hint="run `merkle scan` first")
    # Refused before the workspace is walked.
    since = None if base is None else find_root(engine.trees, base).root.hex()
    if engine.served:
        status, present = recorded_status(engine.frames, engine.recorded, "current"), engine.tree
    else:
        status, tree = present_status(engine, progress)
        present = tree or engine.tree
    states = _states(engine.frames, present, known=status["state"] != "unavailable")
    covered = Counter(states.values())
    nodes = present.root.totals.nodes
    return {
        "root": status["root"],
        "content_id": status["content_id"],
        "hash": status["hash"],
        "state": status["state"],
        "nodes": status["nodes"],
        "files": status["files"],
        "directories": status["directories"],
        "links": status["links"],
        "bytes": status["bytes"],
        "changes": status["changes"],
        "unreadable": status["unreadable"],
        "frames": status["frames"],
        "types": status["types"],
        "agents": status["agents"],
        "not_fresh": status["not_fresh"],
        "coverage": {
            "nodes": nodes,
            "fresh": covered[Freshness.FRESH.value],
            "stale": covered[Freshness.STALE.value],
            "unknown": covered[Freshness.UNKNOWN.value],
            "none": nodes - covered.total(),
            # Rounded down: all is all, and nothing less.
            "fresh_pct": 1000 * covered[Freshness.FRESH.value] // nodes / 10,
        },
        "base": since,
        "since_base": None if since is None else diff(engine, since, head.root.hex()),
        "map": _map(present, states),
    }


def _states(frames: Frames, tree: Tree, *, known: bool) -> dict[str, str]:
    """The gravest state of each node's frames; nodes without any are left out."""
    found: dict[str, str] = {}
    for (frame_type, agent), live in frames.heads.live():
        for path, head in live:
            state = Freshness.UNKNOWN.value
            if known:
                state = freshness_of(frames, tree, path, frame_type, agent, head).value
            if state in _GRAVITY and tree.get(path) is not None:
                found[path] = max(found.get(path, state), state, key=_GRAVITY.index)
    return found


def _map(tree: Tree, states: dict[str, str]) -> MappedDocument:
    """The tree as nested nodes, the heaviest folders opened first, up to a number of nodes."""
    below = _gravest(states)
    top = _node("", tree.root.as_entry(), below, states)
    heap = [(-tree.root.totals.bytes, "", tree.root, top)]
    shown = 1
    while heap:
        _, path, folder, node = heapq.heappop(heap)
        if shown + len(folder.entries) > MAPPED:
            continue
        shown += len(folder.entries)
        for name, entry in folder.entries.items():
            where = paths.join(path, name)
            child = _node(where, entry, below, states)
            node.setdefault("children", []).append(child)
            if entry.folder is not None:
                heapq.heappush(heap, (-entry.size, where, entry.folder, child))
    return top


def _gravest(states: dict[str, str]) -> dict[str, str]:
    """The gravest state at or below each folder that has any."""
    found: dict[str, str] = {}
    for path, state in states.items():
        for above in (path, *paths.ancestors(path)):
            found[above] = max(found.get(above, state), state, key=_GRAVITY.index)
    return found


def _node(path: str, entry: Entry, below: dict[str, str], states: dict[str, str]) -> MappedDocument:
    return {
        "path": path,
        "kind": entry.kind.label,
        "bytes": entry.size,
        "nodes": entry.folder.totals.nodes if entry.folder else 1,
        "state": states.get(path, NONE),
        "below": below.get(path, NONE),
    }
