"""A note as the journal keeps it, and what storing it changes: its rows, and whom it supersedes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from indexer.core import paths
from indexer.core.frames import Action, Frame, FrameId, Head, body_hash, frame_id, is_generated
from indexer.core.ids import NodeId
from indexer.engine.documents import JsonObject
from indexer.engine.frames.freshness import note_basis
from indexer.engine.frames.inputs import inputs_text
from indexer.errors import CorruptError
from indexer.regenerate.plan import EVERY_TYPE
from indexer.store.frames import FrameBatch, InputList, NoteState

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

CARRIED_FROM: Final = "carried_from"
REPLACES: Final = "replaces"
SUPERSEDED_BY: Final = "superseded_by"
WITHDRAWN: Final = ""
"""What a frame says that only takes notes back; nobody can write a note without words."""
NO_WORDS: Final = body_hash(WITHDRAWN)


def note_record(
    frames: Frames,
    path: str,
    frame_type: str,
    agent: str,
    content: str,
    node_id: NodeId,
    document: dict[str, Any],
    meta: Mapping[str, str],
    origin: str | None = None,
) -> JsonObject:
    """A frame as the journal keeps it."""
    basis = note_basis(frames.algorithm, path, document)
    identity = frame_id(basis, frame_type, agent, body_hash(content))
    record: JsonObject = {
        "kind": "frame",
        "frame_id": identity.hex(),
        "path": path,
        "type": frame_type,
        "agent": agent,
        "body": content,
        "node_id": node_id.hex(),
        "inputs": document,
        "meta": dict(meta),
        "created_ns": frames.clock.now_ns(),
    }
    if origin is not None:
        record[CARRIED_FROM] = origin
    return record


def apply_frame(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    """Put a journalled frame into a batch, checking that it is what its id says."""
    path, frame_type, agent = record["path"], record["type"], record["agent"]
    basis = note_basis(frames.algorithm, path, record["inputs"])
    content = body_hash(record["body"])
    identity = frame_id(basis, frame_type, agent, content)
    if identity.hex() != record["frame_id"]:
        raise CorruptError(
            f"the frame {record['frame_id'][:12]} is not what its id says",
            hint="run `merkle repair`",
        )
    inputs, text = inputs_text(record["inputs"])
    meta = dict(record["meta"])
    action = Action.WRITTEN
    if CARRIED_FROM in record:
        action = Action.CARRIED
        meta[CARRIED_FROM] = record[CARRIED_FROM]
    batch.inputs[inputs] = InputList(None, text)
    batch.bodies[content] = record["body"]
    batch.frames.append(
        Frame(
            identity, path, frame_type, agent, basis, content,
            NodeId(bytes.fromhex(record["node_id"])), inputs,
            json.dumps(meta, sort_keys=True, ensure_ascii=False), record["created_ns"],
        )
    )  # fmt: skip
    by = record.get(SUPERSEDED_BY)
    head = Head(identity, basis, content, None, None, action)
    counts = record.get("head", True) and by is None
    is_live = counts and content != NO_WORDS
    took = None if by is None else FrameId(bytes.fromhex(by))
    batch.notes.append(NoteState((path, frame_type, agent), head, is_live, took))
    if is_live:
        _take_back_proofs(frames, path, frame_type, batch)
    if counts:
        for old in record.get(REPLACES, ()):
            _supersede(frames, FrameId(bytes.fromhex(old)), path, identity, batch)


def _supersede(frames: Frames, old: FrameId, path: str, by: FrameId, batch: FrameBatch) -> None:
    """A note counts no longer from here on; one that is not about the same path does."""
    told = [note for note in batch.notes if note.head.frame_id == old]
    state = told[-1] if told else frames.store.note_states([old]).get(old)
    if state is not None and state.key[0] == path and old != by:
        batch.notes.append(state._replace(live=False, superseded_by=by))
        _take_back_proofs(frames, path, state.key[1], batch)


def _take_back_proofs(frames: Frames, path: str, frame_type: str, batch: FrameBatch) -> None:
    """Folders above that are made from notes of this type have to be shown fresh again."""
    above, kinds = paths.ancestors(path), (frame_type, EVERY_TYPE)
    for key, stored in frames.heads.heads_among(above, kinds).items():
        head = batch.heads.get(key) or stored
        if is_generated(key[2]) and head.verified is not None:
            batch.heads[key] = head._replace(verified=None)
