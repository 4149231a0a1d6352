"""How many frames there are, and how many of them are fresh: in all, per type and per agent."""

from __future__ import annotations

import heapq
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.changes import tree_changes
from indexer.core.frames import FRAME_ATTRIBUTE, BodyHash, Freshness, Head, is_generated
from indexer.core.tree import Entry, Tree
from indexer.engine.documents import JsonObject
from indexer.engine.frames.few import Slot
from indexer.engine.frames.freshness import Judged, freshness_of, judge
from indexer.engine.frames.heads import HeadCache
from indexer.regenerate.plan import HeadOf, Rules, count_wanted, stale_steps
from indexer.store.sessions import SessionStore

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

LISTED: Final = 50
"""How many frames that are not fresh `status` names."""

_NOT_HERE: Final = (Freshness.ORPHANED, Freshness.UNMANAGED)


class Following:
    """Follows trees, heads and declarations, and tells which paths they moved."""

    def __init__(self) -> None:
        self._heads: HeadCache | None = None
        self._version = 0
        self._tree: Tree | None = None
        self._rules: tuple[object, ...] = ()

    @contextmanager
    def moved(self, frames: Frames, tree: Tree) -> Iterator[set[str] | None]:
        """The paths to look at again since the last time; None: all there are.

        Where that look does not come to its end, the next one is at everything.
        """
        heads = frames.heads
        # Read first: what moves meanwhile is looked at again next time.
        version = heads.versions.now
        rules = tuple(declared.rules for declared in frames.types.values())
        moved = heads.versions.moved_since(self._version) if heads is self._heads else None
        before = self._tree
        # That a file cannot be read moves no id.
        unread = tree.root.unreadable or (before is not None and before.root.unreadable)
        if before is None or rules != self._rules or unread:
            moved = None
        elif moved is not None:
            moved |= {change.path for change in tree_changes(before, tree)}
        self._tree = None
        yield moved
        self._heads, self._version, self._tree, self._rules = heads, version, tree, rules


class States(NamedTuple):
    """What counts by freshness: in all, per type, per agent, and which are not fresh because."""

    totals: dict[str, int]
    types: JsonObject
    agents: list[JsonObject]
    stale: list[JsonObject]


class MissingCounts:
    """How many nodes have no frame of a declared type yet, by type.

    What lies below a folder whose frame is current is not missing, though it may have none: it
    could not be made.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._lock = threading.Lock()
        self._following = Following()
        self._counted: tuple[Tree, tuple[Rules, ...], int] | None = None
        self._missing: dict[str, set[str] | int] = {}
        """Which they are, or only how many where all are."""

    def of(self, tree: Tree) -> dict[str, int]:
        """Looked for again where something moved; current folders are not entered."""
        with self._lock:
            version, known = self._frames.heads.versions.now, self._counted
            rules = tuple(declared.rules for declared in self._frames.types.values())
            same = known is not None and known[0].root_id == tree.root_id and known[1] == rules
            if known is None or not same or known[2] != version:
                with self._following.moved(self._frames, tree) as moved:
                    for one in rules:
                        if not same or moved is None or not self._follow(tree, one, moved):
                            self._missing[one.type] = _missing(self._frames, tree, one)
                self._counted = (tree, rules, version)
            found = {one.type: self._missing[one.type] for one in rules}
            return {kind: one if isinstance(one, int) else len(one) for kind, one in found.items()}

    def _follow(self, tree: Tree, rules: Rules, moved: set[str]) -> bool:
        """Take out what has come in the same tree; False where there may be more than before."""
        missing, head_of = self._missing[rules.type], self._frames.heads.heads_of(rules.type)
        if isinstance(missing, int):
            return False
        for path in moved:
            entry = tree.get(path)
            if entry is None or not rules.wants(entry):
                continue
            if rules.is_made(head_of, path, entry):
                missing.discard(path)
                _take_out_below(missing, rules, head_of, path, entry)
            elif head_of(path, rules.agent_for(entry)) is not None:
                if entry.folder is not None:
                    return False
                missing.discard(path)
        return True


def _take_out_below(
    missing: set[str], rules: Rules, head_of: HeadOf, path: str, entry: Entry
) -> None:
    """A folder's frame is current: what is missing below it could not be made."""
    stack = [(path, entry)]
    while stack and missing:
        path, entry = stack.pop()
        for name, child in (entry.folder.entries if entry.folder else {}).items():
            where = paths.join(path, name)
            missing.discard(where)
            if child.folder is not None and not rules.is_made(head_of, where, child):
                stack.append((where, child))


def _missing(frames: Frames, tree: Tree, rules: Rules) -> set[str] | int:
    heads = frames.heads
    if not heads.has_type(rules.type):
        return count_wanted(tree, rules)

    def head_of(path: str, agent: str) -> Head | None:
        if not heads.has_heads_of(path):
            # Whoever goes down into a folder asks for all that is in it.
            above = paths.split(path)[0]
            folder = tree.folder(above) if path else None
            heads.load_few(
                [paths.join(above, name) for name in folder.entries] if folder else [path]
            )
        return heads.head(path, rules.type, agent)

    steps = stale_steps(tree, rules, head_of)
    return {step.path for step in steps if head_of(step.path, rules.agent_for(step.entry)) is None}


_Place = tuple[bool, str, Slot, Head]
"""A frame: whether a generator keeps it, where, and as what."""


class _Single(NamedTuple):
    """A frame that is counted by itself: a note, or one that is not fresh."""

    slot: Slot
    head: Head
    freshness: Freshness


class StateCounts:
    """The states of all frames that count; what moved is judged again, and nothing else."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._lock = threading.Lock()
        self._following = Following()
        self._singles: dict[str, list[_Single]] = {}
        self._doubtful: set[str] = set()
        """Paths that are judged each time, because their frames depend on more than themselves."""
        self._counted: tuple[object, States] | None = None

    def of(self, present: Tree | None, recorded: Tree | None) -> States:
        """Heads by freshness in a tree that is what is on disk; without one all are unknown.

        Frames that are missing are counted in any case, where something was recorded at all.
        """
        frames = self._frames
        frames.declared.refresh()
        tree = present or recorded
        missing = frames.missing.of(tree) if tree else {}
        with self._lock:
            rules = tuple(declared.rules for declared in frames.types.values())
            # Of two trees with the same ids one may have files that could not be read.
            unread = present.root if present and present.root.unreadable else None
            key = (present is None, tree and tree.root_id, unread, frames.heads.versions.now, rules)
            if self._counted is None or self._counted[0] != key:
                if present is not None:
                    with self._following.moved(frames, present) as moved:
                        self._judge(present, moved)
                nodes = tree.root.totals.nodes if tree else 0
                self._counted = (key, self._sum(present, nodes, missing))
            return self._counted[1]

    def _judge(self, tree: Tree, moved: set[str] | None) -> None:
        """Judge the frames at the paths that moved, or all."""
        frames, heads = self._frames, self._frames.heads
        found: Iterable[tuple[str, Slot, Head]]
        if moved is None:
            self._singles, notes = {}, heads.notes.copy()
            found = ((path, slot, head) for slot, live in heads.live() for path, head in live)
        else:
            moved |= self._doubtful
            for path in moved:
                self._singles.pop(path, None)
            notes = {path: heads.notes_at(path) for path in moved}
            found = [(path, *one) for path in moved for one in heads.live_at(path)]
        self._doubtful = set()
        frames.load_notes(
            tree, ((path, head.frame_id) for path, several in notes.items() for _, head in several)
        )
        for path, slot, head in found:
            freshness = freshness_of(frames, tree, path, *slot, head)
            written = not is_generated(slot[1])
            if written or freshness is not Freshness.FRESH:
                self._singles.setdefault(path, []).append(_Single(slot, head, freshness))
            asked_for = not written and slot[0] not in frames.types
            if freshness is Freshness.UNKNOWN or (
                asked_for and freshness is not Freshness.UNMANAGED
            ):
                self._doubtful.add(path)

    def _sum(self, tree: Tree | None, nodes: int, missing: dict[str, int]) -> States:
        """Add up the single frames and the rest: fresh, or without a tree not known to be."""
        heads, rest, singles = self._frames.heads, Freshness.FRESH, self._singles
        if tree is None:
            rest = Freshness.UNKNOWN
            singles = {
                path: [_Single(slot, head, rest) for slot, head in notes]
                for path, notes in heads.notes.copy().items()
            }
        counting = _Counting(singles, self._find_referred)
        for slot, found in heads.slots.copy().items():
            if is_generated(slot[1]) and found:
                counting.add_rest(slot, found.places(), rest)
        totals, types = _by_type(counting.counts, missing)
        agents: list[JsonObject] = [
            {
                "id": agent,
                "nodes_with_frame": len(found),
                "coverage_pct": round(100 * min(len(found), nodes) / nodes, 1) if nodes else 0.0,
            }
            for agent, found in sorted(counting.covered.items())
        ]
        stale = [] if tree is None else self._first_of(counting.not_fresh, tree)
        return States(totals, types, agents, stale)

    def _find_referred(self) -> Callable[[str, Head], bool]:
        """Whether somebody refers to what a generator made of a file that is gone."""
        referred, heads = _referred_to(self._frames), self._frames.heads
        return lambda path, head: referred.has(head) or bool(heads.notes_at(path))

    def _first_of(self, not_fresh: Iterable[_Place], tree: Tree) -> list[JsonObject]:
        """The first frames that are not fresh, with the reason."""
        listed = []
        # Notes first: nothing makes those again by itself.
        for _, path, slot, head in heapq.nsmallest(LISTED, not_fresh):
            judged = judge(self._frames, tree, path, *slot, head)
            if judged.because:
                listed.append(_not_fresh(path, *slot, judged))
        return listed


class _Counting:
    """Counts frames by slot: those that are judged one by one, and then the rest."""

    def __init__(
        self,
        singles: dict[str, list[_Single]],
        find_referred: Callable[[], Callable[[str, Head], bool]],
    ) -> None:
        self.counts: defaultdict[Slot, Counter[Freshness]] = defaultdict(Counter)
        self.covered: defaultdict[str, set[str]] = defaultdict(set)
        """By agent the paths that it says something of."""
        self.not_fresh: list[_Place] = []
        self._left_out: Counter[Slot] = Counter()
        self._elsewhere: defaultdict[Slot, set[str]] = defaultdict(set)
        stale, others = self._sort_out(singles)
        for slot, count in stale.items():
            self.counts[slot][Freshness.STALE] = count
        is_referred_to: Callable[[str, Head], bool] | None = None
        for path, (slot, head, freshness) in others:
            written, elsewhere = not is_generated(slot[1]), freshness in _NOT_HERE
            if elsewhere:
                self._elsewhere[slot].add(path)
            if freshness is Freshness.ORPHANED and not written:
                is_referred_to = is_referred_to or find_referred()
                if not is_referred_to(path, head):
                    self._left_out[slot] += 1
                    continue
            self.counts[slot][freshness] += 1
            if freshness is not Freshness.FRESH:
                self.not_fresh.append((not written, path, slot, head))
            if written:
                self.covered[slot[1]].update(() if elsewhere else (path,))

    def _sort_out(
        self, singles: dict[str, list[_Single]]
    ) -> tuple[dict[Slot, int], list[tuple[str, _Single]]]:
        """Count what generators will make again, which beside a pass may be nearly all."""
        stale: dict[Slot, int] = {}
        others = []
        for path, several in singles.items():
            for one in several:
                slot, head, freshness = one
                if freshness is Freshness.STALE and (slot in stale or is_generated(slot[1])):
                    stale[slot] = stale.get(slot, 0) + 1
                    self.not_fresh.append((True, path, slot, head))
                else:
                    others.append((path, one))
        return stale, others

    def add_rest(self, slot: Slot, places: set[str], freshness: Freshness) -> None:
        """Count all frames of a generator: those that were not counted one by one are alike."""
        counts = self.counts[slot]
        counts[freshness] += max(0, len(places) - self._left_out[slot] - counts.total())
        self.covered[slot[1]].update(places - self._elsewhere[slot])


def _by_type(
    counts: Mapping[Slot, Counter[Freshness]], missing: dict[str, int]
) -> tuple[dict[str, int], JsonObject]:
    """In all, and per type, by state."""
    totals = dict.fromkeys(("total", *(state.value for state in Freshness), "missing"), 0)
    types: JsonObject = {
        name: {**totals, "missing": count} for name, count in missing.items() if count
    }
    none = dict(totals)
    totals["missing"] = sum(missing.values())
    for (frame_type, _), of_slot in counts.items():
        per_type = types.setdefault(frame_type, dict(none))
        for freshness, count in of_slot.items():
            for sums in (totals, per_type):
                sums["total"] += count
                sums[freshness.value] += count
    return totals, dict(sorted(types.items()))


class _ReferredTo(NamedTuple):
    """What manifests and sessions name."""

    bodies: set[BodyHash]
    frame_ids: set[str]

    def has(self, head: Head) -> bool:
        return head.content in self.bodies or head.frame_id.hex() in self.frame_ids


def _referred_to(frames: Frames) -> _ReferredTo:
    # Imported late: most workspaces have no manifest, or no frame whose file is gone.
    from indexer.engine.search.manifests import named_by_manifests

    named = SessionStore(frames.store.database).attribute_values(FRAME_ATTRIBUTE)
    return _ReferredTo(named_by_manifests(frames.store), set(named))


def _not_fresh(path: str, frame_type: str, agent: str, judged: Judged) -> JsonObject:
    return {
        "path": path,
        "type": frame_type,
        "agent": agent,
        "freshness": judged.freshness.value,
        "because": judged.because,
    }
