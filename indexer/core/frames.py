"""Frames and what they are bound to: FrameIDs, basis hashes, memo keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, NewType

from indexer.core.hashing import prefixed
from indexer.core.ids import ContentId, NodeId

FrameId = NewType("FrameId", bytes)
"""What was said, by whom, about exactly what."""

BasisHash = NewType("BasisHash", bytes)
"""Exactly what a frame was made from."""

BodyHash = NewType("BodyHash", bytes)
"""SHA-256 of a frame's content."""

Fingerprint = NewType("Fingerprint", bytes)
"""Everything besides its input that can change a generator's output."""

MemoKey = NewType("MemoKey", bytes)
"""Everything a generator sees, wherever it stands."""

FRAME_ATTRIBUTE: Final = "merkle:frame_id"
"""The attribute by which a block of a session names the frame whose content it holds."""
GENERATED_AGENT_PREFIX: Final = "merkle:"
REPEATING_AGENTS: Final = frozenset(
    GENERATED_AGENT_PREFIX + name for name in ("outline", "summarize", "concatenate", "filter")
)
"""Makers whose texts have no words of their own: only a file's, or those of frames below."""
OUTLINER: Final = GENERATED_AGENT_PREFIX + "outline"
"""The agent whose frames are outlines."""
ON_CONTENT: Final = "content"
ON_LISTING: Final = "listing"
ON_SYMBOL: Final = "::"
"""What a note says that is bound to a symbol, before the symbol's name; no type begins so."""

_ABSENT: Final = prefixed(b"absent")


class Freshness(StrEnum):
    """What can be said of a frame now."""

    FRESH = "fresh"
    STALE = "stale"
    ORPHANED = "orphaned"
    UNMANAGED = "unmanaged"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """How a head came to point where it points."""

    GENERATED = "generated"
    REUSED = "reused"
    CARRIED = "carried"
    WRITTEN = "written"


def is_generated(agent: str) -> bool:
    """Whether a generator or policy keeps the frames of an agent."""
    return agent.startswith(GENERATED_AGENT_PREFIX)


class ChildFrame(NamedTuple):
    """One child of a folder as a synthesis basis sees it."""

    node_id: NodeId
    name: bytes
    kind: str
    frame_id: FrameId | None


class ChildBody(NamedTuple):
    """One child of a folder as a policy sees it, named by its content's hash."""

    name: bytes
    kind: str
    body: BodyHash | None


class Frame(NamedTuple):
    """An immutable piece of context about one node."""

    frame_id: FrameId
    path: str
    type: str
    agent: str
    basis: BasisHash
    content: BodyHash
    node_id: NodeId
    """The node as it was when this was made."""
    inputs: bytes | None = None
    """Hash of the list of inputs, where there is more to know than node and fingerprint."""
    meta: str = "{}"
    created_ns: int = 0


class Head(NamedTuple):
    """What a (path, type, agent) points to now."""

    frame_id: FrameId
    basis: BasisHash
    content: BodyHash
    verified: ContentId | None
    """The content id of the node at which the head was last shown to be fresh."""
    config: bytes | None
    """Hash of the type's whole configuration at that time."""
    action: Action


HeadKey = tuple[str, str, str]
"""path, type, agent"""


def body_hash(content: str) -> BodyHash:
    """SHA-256 of a frame's content as UTF-8."""
    return BodyHash(hashlib.sha256(content.encode()).digest())


def _digest(tag: bytes, fields: Iterable[bytes]) -> bytes:
    return hashlib.sha256(prefixed(tag) + b"".join(map(prefixed, fields))).digest()


def frame_id(basis: BasisHash, frame_type: str, agent: str, content: BodyHash) -> FrameId:
    """FrameID: time and metadata take no part."""
    return FrameId(_digest(b"frame", (basis, frame_type.encode(), agent.encode(), content)))


def fingerprint(parts: Sequence[tuple[str, str]]) -> Fingerprint:
    """The hash of sorted (key, value) parts."""
    begin = prefixed(b"fingerprint") + len(parts).to_bytes(8, "big")
    fields = b"".join(prefixed(key.encode()) + prefixed(value.encode()) for key, value in parts)
    return Fingerprint(hashlib.sha256(begin + fields).digest())


# -- basis


def basis_of_content(node_id: NodeId) -> BasisHash:
    """A note bound to a node's content."""
    return BasisHash(_digest(b"basis:content", (node_id,)))


def basis_of_listing(path: bytes, children: Sequence[tuple[bytes, str]]) -> BasisHash:
    """A note bound to which entries a folder has."""
    begin = prefixed(b"basis:listing") + prefixed(path) + len(children).to_bytes(8, "big")
    fields = b"".join(prefixed(name) + prefixed(kind.encode()) for name, kind in children)
    return BasisHash(hashlib.sha256(begin + fields).digest())


def basis_of_frame(path: bytes, frame_type: str, content: BodyHash) -> BasisHash:
    """A note bound to what another frame of its node says."""
    return BasisHash(_digest(b"basis:frame", (path, frame_type.encode(), content)))


def basis_of_symbol(path: bytes, symbol: str, text: bytes) -> BasisHash:
    """A note bound to a symbol of a file: its qualified name, and the SHA-256 of its text."""
    return BasisHash(_digest(b"basis:symbol", (path, symbol.encode(), text)))


def basis_of_generated(
    node_id: NodeId, made_by: Fingerprint, input_frame: FrameId | None
) -> BasisHash:
    """A file's frame by a generator."""
    source = b"" if input_frame is None else input_frame
    return BasisHash(_digest(b"basis:generated", (node_id, made_by, source)))


def basis_of_synthesis(
    path: bytes, frame_type: str, policy: Fingerprint, children: Sequence[ChildFrame]
) -> BasisHash:
    """A folder's frame: its children's frames, or their marked absence, ordered by id."""
    ordered = sorted(children, key=lambda child: (child.node_id, child.frame_id or b""))
    begin = (
        prefixed(b"basis:synthesis")
        + prefixed(path)
        + prefixed(frame_type.encode())
        + prefixed(policy)
        + len(ordered).to_bytes(8, "big")
    )
    fields = b"".join(
        prefixed(child.name)
        + prefixed(child.kind.encode())
        + (_ABSENT if child.frame_id is None else prefixed(b"frame") + child.frame_id)
        for child in ordered
    )
    return BasisHash(hashlib.sha256(begin + fields).digest())


# -- memo keys: what a generator sees, and no place


def key_of_file(
    made_by: Fingerprint, frame_type: str, name: bytes, source: ContentId | BodyHash
) -> MemoKey:
    """A file generator sees a name and a content (or the body of its input frame)."""
    return MemoKey(_digest(b"memo:file", (made_by, frame_type.encode(), name, source)))


def key_of_note(identity: FrameId) -> MemoKey:
    """The key that a team's store keeps a note under; no generator's result has such a key."""
    return MemoKey(_digest(b"memo:note", (identity,)))


def key_of_folder(policy: Fingerprint, frame_type: str, children: Sequence[ChildBody]) -> MemoKey:
    """A policy sees its children's names, kinds and bodies in byte order of name."""
    begin = (
        prefixed(b"memo:folder")
        + prefixed(policy)
        + prefixed(frame_type.encode())
        + len(children).to_bytes(8, "big")
    )
    fields = b"".join(
        prefixed(name) + prefixed(kind.encode()) + (_ABSENT if body is None else prefixed(body))
        for name, kind, body in children
    )
    return MemoKey(hashlib.sha256(begin + fields).digest())
