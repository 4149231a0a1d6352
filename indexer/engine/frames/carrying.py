"""Notes follow nodes that were renamed: the same words, the same binding, at the new place."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.changes import Rename
from indexer.core.frames import FrameId, Head, frame_id
from indexer.core.tree import Tree
from indexer.engine.documents import JsonObject
from indexer.engine.frames.freshness import note_basis
from indexer.engine.frames.note_records import CARRIED_FROM, REPLACES, note_record
from indexer.engine.make.events import Event
from indexer.store.frames import NoteState

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames


def carry(
    frames: Frames, journalled: Records, tree: Tree, renames: Iterable[Rename]
) -> list[Event]:
    """Let notes follow nodes that a new tree has elsewhere; gives back what to tell of it."""
    records = carry_records(frames, tree, renames)
    journalled.write(records)
    return [
        Event("carried", record["path"], record["type"], FrameId(bytes.fromhex(record["frame_id"])))
        for record in records
    ]


def carry_records(frames: Frames, tree: Tree, renames: Iterable[Rename]) -> list[JsonObject]:
    """The notes that follow renamed nodes: same content, same binding, new place."""
    moves = {rename.old: rename.new for rename in renames}
    found: list[tuple[str, str, str, Head]] = []
    for old, notes in sorted(frames.heads.notes.items()):
        above = next((p for p in (old, *paths.ancestors(old)) if p in moves), None)
        if above is not None:
            new = moves[above] + old[len(above) :]
            found += [(new, *slot, head) for slot, head in notes]
    stored_frames = frames.store.frames(head.frame_id for *_, head in found)
    bodies = frames.heads.bodies(head.content for *_, head in found)
    replaced = frames.store.superseded_by(head.frame_id for *_, head in found)
    frames.load_note_inputs(head.frame_id for *_, head in found)
    frames.load_note_inputs(state.head.frame_id for state in replaced)
    records = []
    for new, frame_type, agent, head in found:
        document, entry = frames.note_inputs(head.frame_id), tree.get(new)
        stored, body = stored_frames.get(head.frame_id), bodies.get(head.content)
        if document is None or entry is None or stored is None or body is None:
            continue
        meta = {k: v for k, v in json.loads(stored.frame.meta).items() if k != CARRIED_FROM}
        node_id, origin = tree.node_id(new, entry), head.frame_id.hex()
        record = note_record(frames, new, frame_type, agent, body, node_id, document, meta, origin)
        identity = FrameId(bytes.fromhex(record["frame_id"]))
        if frames.heads.live_frame((new, frame_type, agent), identity) is None:
            took = [state for state in replaced if state.superseded_by == head.frame_id]
            if again := _replaced_again(frames, new, took):
                record[REPLACES] = again
            records.append(record)
    return records


def _replaced_again(frames: Frames, path: str, replaced: Iterable[NoteState]) -> list[str]:
    """The copies, at a note's new path, of notes that it had replaced at its old one."""
    there = {head.frame_id for _, head in frames.heads.notes_at(path)}
    found = []
    for (_, frame_type, agent), head, *_ in replaced:
        document = frames.note_inputs(head.frame_id)
        if document is not None:
            basis = note_basis(frames.algorithm, path, document)
            same = frame_id(basis, frame_type, agent, head.content)
            found += [same.hex()] if same in there else []
    return found
