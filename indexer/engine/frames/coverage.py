"""How much is known where, and whether it is fresh, with sums per folder."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import BodyHash, Freshness, is_generated
from indexer.core.tree import Entry, Tree
from indexer.engine.frames.freshness import freshness_of
from indexer.engine.frames.heads import HeadCache, Live
from indexer.engine.frames.states import Following

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

CHARACTERS_PER_TOKEN: Final = 4
"""What a token is taken to hold where thousands of texts have to be weighed at once."""

NO_FRAME: Final = "none"
STATES: Final = (
    NO_FRAME,
    Freshness.FRESH.value,
    Freshness.STALE.value,
    Freshness.UNKNOWN.value,
    Freshness.UNMANAGED.value,
)
"""What a node can be: the worst that can be said of what is known about it."""

_FRESH, _STALE, _UNKNOWN, _UNMANAGED = range(1, 5)
# The first of these that one of a node's frames is, the node is.
_WORST_FIRST: Final = (
    (Freshness.STALE, _STALE),
    (Freshness.UNKNOWN, _UNKNOWN),
    (Freshness.FRESH, _FRESH),
    (Freshness.UNMANAGED, _UNMANAGED),
)
_SHIFT: Final = 8
"""A node's tokens and state are kept as one number: tokens * 8 + state."""


class Known(NamedTuple):
    """What is known at a node, and at everything below it."""

    path: str
    name: str
    kind: str
    state: str
    tokens: int
    """Estimated tokens of the frames at and below the node."""
    bytes: int
    entries: int
    """How many children it has."""
    nodes: int
    counts: dict[str, int]
    """How many nodes at and below it are in which state."""


class Coverage:
    """Sums per folder, kept up to date by what moves; any thread may ask.

    Built once, on first use; after that a change costs its path to the root.
    """

    def __init__(self, frames: Callable[[], Frames]) -> None:
        self._frames = frames
        self._lock = threading.RLock()
        self._tree: Tree | None = None
        self._following = Following()
        self._own: dict[str, int] = {}
        self._sums: dict[str, list[int]] = {}
        """Per folder the tokens below it, and how many nodes are in each state but the first."""

    def __enter__(self) -> Coverage:
        self._lock.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def bring_up_to(self, tree: Tree) -> None:
        """Take in what has moved since; the tree is what is on disk."""
        with self._lock:
            frames = self._frames()
            with self._following.moved(frames, tree) as moved:
                if moved is None:
                    self._own, self._sums = {}, {}
                    moved = _paths(frames.heads)
                self._measure(frames, tree, moved)
            self._tree = tree

    def known(self, path: str) -> Known | None:
        """One node of the tree last taken in."""
        with self._lock:
            entry = self._tree.get(path) if self._tree else None
            return None if entry is None else self._known(path, paths.split(path)[1], entry)

    def heaviest(self, path: str, count: int, *, by_files: bool = False) -> list[Known]:
        """The children of a folder with the most tokens (or bytes), the heaviest first."""
        with self._lock:
            folder = self._tree.folder(path) if self._tree else None
            if folder is None:
                return []
            found = (
                (entry.size if by_files else self._total(paths.join(path, name))[0], name, entry)
                for name, entry in folder.entries.items()
            )
            chosen = heapq.nsmallest(count, found, key=lambda one: (-one[0], one[1]))
            return [self._known(paths.join(path, name), name, entry) for _, name, entry in chosen]

    def stale(self, limit: int, below: str = paths.ROOT) -> list[str]:
        """The first stale paths at or below a node, going only where there are some."""
        with self._lock:
            return list(itertools.islice(self._walk_stale(below), limit))

    def _walk_stale(self, top: str) -> Iterator[str]:
        stack = [top]
        while stack and self._tree is not None:
            path = stack.pop()
            if self._own.get(path, 0) % _SHIFT == _STALE:
                yield path
            folder = self._tree.folder(path)
            if folder is not None and self._sums.get(path, _NOTHING)[_STALE]:
                below = [paths.join(path, name) for name in folder.entries]
                stack += [where for where in reversed(below) if self._total(where)[_STALE]]

    # -- keeping the sums

    def _measure(self, frames: Frames, tree: Tree, changed: Iterable[str]) -> None:
        """Weigh and judge some paths anew."""
        live = {path: frames.heads.live_at(path) for path in changed}
        lengths = frames.store.body_lengths(
            head.content for found in live.values() for _, head in found
        )
        frames.load_notes(
            tree,
            (
                (path, head.frame_id)
                for path, found in live.items()
                for slot, head in found
                if not is_generated(slot[1])
            ),
        )
        for path, found in live.items():
            new = _judged(frames, tree, path, found, lengths)
            old = self._own.get(path, 0)
            if new != old:
                self._put(path, old, new)

    def _put(self, path: str, old: int, new: int) -> None:
        """Keep a node's number, and pass the difference on to the folders above it."""
        if new:
            self._own[path] = new
        else:
            self._own.pop(path, None)
        for folder in paths.ancestors(path):
            sums = self._sums.setdefault(folder, list(_NOTHING))
            sums[0] += new // _SHIFT - old // _SHIFT
            if old:
                sums[old % _SHIFT] -= 1
            if new:
                sums[new % _SHIFT] += 1
            if not any(sums):
                del self._sums[folder]

    # -- telling

    def _total(self, path: str) -> list[int]:
        """A node and everything below it."""
        total = list(self._sums.get(path, _NOTHING))
        own = self._own.get(path, 0)
        total[0] += own // _SHIFT
        if own:
            total[own % _SHIFT] += 1
        return total

    def _known(self, path: str, name: str, entry: Entry) -> Known:
        sums = self._total(path)
        nodes = entry.folder.totals.nodes if entry.folder else 1
        entries = len(entry.folder.entries) if entry.folder else 0
        counts = dict(zip(STATES[1:], sums[1:], strict=True))
        counts[NO_FRAME] = nodes - sum(sums[1:])
        state = STATES[self._own.get(path, 0) % _SHIFT]
        return Known(
            path, name, entry.kind.label, state, sums[0], entry.size, entries, nodes, counts
        )


_NOTHING: Final = (0, 0, 0, 0, 0)


def _paths(cache: HeadCache) -> set[str]:
    """Every path that has a head."""
    return set[str]().union(*(heads.places() for heads in cache.slots.copy().values()))


def _judged(
    frames: Frames,
    tree: Tree,
    path: str,
    live: list[Live],
    lengths: dict[BodyHash, int],
) -> int:
    """A node's tokens and state as one number; 0 where nothing is known about it."""
    if not live or tree.get(path) is None:
        return 0
    labels = [freshness_of(frames, tree, path, *slot, head) for slot, head in live]
    state = next((number for label, number in _WORST_FIRST if label in labels), 0)
    if not state:
        return 0
    counted = {
        head.content
        for (_, head), label in zip(live, labels, strict=True)
        if label not in (Freshness.UNMANAGED, Freshness.ORPHANED)
    }
    tokens = sum(-(-lengths.get(body, 0) // CHARACTERS_PER_TOKEN) for body in counted)
    return tokens * _SHIFT + state
