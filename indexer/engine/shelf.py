"""Frames, heads and memo of an open workspace, kept in memory once they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from indexer.core import paths
from indexer.core.frames import BodyHash, FrameId, Head, HeadKey, MemoKey
from indexer.store.frames import FrameBatch, FrameStore

Slot = tuple[str, str]
"""type, agent"""


class Shelf:
    """A write-through cache over the frame store; only the owner's writing thread changes it."""

    def __init__(self, store: FrameStore) -> None:
        self.store = store
        self._slots: dict[Slot, dict[str, Head]] | None = None
        self._memo: dict[MemoKey, tuple[int, BodyHash | None]] | None = None
        self._bodies: set[BodyHash] | None = None
        self._frames: set[FrameId] | None = None
        self._next_seq: int | None = None
        self.version = 0
        """Moves with every change of a head."""

    @property
    def slots(self) -> dict[Slot, dict[str, Head]]:
        """Every head: by type and agent, then by path."""
        if self._slots is None:
            self._slots = {}
            for (path, frame_type, agent), head in self.store.heads().items():
                self._slots.setdefault((frame_type, agent), {})[path] = head
        return self._slots

    def head(self, path: str, frame_type: str, agent: str) -> Head | None:
        """One head."""
        return self.slots.get((frame_type, agent), {}).get(path)

    def heads_of(self, frame_type: str) -> Callable[[str, str], Head | None]:
        """A quick look-up of one type's heads by path and agent."""
        by_agent = {
            agent: heads for (kind, agent), heads in self.slots.items() if kind == frame_type
        }
        none: dict[str, Head] = {}
        return lambda path, agent: by_agent.get(agent, none).get(path)

    def heads_at(self, path: str) -> dict[Slot, Head]:
        """The heads of one path, in order of type and agent."""
        slots = sorted(self.slots.items())
        return {slot: heads[path] for slot, heads in slots if path in heads}

    def memo(self, key: MemoKey) -> tuple[int, BodyHash | None]:
        """Generation and result of a key; no result means that it has to be computed."""
        if self._memo is None:
            self._memo = self.store.memo()
        return self._memo.get(key, (0, None))

    def has_body(self, content: BodyHash) -> bool:
        """Whether a body is stored with its content."""
        if self._bodies is None:
            self._bodies = self.store.known_bodies()
        return content in self._bodies

    def has_frame(self, frame_id: FrameId) -> bool:
        """Whether a frame is stored."""
        if self._frames is None:
            self._frames = {stored.frame.frame_id for stored in self.store.all_frames()}
        return frame_id in self._frames

    def keep(self, batch: FrameBatch) -> int:
        """Store a batch, without what is stored already, and take it into the cache."""
        batch.bodies = {
            content: text for content, text in batch.bodies.items() if not self.has_body(content)
        }
        batch.frames = list(
            {f.frame_id: f for f in batch.frames if not self.has_frame(f.frame_id)}.values()
        )
        if batch.inputs:
            known = self.store.known_inputs(list(batch.inputs))
            batch.inputs = {key: v for key, v in batch.inputs.items() if key not in known}
        if self._next_seq is None:
            self._next_seq = self.store.next_seq()
        seq = self._next_seq
        self.store.record(batch, seq)
        self._next_seq += 1
        self._take_in(batch)
        return seq

    def _take_in(self, batch: FrameBatch) -> None:
        assert self._bodies is not None or not batch.bodies
        if self._bodies is not None:
            self._bodies.update(batch.bodies)
        if self._frames is not None:
            self._frames.update(frame.frame_id for frame in batch.frames)
        if self._slots is not None:
            for (path, frame_type, agent), head in batch.heads.items():
                self._slots.setdefault((frame_type, agent), {})[path] = head
        if self._memo is not None:
            self._memo.update(batch.memo)
        if batch.heads:
            self.version += 1

    def unverified_above(self, path: str, types: Iterable[str]) -> dict[HeadKey, Head]:
        """The heads of these types on the way to the root, with their proof taken back."""
        wanted = set(types)
        return {
            (above, frame_type, agent): heads[above]._replace(verified=None)
            for (frame_type, agent), heads in self.slots.items()
            if frame_type in wanted
            for above in paths.ancestors(path)
            if above in heads and heads[above].verified is not None
        }

    def forget(self) -> None:
        """Drop the cache, so that the next use reads the store again."""
        self._slots = self._memo = self._bodies = self._frames = self._next_seq = None
        self.version += 1
