"""Every invariant of frames, heads, basis, memo and journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    BasisHash,
    ChildFrame,
    Frame,
    FrameId,
    Head,
    basis_of_generated,
    basis_of_synthesis,
    body_hash,
    frame_id,
)
from indexer.core.tree import Entry, Tree
from indexer.engine.freshness import note_basis
from indexer.engine.types import FrameType

if TYPE_CHECKING:
    from indexer.engine.engine import Engine

Report = Callable[[str, str, str], None]
"""Takes code, path and message of a finding."""


def check_frames(engine: Engine, tree: Tree, error: Report) -> int:
    """Check everything about frames; returns how many there are."""
    frames = {stored.frame.frame_id: stored.frame for stored in engine.frames.all_frames()}
    for frame in frames.values():
        made = frame_id(frame.basis, frame.type, frame.agent, frame.content)
        if made != frame.frame_id:
            error("frame_id", frame.path, f"frame {frame.frame_id.hex()[:12]} has another id")
    _check_bodies(engine, frames.values(), error)
    _check_heads(engine, tree, frames, error)
    _check_memo(engine, error)
    for problem in engine.journal.check():
        error("journal", "", str(problem))
    return len(frames)


def _check_bodies(engine: Engine, frames: Iterable[Frame], error: Report) -> None:
    for sha256, content in engine.frames.all_bodies():
        if content is not None and body_hash(content) != sha256:
            error("body", "", f"body {sha256.hex()[:12]} has another content")
    known = engine.frames.body_rows()
    for frame in frames:
        if frame.content not in known:
            error("body", frame.path, f"frame {frame.frame_id.hex()[:12]} has no body")


def _check_heads(
    engine: Engine, tree: Tree, frames: Mapping[FrameId, Frame], error: Report
) -> None:
    for (frame_type, agent), heads in sorted(engine.shelf.slots.items()):
        declared = engine.types.get(frame_type)
        for path, head in sorted(heads.items()):
            frame = frames.get(head.frame_id)
            if frame is None:
                error("head", path, f"the head of {frame_type} by {agent} is not stored")
                continue
            if (frame.path, frame.type, frame.agent) != (path, frame_type, agent):
                error("head", path, f"the head of {frame_type} by {agent} belongs elsewhere")
            if (frame.basis, frame.content) != (head.basis, head.content):
                error("head", path, f"the head of {frame_type} by {agent} is not its frame")
            if not agent.startswith(GENERATED_AGENT_PREFIX):
                _check_note(engine, path, frame, error)
            elif declared is not None:
                _check_generated(engine, tree, declared, path, head, error)


def _check_note(engine: Engine, path: str, frame: Frame, error: Report) -> None:
    document = engine.note_inputs(frame.frame_id)
    if document is None or note_basis(engine, path, document) != frame.basis:
        error("basis", path, f"the basis of {frame.type} by {frame.agent} does not follow")


def _check_generated(
    engine: Engine, tree: Tree, declared: FrameType, path: str, head: Head, error: Report
) -> None:
    """A head that counts as fresh must have exactly the basis computed now."""
    entry = tree.get(path)
    if entry is None or not declared.rules.covers(path) or not declared.rules.wants(entry):
        return
    if not declared.rules.is_current(head, entry):
        return
    expected = expected_basis(engine, tree, declared, path, entry)
    if expected is not None and expected != head.basis:
        error("basis", path, f"the {declared.name} frame counts as fresh, its basis moved")


def expected_basis(
    engine: Engine, tree: Tree, declared: FrameType, path: str, entry: Entry
) -> BasisHash | None:
    """The basis that a declared frame has if it is made now from the heads there are."""
    rules = declared.rules
    if entry.folder is None:
        if declared.file is None:
            return None
        source = None
        if declared.input is not None:
            read = engine.types[declared.input]
            below = engine.shelf.head(path, read.name, read.rules.agent_for(entry))
            source = below.frame_id if below else None
        return basis_of_generated(tree.node_id(path, entry), declared.file.print, source)
    if declared.folder is None:
        return None
    children = []
    for name, child in entry.folder.entries.items():
        where = paths.join(path, name)
        head = (
            engine.shelf.head(where, rules.type, rules.agent_for(child))
            if rules.wants(child)
            else None
        )
        children.append(
            ChildFrame(
                tree.node_id(where, child),
                paths.text_to_bytes(name),
                child.kind.label,
                head.frame_id if head else None,
            )
        )
    raw = paths.text_to_bytes(path)
    return basis_of_synthesis(raw, declared.name, declared.folder.print, children)


def _check_memo(engine: Engine, error: Report) -> None:
    for key, (_, content) in engine.frames.memo().items():
        if content is not None and not engine.shelf.has_body(content):
            error("memo", "", f"memo entry {key.hex()[:12]} names a body that is not stored")
