"""What a frame is made from: its parts, and from them its basis and the key of its result.

The one place where either is computed, for making a frame, planning it, explaining it, checking it
and sharing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.core import paths
from indexer.core.frames import (
    BasisHash,
    BodyHash,
    ChildBody,
    ChildFrame,
    FrameId,
    Head,
    HeadKey,
    MemoKey,
    basis_of_generated,
    basis_of_synthesis,
    key_of_file,
    key_of_folder,
)
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.tree import Entry
from indexer.engine.frames.inputs import children_document
from indexer.engine.frames.types import FrameType
from indexer.regenerate.plan import EVERY_TYPE

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

HeadAt = Callable[[str, str, str], Head | None]
"""The head of (path, type, agent)."""

IsFresh = Callable[[str, str, str, Head], bool]
"""Whether the head of (path, type, agent) is fresh."""


class Part(NamedTuple):
    """One frame of a child that a folder's frame is made from, or its marked absence."""

    path: str
    name: bytes
    entry: Entry
    head: Head | None
    own: bool
    """Whether the type itself keeps it, so that the folder's frame waits for it to be current."""

    def frame(self, algorithm: WorkspaceHash) -> ChildFrame:
        """The part as the folder's basis names it."""
        kind, raw = self.entry.kind, paths.text_to_bytes(self.path)
        node_id = algorithm.node_id(kind, raw, self.entry.content_id)
        return ChildFrame(node_id, self.name, kind.label, self.head.frame_id if self.head else None)

    @property
    def body(self) -> ChildBody:
        """The part as the key of the folder's result names it."""
        return ChildBody(self.name, self.entry.kind.label, self.head.content if self.head else None)


def parts_of(
    frames: Frames,
    declared: FrameType,
    path: str,
    entry: Entry,
    is_fresh: IsFresh,
    head_at: HeadAt | None = None,
) -> Iterator[Part]:
    """What a folder's frame is made from: each child's frames, in byte order of their names."""
    assert entry.folder is not None
    rules, head_at = declared.rules, head_at or frames.heads.head
    for name, child in entry.folder.entries.items():
        where, raw = paths.join(path, name), paths.text_to_bytes(name)
        wanted = rules.wants(child)
        head = head_at(where, rules.type, rules.agent_for(child)) if wanted else None
        gathered = _gathered(frames, declared, where, child, is_fresh) if rules.gathers else []
        if head is not None or not gathered:
            yield Part(where, raw, child, head, wanted)
        for other in gathered:
            yield Part(where, raw, child, other, own=False)


def _gathered(
    frames: Frames, declared: FrameType, path: str, entry: Entry, is_fresh: IsFresh
) -> list[Head]:
    """The fresh frames at a child that a type takes in without keeping them."""
    rules = declared.rules
    own = (rules.type, rules.agent_for(entry))
    return [
        head
        for slot, head in frames.heads.live_at(path)
        if slot != own and rules.gathers in (slot[0], EVERY_TYPE) and is_fresh(path, *slot, head)
    ]


class FolderRecipe(NamedTuple):
    """Everything that decides what a folder's frame will be."""

    key: MemoKey
    basis: BasisHash
    bodies: tuple[ChildBody, ...]
    """Its children as a policy is shown them."""
    current: bool
    """Whether those of them that the type keeps are current themselves."""
    inputs: dict[str, Any]
    """The list of inputs that is stored with it."""


def folder_recipe(
    frames: Frames,
    declared: FrameType,
    path: str,
    entry: Entry,
    is_fresh: IsFresh,
    new: Mapping[HeadKey, Head],
    *,
    waits: bool,
) -> FolderRecipe | None:
    """What a folder's frame is made from, `new` being heads that are about to be stored.

    None where it `waits` for a child's frame that is not current.
    """
    assert declared.folder is not None
    rules, stored = declared.rules, frames.heads.head

    def head_at(path: str, frame_type: str, agent: str) -> Head | None:
        return new.get((path, frame_type, agent)) or stored(path, frame_type, agent)

    parts = list(parts_of(frames, declared, path, entry, is_fresh, head_at))
    current = all(rules.is_current(one.head, one.entry) for one in parts if one.own)
    if waits and not current:
        return None
    bodies = tuple(part.body for part in parts)
    children = [part.frame(frames.algorithm) for part in parts]
    inputs = children_document(declared.folder.print, children)
    basis = folder_basis(declared, path, children)
    return FolderRecipe(folder_key(declared, bodies), basis, bodies, current, inputs)


# -- the key of a result: what a generator or policy sees


def file_key(declared: FrameType, path: str, source: ContentId | BodyHash) -> MemoKey:
    """The key of a file's result, from its content or from the frame that is read in its place."""
    assert declared.file is not None
    name = paths.text_to_bytes(paths.split(path)[1])
    return key_of_file(declared.file.print, declared.name, name, source)


def folder_key(declared: FrameType, bodies: Sequence[ChildBody]) -> MemoKey:
    """The key of a folder's result."""
    assert declared.folder is not None
    return key_of_folder(declared.folder.print, declared.name, bodies)


def memo_key(
    frames: Frames, declared: FrameType, path: str, entry: Entry, is_fresh: IsFresh
) -> MemoKey | None:
    """The key under which a node's present frame was or would be computed."""
    if entry.folder is not None:
        if declared.folder is None:
            return None
        parts = parts_of(frames, declared, path, entry, is_fresh)
        return folder_key(declared, [part.body for part in parts])
    if declared.file is None:
        return None
    if declared.input is None:
        return file_key(declared, path, entry.content_id)
    below = input_head(frames, declared, path, entry)
    return None if below is None else file_key(declared, path, below.content)


# -- the basis: exactly what a frame was made from, its place included


def file_basis(
    algorithm: WorkspaceHash,
    declared: FrameType,
    path: str,
    entry: Entry,
    source: FrameId | None,
) -> BasisHash:
    """The basis of a file's frame."""
    assert declared.file is not None
    node_id = algorithm.node_id(entry.kind, paths.text_to_bytes(path), entry.content_id)
    return basis_of_generated(node_id, declared.file.print, source)


def folder_basis(declared: FrameType, path: str, children: Sequence[ChildFrame]) -> BasisHash:
    """The basis of a folder's frame."""
    assert declared.folder is not None
    raw = paths.text_to_bytes(path)
    return basis_of_synthesis(raw, declared.name, declared.folder.print, children)


def expected_basis(
    frames: Frames, declared: FrameType, path: str, entry: Entry, is_fresh: IsFresh
) -> BasisHash | None:
    """The basis that a declared frame has if it is made now from the heads there are."""
    if entry.folder is not None:
        if declared.folder is None:
            return None
        parts = parts_of(frames, declared, path, entry, is_fresh)
        return folder_basis(declared, path, [part.frame(frames.algorithm) for part in parts])
    if declared.file is None:
        return None
    below = input_head(frames, declared, path, entry) if declared.input is not None else None
    source = below.frame_id if below else None
    return file_basis(frames.algorithm, declared, path, entry, source)


def input_head(frames: Frames, declared: FrameType, path: str, entry: Entry) -> Head | None:
    """The head of the type that is read in place of a file, fresh or not."""
    # Another thread may have read a configuration without it.
    read = frames.types.get(declared.input or "")
    return None if read is None else frames.heads.head(path, read.name, read.rules.agent_for(entry))
