"""What a report tells: root, coverage, freshness, changes since a base, and a map of the tree."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.frames import Freshness
from indexer.core.tree import Entry, Tree
from indexer.engine.documents import JsonObject
from indexer.engine.frames.freshness import judge
from indexer.engine.tree.history import diff, find_root
from indexer.engine.tree.status import present_status, recorded_status
from indexer.errors import UncheckedError

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

MAPPED: Final = 600
"""How many nodes the map shows; smaller folders are shown closed."""

NONE: Final = "none"
_GRAVITY: Final = (Freshness.FRESH.value, Freshness.STALE.value, Freshness.UNKNOWN.value)
_KEPT: Final = (
    "root", "content_id", "hash", "state", "nodes", "files", "directories", "links", "bytes",
    "changes", "unreadable", "frames", "types", "agents", "not_fresh",
)  # fmt: skip


def report(engine: Engine, base: str | None = None) -> JsonObject:
    """Root, coverage, freshness, changes since a base root, and a map.

    All of it depends on content alone: no clock, no place, no process.
    """
    head = engine.trees.head()
    if head is None:
        raise UncheckedError("nothing has been recorded yet", hint="run `merkle scan` first")
    # Refused before the workspace is walked.
    since = None if base is None else find_root(engine.trees, base).root.hex()
    if engine.served:
        status, present = recorded_status(engine, "current"), engine.tree
    else:
        status, tree = present_status(engine)
        present = tree or engine.tree
    document: JsonObject = {key: dict(status)[key] for key in _KEPT}
    states = _states(engine.frames, present, known=status["state"] != "unavailable")
    covered = Counter(states.values())
    nodes = present.root.totals.nodes
    document["coverage"] = {
        "nodes": nodes,
        **{state: covered[state] for state in _GRAVITY},
        NONE: nodes - covered.total(),
        # Rounded down: all is all, and nothing less.
        "fresh_pct": 1000 * covered[Freshness.FRESH.value] // nodes / 10,
    }
    document["base"] = since
    document["since_base"] = None if since is None else diff(engine, since, head.root.hex())
    document["map"] = _map(present, states)
    return document


def _states(frames: Frames, tree: Tree, *, known: bool) -> dict[str, str]:
    """The gravest state of each node's frames; nodes without any are left out."""
    found: dict[str, str] = {}
    for (frame_type, agent), heads in sorted(frames.heads.slots.items()):
        # Copied first: the writing thread may add a head meanwhile.
        for path, head in list(heads.items()):
            state = Freshness.UNKNOWN.value
            if known:
                state = judge(frames, tree, path, frame_type, agent, head).freshness.value
            if state in _GRAVITY and tree.get(path) is not None:
                found[path] = max(found.get(path, state), state, key=_GRAVITY.index)
    return found


def _map(tree: Tree, states: dict[str, str]) -> JsonObject:
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


def _node(path: str, entry: Entry, below: dict[str, str], states: dict[str, str]) -> JsonObject:
    return {
        "path": path,
        "kind": entry.kind.label,
        "bytes": entry.size,
        "nodes": entry.folder.totals.nodes if entry.folder else 1,
        "state": states.get(path, NONE),
        "below": below.get(path, NONE),
    }
