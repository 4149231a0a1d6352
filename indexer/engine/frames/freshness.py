"""The one predicate: is a head's basis what it would be now? And if not, because of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.core import paths
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    ON_CONTENT,
    ON_LISTING,
    BasisHash,
    BodyHash,
    ChildBody,
    ChildFrame,
    Freshness,
    Head,
    basis_of_content,
    basis_of_frame,
    basis_of_generated,
    basis_of_listing,
    basis_of_synthesis,
)
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.engine.frames.types import FrameType
from indexer.regenerate.plan import EVERY_TYPE

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

ON = "/on"
CONTENT_ID = "/content_id"
KIND = "/kind"
SHA256 = "/sha256"


class Judged(NamedTuple):
    """A frame's freshness, and what made it so where it is not fresh."""

    freshness: Freshness
    because: str = ""


FRESH = Judged(Freshness.FRESH)


def judge(engine: Engine, tree: Tree, path: str, frame_type: str, agent: str, head: Head) -> Judged:
    """Whether a head is fresh in a tree that is known to be what is on disk."""
    entry = tree.get(path)
    if agent.startswith(GENERATED_AGENT_PREFIX):
        return _judge_generated(engine, tree, path, entry, frame_type, agent, head)
    if entry is None:
        return Judged(Freshness.ORPHANED, "the path is gone or ignored now")
    return _judge_note(engine, tree, path, entry, head)


def _judge_generated(
    engine: Engine,
    tree: Tree,
    path: str,
    entry: Entry | None,
    frame_type: str,
    agent: str,
    head: Head,
) -> Judged:
    declared = engine.types.get(frame_type)
    if declared is None:
        return Judged(Freshness.UNMANAGED, f"type {frame_type} is not declared")
    if not declared.rules.covers(path):
        return Judged(Freshness.UNMANAGED, f"outside the scope of type {frame_type}")
    if entry is None:
        return Judged(Freshness.ORPHANED, "the path is gone or ignored now")
    if not declared.rules.wants(entry) or agent != declared.rules.agent_for(entry):
        return Judged(Freshness.UNMANAGED, f"type {frame_type} keeps no frame by {agent} here")
    if declared.rules.is_current(head, entry):
        return FRESH
    return Judged(Freshness.STALE, _culprit(engine, tree, declared, path, entry, head))


def stale_child(
    engine: Engine, declared: FrameType, path: str, entry: Entry
) -> tuple[str, Entry, Head | None] | None:
    """The first child of a folder whose frame is missing or not current."""
    return next(stale_children(engine, declared, path, entry), None)


def stale_children(
    engine: Engine, declared: FrameType, path: str, entry: Entry
) -> Iterator[tuple[str, Entry, Head | None]]:
    """The children of a folder whose frames are missing or not current."""
    assert entry.folder is not None
    rules = declared.rules
    for name, child in entry.folder.entries.items():
        if rules.wants(child):
            where = paths.join(path, name)
            head = engine.shelf.head(where, declared.name, rules.agent_for(child))
            if not rules.is_current(head, child):
                yield where, child, head


def _culprit(
    engine: Engine, tree: Tree, declared: FrameType, path: str, entry: Entry, head: Head
) -> str:
    """The very thing that moved, by going down where ids differ."""
    start = path
    while True:
        if head.config != declared.rules.config_for(entry):
            return f"the configuration of type {declared.name} changed"
        if entry.folder is None:
            break
        below = stale_child(engine, declared, path, entry)
        if below is None:
            break
        path, entry, found = below
        if found is None:
            return f"{path} has no frame yet"
        head = found
    if expected_basis(engine, tree, declared, path, entry) == head.basis:
        return "it was invalidated" if path == start else f"{path} was invalidated"
    if entry.folder is not None:
        what = "entries or their frames" if declared.rules.gathers else "entries"
        return f"its {what} changed" if path == start else f"the {what} of {path} changed"
    return "its content changed" if path == start else f"{path} changed"


class Part(NamedTuple):
    """One frame of a child that a folder's frame is made from, or its marked absence."""

    path: str
    name: bytes
    entry: Entry
    head: Head | None
    own: bool
    """Whether the type itself keeps it, so that the folder's frame waits for it to be current."""

    def frame(self, algorithm: WorkspaceHash) -> ChildFrame:
        """As the folder's basis names it."""
        kind, raw = self.entry.kind, paths.text_to_bytes(self.path)
        node_id = algorithm.node_id(kind, raw, self.entry.content_id)
        return ChildFrame(node_id, self.name, kind.label, self.head.frame_id if self.head else None)

    @property
    def body(self) -> ChildBody:
        """As the folder's memo key names it."""
        return ChildBody(self.name, self.entry.kind.label, self.head.content if self.head else None)


HeadAt = Callable[[str, str, str], Head | None]
"""The head of (path, type, agent)."""


def parts_of(
    engine: Engine,
    tree: Tree,
    declared: FrameType,
    path: str,
    entry: Entry,
    head_at: HeadAt | None = None,
) -> Iterator[Part]:
    """What a folder's frame is made from: each child's frames, in byte order of their names."""
    assert entry.folder is not None
    rules, head_at = declared.rules, head_at or engine.shelf.head
    for name, child in entry.folder.entries.items():
        where, raw = paths.join(path, name), paths.text_to_bytes(name)
        wanted = rules.wants(child)
        head = head_at(where, rules.type, rules.agent_for(child)) if wanted else None
        gathered = _gathered(engine, tree, declared, where, child) if rules.gathers else []
        if head is not None or not gathered:
            yield Part(where, raw, child, head, wanted)
        for other in gathered:
            yield Part(where, raw, child, other, own=False)


def _gathered(
    engine: Engine, tree: Tree, declared: FrameType, path: str, entry: Entry
) -> list[Head]:
    """The fresh frames at a child that a type takes in without keeping them."""
    rules = declared.rules
    own = (rules.type, rules.agent_for(entry))
    return [
        head
        for slot, head in engine.shelf.heads_at(path).items()
        if slot != own
        and rules.gathers in (slot[0], EVERY_TYPE)
        and judge(engine, tree, path, *slot, head).freshness is Freshness.FRESH
    ]


def expected_basis(
    engine: Engine, tree: Tree, declared: FrameType, path: str, entry: Entry
) -> BasisHash | None:
    """The basis that a declared frame has if it is made now from the heads there are."""
    raw = paths.text_to_bytes(path)
    if entry.folder is None:
        if declared.file is None:
            return None
        source = None
        if declared.input is not None:
            # Another thread may have read a configuration without it.
            read = engine.types.get(declared.input)
            below = read and engine.shelf.head(path, read.name, read.rules.agent_for(entry))
            source = below.frame_id if below else None
        node = engine.algorithm.node_id(entry.kind, raw, entry.content_id)
        return basis_of_generated(node, declared.file.print, source)
    if declared.folder is None:
        return None
    children = [
        part.frame(engine.algorithm) for part in parts_of(engine, tree, declared, path, entry)
    ]
    return basis_of_synthesis(raw, declared.name, declared.folder.print, children)


def _judge_note(engine: Engine, tree: Tree, path: str, entry: Entry, head: Head) -> Judged:
    document = engine.note_inputs(head.frame_id)
    if document is None:
        return Judged(Freshness.UNKNOWN, "what it was bound to is not recorded")
    on = document[ON]
    now = note_basis_now(engine, tree, path, entry, on)
    if now is None:
        return Judged(Freshness.UNKNOWN, f"its {on} frame is missing or not fresh")
    if now == head.basis:
        return FRESH
    if on == ON_CONTENT:
        return Judged(Freshness.STALE, "the content it was written about changed")
    if on == ON_LISTING:
        return Judged(Freshness.STALE, "the folder's entries changed")
    return Judged(Freshness.STALE, f"the {on} it was written about changed")


def note_basis_now(
    engine: Engine, tree: Tree, path: str, entry: Entry, on: str
) -> BasisHash | None:
    """The basis a note on that would have now; None when it cannot be told."""
    document = bound_document(engine, tree, path, entry, on)
    return None if document is None else note_basis(engine.algorithm, path, document)


def bound_document(
    engine: Engine, tree: Tree, path: str, entry: Entry, on: str
) -> dict[str, Any] | None:
    """What a note on that is bound to now, as its list of inputs."""
    if on == ON_CONTENT:
        return {ON: on, KIND: entry.kind.label, CONTENT_ID: entry.content_id.hex()}
    if on == ON_LISTING:
        if entry.folder is None:
            return None
        children = {name: [child.kind.label, ""] for name, child in entry.folder.entries.items()}
        return {ON: on, **children}
    head = fresh_head(engine, tree, path, entry, on)
    return None if head is None else {ON: on, SHA256: head.content.hex()}


def fresh_head(engine: Engine, tree: Tree, path: str, entry: Entry, frame_type: str) -> Head | None:
    """The generated head of a type at a node, when it is fresh."""
    declared = engine.types.get(frame_type)
    if declared is None or not declared.rules.covers(path):
        return None
    head = engine.shelf.head(path, frame_type, declared.rules.agent_for(entry))
    return head if declared.rules.is_current(head, entry) else None


def note_basis(algorithm: WorkspaceHash, path: str, document: dict[str, Any]) -> BasisHash:
    """The basis of a note at a path, from what it is bound to."""
    raw = paths.text_to_bytes(path)
    on = document[ON]
    if on == ON_CONTENT:
        kind = next(kind for kind in Kind if kind.label == document[KIND])
        content_id = ContentId(bytes.fromhex(document[CONTENT_ID]))
        return basis_of_content(algorithm.node_id(kind, raw, content_id))
    if on == ON_LISTING:
        children = [
            (paths.text_to_bytes(name), value[0])
            for name, value in document.items()
            if not name.startswith("/")
        ]
        return basis_of_listing(raw, sorted(children))
    return basis_of_frame(raw, on, BodyHash(bytes.fromhex(document[SHA256])))
