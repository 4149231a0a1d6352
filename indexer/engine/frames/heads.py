"""The head cache: heads, memo and known frames, in memory once they are needed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from indexer.core import paths
from indexer.core.frames import BodyHash, FrameId, Head, HeadKey, MemoKey
from indexer.core.ids import ContentId
from indexer.regenerate.plan import Rules
from indexer.store.frames import BodyNumbers, FrameBatch, FrameStore, ModelResult
from indexer.store.postings import AT_ONCE, PostingStore, index_bodies, number_bodies

Slot = tuple[str, str]
"""type, agent"""

_REMEMBERED: Final = 256
"""How many batches back it is known which heads they moved."""
Moved = tuple[HeadKey, FrameId | None]
"""A head that moved, and the frame it pointed to before."""

_MOST_MOVED = 200_000


class HeadCache:
    """A write-through cache over the frame store; only the owner's writing thread changes it.

    Other threads may read at any time. The lock makes sure that what one of them loads is not
    older than what is stored meanwhile.
    """

    def __init__(self, store: FrameStore, postings: PostingStore) -> None:
        self.store = store
        self._postings = postings
        self._lock = threading.RLock()
        self._moving = threading.Lock()
        """Held for moments only, unlike the other, which is held while a batch is stored."""
        self._slots: dict[Slot, dict[str, Head]] | None = None
        self._memo: dict[MemoKey, tuple[int, BodyHash | None]] | None = None
        self._models: dict[MemoKey, ModelResult] | None = None
        self._bodies: BodyNumbers | None = None
        self._frames: dict[FrameId, int] | None = None
        self._inputs: set[bytes] | None = None
        self._next_seq: int | None = None
        self._next_number: int | None = None
        self._indexed_below: int | None = None
        self._moved: list[Moved] | None = None
        """What moved since somebody last asked; None while nobody does."""
        self._current_below: dict[tuple[str, bytes], dict[str, ContentId]] = {}
        self.version = 0
        """Moves with every change of a head."""
        self._stepping = threading.Lock()
        """Held for moments only, unlike the other, which is held while a batch is stored."""
        self._steps: deque[frozenset[str]] = deque(maxlen=_REMEMBERED)
        """The paths whose heads moved, one set per version, newest last."""

    @property
    def slots(self) -> dict[Slot, dict[str, Head]]:
        """Every head: by type and agent, then by path."""
        known = self._slots
        if known is None:
            with self._lock:
                known = self._slots
                if known is None:
                    known = {}
                    for (path, frame_type, agent), head in self.store.each_head():
                        known.setdefault((frame_type, agent), {})[path] = head
                    self._slots = known
        return known

    def head(self, path: str, frame_type: str, agent: str) -> Head | None:
        """One head."""
        heads = self.slots.get((frame_type, agent))
        return None if heads is None else heads.get(path)

    def heads_of(self, frame_type: str) -> Callable[[str, str], Head | None]:
        """A quick look-up of one type's heads by path and agent."""
        by_agent = {
            agent: heads for (kind, agent), heads in list(self.slots.items()) if kind == frame_type
        }
        none: dict[str, Head] = {}
        return lambda path, agent: by_agent.get(agent, none).get(path)

    def heads_at(self, path: str) -> dict[Slot, Head]:
        """The heads of one path, in order of type and agent."""
        found = {}
        for slot, heads in sorted(self.slots.items()):
            head = heads.get(path)
            if head is not None:
                found[slot] = head
        return found

    def current_below(self, rules: Rules) -> dict[str, ContentId]:
        """Folders with nothing stale below, by content id, of a type without folder frames."""
        return self._current_below.setdefault((rules.type, rules.folder_config), {})

    def memo(self, key: MemoKey) -> tuple[int, BodyHash | None]:
        """Generation and result of a key; no result means that it has to be computed."""
        known = self._memo
        if known is None:
            with self._lock:
                known = self._memo = self._memo or self.store.memo()
        return known.get(key, (0, None))

    def model(self, key: MemoKey) -> ModelResult | None:
        """The result of a key that a model wrote."""
        known = self._models
        if known is None:
            with self._lock:
                known = self._models = self._models or self.store.models()
        return known.get(key)

    @property
    def body_numbers(self) -> BodyNumbers:
        """The numbers and lengths of the bodies that are stored with their content."""
        known = self._bodies
        if known is None:
            with self._lock:
                known = self._bodies = self._bodies or self.store.known_bodies(self._same(2))
        return known

    def has_body(self, content: BodyHash) -> bool:
        """Whether a body is stored with its content."""
        return content in self.body_numbers.numbers

    def bodies(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, str]:
        """The contents of some bodies, without those that are not there."""
        known = self.body_numbers.numbers
        stored = {content: known[content] for content in wanted if content in known}
        found = self.store.bodies_numbered(stored.values())
        # The hash decides; a number is only where to look first.
        missed = [content for content in stored if content not in found]
        found.update(self.store.bodies(missed))
        return {content: found[content] for content in stored if content in found}

    def has_frame(self, frame_id: FrameId) -> bool:
        """Whether a frame is stored."""
        return frame_id in self.frame_seqs

    @property
    def frame_seqs(self) -> dict[FrameId, int]:
        """The batch that each stored frame came with."""
        known = self._frames
        if known is None:
            with self._lock:
                known = self._frames = self._frames or self.store.frame_seqs(self._same(0))
        return known

    def _same(self, field: int) -> dict[bytes, bytes]:
        """The hashes that heads hold in one of their fields, so as not to hold them twice."""
        slots = self._slots or {}
        # The field's number decides the type.
        return {head[field]: head[field] for heads in slots.values() for head in heads.values()}  # type: ignore[misc]

    def take_moved(self) -> list[Moved] | None:
        """The heads that moved since the last call, in order; None where that is not known."""
        with self._moving:
            moved, self._moved = self._moved, []
            return moved

    def _has_inputs(self, inputs: bytes) -> bool:
        if self._inputs is None:
            self._inputs = self.store.input_hashes()
        return inputs in self._inputs

    def add(self, batch: FrameBatch) -> int:
        """Store a batch, without what is stored already, and take it into the cache."""
        with self._lock:
            batch.bodies = {
                content: text
                for content, text in batch.bodies.items()
                if not self.has_body(content)
            }
            batch.frames = list(
                {f.frame_id: f for f in batch.frames if not self.has_frame(f.frame_id)}.values()
            )
            batch.inputs = {
                key: value for key, value in batch.inputs.items() if not self._has_inputs(key)
            }
            if self._next_seq is None:
                self._next_seq = self.store.next_seq()
            first = self._next_body()
            if len(batch.bodies) <= AT_ONCE and self.indexed_below == first:
                batch.indexed = index_bodies(batch.bodies, first)
            else:
                batch.indexed = number_bodies(batch.bodies, first)
            seq = self._next_seq
            self.store.record(batch, seq)
            self._next_seq += 1
            self._next_number = first + len(batch.bodies)
            if batch.indexed.lengths:
                self._indexed_below = self._next_number
            self._take_in(batch, seq)
            return seq

    def _next_body(self) -> int:
        if self._next_number is None:
            self._next_number = self.store.next_body_number()
        return self._next_number

    # -- postings

    @property
    def indexed_below(self) -> int:
        """The number below which bodies have their postings; none from there on has."""
        known = self._indexed_below
        if known is None:
            with self._lock:
                first = self._postings.first_left()
                known = self._indexed_below = self._next_body() if first is None else first
        return known

    @property
    def unindexed(self) -> int:
        """How many bodies, at most, wait for their postings."""
        following, below = self._next_number, self._indexed_below
        if following is None or below is None:
            with self._lock:
                following, below = self._next_body(), self.indexed_below
        return max(0, following - below)

    def index_some(self) -> None:
        """Make the postings of the next bodies that wait for them."""
        with self._lock:
            made = self._postings.index_next()
            if self._bodies is not None:
                for number, length in made.items():
                    self._bodies.lengths[number] = length
            # Told last: whoever sees it finds the lengths.
            self._indexed_below = max(made) + 1 if made else self._next_body()

    def _take_in(self, batch: FrameBatch, seq: int) -> None:
        """What is stored now; a cache that is not loaded will find it there."""
        if self._bodies is not None:
            numbers, lengths, _ = batch.indexed
            known = self._bodies.lengths
            known.extend([0] * max(0, max(numbers.values(), default=-1) + 1 - len(known)))
            for content, number in numbers.items():
                known[number] = lengths.get(content, 0)
            self._bodies.numbers.update(numbers)
        if self._frames is not None:
            self._frames.update((frame.frame_id, seq) for frame in batch.frames)
        if self._inputs is not None:
            self._inputs.update(batch.inputs)
        if self._slots is not None:
            moved: list[Moved] = []
            for (path, frame_type, agent), head in batch.heads.items():
                heads = self._slots.setdefault((frame_type, agent), {})
                before = heads.get(path)
                heads[path] = head
                if before is None or before.frame_id != head.frame_id:
                    old = None if before is None else before.frame_id
                    moved.append(((path, frame_type, agent), old))
            self._add_moved(moved)
        self._forget_current(batch.heads)
        if self._memo is not None:
            self._memo.update(batch.memo)
        if self._models is not None:
            self._models.update(batch.models)
        if batch.heads:
            self._step(frozenset(path for path, _, _ in batch.heads))

    def _add_moved(self, moved: list[Moved]) -> None:
        with self._moving:
            if self._moved is not None:
                self._moved += moved
                if len(self._moved) > _MOST_MOVED:
                    self._moved = None

    def _forget_current(self, heads: Mapping[HeadKey, Head]) -> None:
        for (path, frame_type, _), head in heads.items():
            if head.verified is None:
                for (kind, _), folders in self._current_below.items():
                    if kind == frame_type:
                        for above in paths.ancestors(path):
                            folders.pop(above, None)

    def unproved(
        self, moved: Iterable[HeadKey], rules: Rules, bystanders: Mapping[str, Rules]
    ) -> dict[HeadKey, Head]:
        """The heads whose proof falls when some heads of a type move.

        A file's frame is read by every folder above it and, in other types, by the same file's
        frame; a folder's frame only by what the same policy makes above it. Bystanders are the
        declared types that do not read this one. Their heads are spared, except where they were
        made under a configuration that may have read it and may come back.
        """
        files: set[str] = set()
        folders: set[str] = set()
        by_policy = {rules.folder_agent} - {rules.file_agent}
        for path, _, agent in moved:
            (folders if agent in by_policy else files).add(path)
        above_files = {above for path in files for above in paths.ancestors(path)}
        above_all = above_files.union(*(paths.ancestors(path) for path in folders))
        found: dict[HeadKey, Head] = {}
        for (kind, agent), heads in list(self.slots.items()):
            if kind == rules.type:
                touched = above_all if agent == rules.folder_agent else above_files
            else:
                touched = above_files | files
            other = bystanders.get(kind)
            spared = (other.file_config, other.folder_config) if other else ()
            for path in touched:
                head = heads.get(path)
                if head is not None and head.verified is not None and head.config not in spared:
                    found[(path, kind, agent)] = head._replace(verified=None)
        return found

    def forget(self) -> None:
        """Drop the cache, so that the next use reads the store again."""
        with self._lock:
            self._slots = self._memo = self._bodies = self._frames = self._inputs = None
            self._models = self._next_seq = self._next_number = self._indexed_below = None
            self._current_below.clear()
            self._step(None)
        with self._moving:
            self._moved = None

    def _step(self, moved: frozenset[str] | None) -> None:
        """The next version, and which paths it moved; None when that is not known."""
        with self._stepping:
            if moved is None:
                self._steps.clear()
            else:
                self._steps.append(moved)
            self.version += 1

    def moved_since(self, version: int) -> set[str] | None:
        """The paths whose heads moved after a version; None when that is too long ago."""
        with self._stepping:
            steps = self.version - version
            if steps > len(self._steps):
                return None
            return {
                path for moved in list(self._steps)[len(self._steps) - steps :] for path in moved
            }
