"""Look-ups that the store answers one by one, for a process that needs little of what there is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from indexer.core.frames import BodyHash, Head, MemoKey
from indexer.store.frames import FrameBatch, FrameStore

Slot = tuple[str, str]
"""type, agent"""

FEW: Final = 32
"""Look-ups that the store answers one by one; who asks for more has everything loaded."""


class FewLookUps:
    """Answers of the store that are kept while not everything is loaded."""

    def __init__(self, store: FrameStore) -> None:
        self._store = store
        self._heads: dict[str, dict[Slot, Head]] = {}
        self._bodies: dict[BodyHash, bool] = {}
        self._memo: dict[MemoKey, tuple[int, BodyHash | None]] = {}
        self._left = FEW

    def may_ask(self) -> bool:
        """Count one look-up; whether the store may answer it, or better everything is loaded."""
        self._left -= 1
        return self._left >= 0

    def has_heads_of(self, path: str) -> bool:
        """Whether the heads that generators keep at a path were read."""
        return path in self._heads

    def heads_at(self, path: str) -> dict[Slot, Head]:
        """The heads of one path that generators keep."""
        if path not in self._heads:
            self.load_heads([path])
        return self._heads[path]

    def load_heads(self, places: Iterable[str]) -> None:
        """Read at once the heads that generators keep at some paths."""
        unknown = [path for path in dict.fromkeys(places) if path not in self._heads]
        if unknown:
            known: dict[str, dict[Slot, Head]] = {path: {} for path in unknown}
            for (path, frame_type, agent), head in self._store.heads_at(unknown).items():
                known[path][(frame_type, agent)] = head
            self._heads.update(known)

    def has_body(self, content: BodyHash) -> bool | None:
        """Whether a body is stored with its content; None where better everything is loaded."""
        if content not in self._bodies and self.may_ask():
            self._bodies[content] = self._store.has_body(content)
        return self._bodies.get(content)

    def memo(self, key: MemoKey) -> tuple[int, BodyHash | None] | None:
        """Generation and result of a key; None where better everything is loaded."""
        if key not in self._memo and self.may_ask():
            self._memo[key] = self._store.memo_of(key)
        return self._memo.get(key)

    def take_in(self, batch: FrameBatch) -> None:
        """Follow what a batch has stored."""
        self._memo.update((key, batch.memo[key]) for key in batch.memo.keys() & self._memo.keys())
        self._bodies.update(dict.fromkeys(batch.bodies, True))
        for (path, frame_type, agent), head in batch.heads.items():
            if path in self._heads:
                self._heads[path] = {**self._heads[path], (frame_type, agent): head}

    def clear(self) -> None:
        """Forget it all."""
        self._heads.clear()
        self._bodies.clear()
        self._memo.clear()
        self._left = FEW
