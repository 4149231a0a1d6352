"""Frames, heads and memo of an open workspace, kept in memory once they are needed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from indexer.core import paths
from indexer.core.frames import BodyHash, FrameId, Head, HeadKey, MemoKey
from indexer.core.ids import ContentId
from indexer.regenerate.plan import Rules
from indexer.store.frames import FrameBatch, FrameStore, ModelResult

Slot = tuple[str, str]
"""type, agent"""

_NEAR: Final = 1000
"""Rows between two bodies that are still read in one go."""
_MOST_READS: Final = 4
"""More separate reads than that cost more than one over everything between them."""


def neighbourhoods(places: Sequence[int]) -> list[list[int]]:
    """Sorted rows in groups that lie together, or all in one when there would be many."""
    groups: list[list[int]] = []
    for place in places:
        if groups and place - groups[-1][-1] <= _NEAR:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups if len(groups) <= _MOST_READS else [list(places)]


class Shelf:
    """A write-through cache over the frame store; only the owner's writing thread changes it.

    Other threads may read at any time. The lock makes sure that what one of them loads is not
    older than what is stored meanwhile.
    """

    def __init__(self, store: FrameStore) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._slots: dict[Slot, dict[str, Head]] | None = None
        self._memo: dict[MemoKey, tuple[int, BodyHash | None]] | None = None
        self._models: dict[MemoKey, ModelResult] | None = None
        self._bodies: dict[BodyHash, int] | None = None
        self._next_body = 0
        self._frames: set[FrameId] | None = None
        self._inputs: set[bytes] | None = None
        self._next_seq: int | None = None
        self._settled: dict[tuple[str, bytes], dict[str, ContentId]] = {}
        self.version = 0
        """Moves with every change of a head."""

    @property
    def slots(self) -> dict[Slot, dict[str, Head]]:
        """Every head: by type and agent, then by path."""
        known = self._slots
        if known is None:
            with self._lock:
                known = self._slots
                if known is None:
                    known = {}
                    for (path, frame_type, agent), head in self.store.heads().items():
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

    def settled(self, rules: Rules) -> dict[str, ContentId]:
        """Where nothing was stale, of a type that keeps no frames of folders."""
        return self._settled.setdefault((rules.type, rules.folder_config), {})

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

    def has_body(self, content: BodyHash) -> bool:
        """Whether a body is stored with its content."""
        return content in self._body_places()

    def bodies(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, str]:
        """The contents of some bodies, without those that are not there.

        What was made together is stored together, so a folder's few are near each other.
        """
        known = self._body_places()
        stored = {content: known[content] for content in wanted if content in known}
        found: dict[BodyHash, str] = {}
        for group in neighbourhoods(sorted(set(stored.values()))):
            found.update(self.store.bodies_at(group))
        # The hash decides; a place is only where to look first.
        missed = [content for content in stored if content not in found]
        found.update(self.store.bodies(missed))
        return {content: found[content] for content in stored if content in found}

    def _body_places(self) -> dict[BodyHash, int]:
        known = self._bodies
        if known is None:
            with self._lock:
                known = self._bodies
                if known is None:
                    self._next_body = self.store.next_body_place()
                    known = self._bodies = self.store.body_places()
        return known

    def has_frame(self, frame_id: FrameId) -> bool:
        """Whether a frame is stored."""
        known = self._frames
        if known is None:
            with self._lock:
                known = self._frames = self._frames or self.store.frame_ids()
        return frame_id in known

    def _has_inputs(self, inputs: bytes) -> bool:
        if self._inputs is None:
            self._inputs = self.store.input_hashes()
        return inputs in self._inputs

    def keep(self, batch: FrameBatch) -> int:
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
            seq = self._next_seq
            self.store.record(batch, seq)
            self._next_seq += 1
            self._take_in(batch)
            return seq

    def _take_in(self, batch: FrameBatch) -> None:
        """What is stored now; a cache that is not loaded will find it there."""
        if self._bodies is not None:
            self._bodies.update(zip(batch.bodies, itertools.count(self._next_body)))
            self._next_body += len(batch.bodies)
        if self._frames is not None:
            self._frames.update(frame.frame_id for frame in batch.frames)
        if self._inputs is not None:
            self._inputs.update(batch.inputs)
        if self._slots is not None:
            for (path, frame_type, agent), head in batch.heads.items():
                self._slots.setdefault((frame_type, agent), {})[path] = head
        self._unsettle(batch.heads)
        if self._memo is not None:
            self._memo.update(batch.memo)
        if self._models is not None:
            self._models.update(batch.models)
        if batch.heads:
            self.version += 1

    def _unsettle(self, heads: Mapping[HeadKey, Head]) -> None:
        for (path, frame_type, _), head in heads.items():
            if head.verified is None:
                for (kind, _), folders in self._settled.items():
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
            self._models = self._next_seq = None
            self._settled.clear()
            self.version += 1
