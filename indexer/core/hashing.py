"""How content ids and NodeIDs are made: domain-tagged, length-prefixed, byte-exact."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import xxhash

from indexer.core.ids import ContentId, NodeId
from indexer.core.kinds import Kind
from indexer.errors import UsageError

DEFAULT_HASH: Final = "xxh3_128"
_NAME_LENGTHS: Final = tuple(length.to_bytes(8, "big") for length in range(4097))


class RunningDigest(Protocol):
    """A hash that is fed piece by piece."""

    def update(self, data: bytes, /) -> object:
        """Take one more piece."""
        ...

    def digest(self) -> bytes:
        """The hash of everything taken so far."""
        ...


def prefixed(field: bytes) -> bytes:
    """A variable field behind its length as u64 big-endian."""
    return _length(field) + field


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkspaceHash:
    """The hash a workspace was initialised with, and the ids made from it."""

    name: str
    size: int
    one_shot: Callable[[bytes], bytes]
    running: Callable[[], RunningDigest]
    tree_tag: bytes
    # By the kind's number: looking an enum up in a dictionary calls its Python-level hash.
    child_middles: tuple[bytes, ...]
    node_starts: tuple[bytes, ...]

    def of_file(self, content: bytes) -> ContentId:
        """Content id of a file: the bare hash of its bytes."""
        return ContentId(self.one_shot(content))

    def of_link(self, target: bytes) -> ContentId:
        """Content id of a symbolic link: where it points, never what is there."""
        return ContentId(self.one_shot(prefixed(b"link") + prefixed(target)))

    def encode_child(self, name: bytes, kind: Kind, content_id: ContentId) -> bytes:
        """One child as it enters its folder's hash."""
        return b"".join((_length(name), name, self.child_middles[kind], content_id))

    def encode_children(self, children: Iterable[tuple[bytes, Kind, ContentId]]) -> list[bytes]:
        """Many children as they enter their folder's hash."""
        middles, length = self.child_middles, _length
        return [
            b"".join((length(name), name, middles[kind], content_id))
            for name, kind, content_id in children
        ]

    def of_folder(self, encoded: Iterable[bytes], count: int) -> ContentId:
        """Content id of a folder from its encoded children in byte order of name."""
        head = self.tree_tag + count.to_bytes(8, "big")
        return ContentId(self.one_shot(head + b"".join(encoded)))

    def node_id(self, kind: Kind, path: bytes, content_id: ContentId) -> NodeId:
        """NodeID: the content id bound to its place."""
        return NodeId(
            self.one_shot(
                b"".join((self.node_starts[kind], _length(path), path, self._id_length, content_id))
            )
        )

    def node_ids(self, nodes: Iterable[tuple[int, bytes, bytes]]) -> list[bytes]:
        """The NodeIDs of many nodes by kind, path and content id."""
        one_shot, starts, length, of_id = self.one_shot, self.node_starts, _length, self._id_length
        return [
            one_shot(b"".join((starts[kind], length(path), path, of_id, content_id)))
            for kind, path, content_id in nodes
        ]

    @property
    def _id_length(self) -> bytes:
        return _NAME_LENGTHS[self.size]


def _length(field: bytes) -> bytes:
    size = len(field)
    return _NAME_LENGTHS[size] if size <= 4096 else size.to_bytes(8, "big")


def _sha256_digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _make(
    name: str, size: int, one_shot: Callable[[bytes], bytes], running: Callable[[], RunningDigest]
) -> WorkspaceHash:
    kinds = (b"", *(prefixed(kind.label.encode()) for kind in Kind))
    return WorkspaceHash(
        name=name,
        size=size,
        one_shot=one_shot,
        running=running,
        tree_tag=prefixed(f"tree:{name}".encode()),
        child_middles=tuple(text + size.to_bytes(8, "big") for text in kinds),
        node_starts=tuple(prefixed(b"node") + text for text in kinds),
    )


HASHES: Final = {
    "xxh3_128": _make("xxh3_128", 16, xxhash.xxh3_128_digest, xxhash.xxh3_128),
    "sha256": _make("sha256", 32, _sha256_digest, hashlib.sha256),
}


def workspace_hash(name: str) -> WorkspaceHash:
    """The hash of that name, or a usage error that lists the known ones."""
    try:
        return HASHES[name]
    except KeyError:
        known = ", ".join(HASHES)
        raise UsageError(f"unknown hash {name!r}", hint=f"use one of: {known}") from None
