"""Heads by path, each as one string of bytes: its hashes as objects take three times as much."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from indexer.core.frames import Action, FrameId, Head
from indexer.core.ids import ContentId

_HASH: Final = 32
_FIXED: Final = Struct(f"<{_HASH}s{_HASH}s{_HASH}sIB")
"""FrameID, basis, content, which configuration, which action; the proof follows."""
_ACTIONS: Final = tuple(Action)
_ACTION_NUMBERS: Final = {action: number for number, action in enumerate(Action)}


class PackedHeads:
    """The heads of one type and agent; one thread changes them, and others may read meanwhile."""

    __slots__ = ("_configs", "_heads")

    def __init__(self) -> None:
        self._heads: dict[str, bytes | Head] = {}
        """A head whose hashes are no hashes is kept as it is."""
        self._configs: list[bytes | None] = []
        """Most heads have the same one; it is there before any head that has it."""

    def __len__(self) -> int:
        return len(self._heads)

    def __contains__(self, path: str) -> bool:
        return path in self._heads

    def get(self, path: str) -> Head | None:
        """One head."""
        found = self._heads.get(path)
        return None if found is None else self._unpacked(found)

    def put(self, path: str, head: Head) -> None:
        """Take in a head, in the place of an older one."""
        frame_id, basis, content, verified, config, action = head
        if not len(frame_id) == len(basis) == len(content) == _HASH:
            self._heads[path] = head
            return
        if config not in self._configs:
            self._configs.append(config)
        which = self._configs.index(config)
        fixed = _FIXED.pack(frame_id, basis, content, which, _ACTION_NUMBERS[action])
        self._heads[path] = fixed + (verified or b"")

    def frame_id(self, path: str) -> FrameId:
        """The FrameID of a head that is there."""
        found = self._heads[path]
        return found.frame_id if isinstance(found, Head) else FrameId(found[:_HASH])

    def copy(self) -> PackedHeads:
        """A copy that changes by itself; heads that neither has changed are held once."""
        other = PackedHeads()
        other._heads, other._configs = self._heads.copy(), self._configs.copy()
        return other

    def discard(self, path: str) -> None:
        """Forget the head of a path, if there is one."""
        self._heads.pop(path, None)

    def places(self) -> set[str]:
        """The paths that have a head."""
        # Copied in one go: the writing thread may add one meanwhile.
        return set(self._heads.copy())

    def items(self) -> Iterator[tuple[str, Head]]:
        """Every head there is now, with its path."""
        # Copied in one go, too.
        for path, packed in self._heads.copy().items():
            yield path, self._unpacked(packed)

    def _unpacked(self, packed: bytes | Head) -> Head:
        if isinstance(packed, Head):
            return packed
        frame_id, basis, content, config, action = _FIXED.unpack_from(packed)
        verified = ContentId(packed[_FIXED.size :]) or None
        return Head(frame_id, basis, content, verified, self._configs[config], _ACTIONS[action])
