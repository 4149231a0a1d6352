"""What lies between two roots for notes: which went stale, which hold again, which came along."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from indexer.core import paths
from indexer.core.changes import Change
from indexer.core.frames import ON_CONTENT, ON_LISTING, BasisHash, FrameId
from indexer.core.hashing import WorkspaceHash
from indexer.core.tree import Entry
from indexer.engine.documents import JsonObject
from indexer.engine.frames.freshness import CONTENT_ID, KIND, ON, SHA256, note_basis
from indexer.engine.frames.notes import CARRIED_FROM
from indexer.store.frames import FrameStore, Made, NoteState
from indexer.store.trees import TreeStore


class Side(NamedTuple):
    """One of two roots."""

    seq: int
    made: Mapping[str, Made]
    """By path, the generated frames of what it held then."""


def notes_between(
    algorithm: WorkspaceHash,
    store: FrameStore,
    trees: TreeStore,
    changes: Sequence[Change],
    before: Side,
    after: Side,
) -> list[JsonObject]:
    """The notes that two roots make something different of, in order of their paths."""
    changed = {change.path: change for change in changes}
    listed = [note for note in store.live_notes() if note.key[0] in changed]
    inputs = store.note_inputs(note.head.frame_id for note in listed)
    origins = _origins(store, listed)
    gone = {path for path, change in changed.items() if change.new is None}
    carried = {one for one, old in origins.values() if old in gone}
    found = []
    for note in listed:
        identity, (path, frame_type, agent) = note.head.frame_id, note.key
        change, origin = changed[path], origins.get(identity)
        sides = ((change.old, before), (change.new, after))
        was, now = (
            entry is not None
            and _basis(algorithm, store, trees, path, entry, side, inputs.get(identity))
            == note.head.basis
            for entry, side in sides
        )
        word = None
        if change.old is None and origin is not None and origin[1] in gone:
            word = "carried"
        elif change.new is None and identity not in carried:
            word = "orphaned"
        elif change.old is not None and change.new is not None and was != now:
            word = "fresh" if now else "stale"
        if word is not None:
            one = {"path": path, "type": frame_type, "agent": agent, "frame_id": identity.hex()}
            came = origin[1] if word == "carried" and origin is not None else None
            found.append({**one, "change": word, "from": came})
    return sorted(found, key=lambda one: (one["path"], one["type"], one["agent"], one["frame_id"]))


def _origins(store: FrameStore, notes: Sequence[NoteState]) -> dict[FrameId, tuple[FrameId, str]]:
    """For each note that was carried along, the note it was, and where."""
    stored = store.frames(note.head.frame_id for note in notes)
    named = {
        identity: FrameId(bytes.fromhex(meta[CARRIED_FROM]))
        for identity, one in stored.items()
        if CARRIED_FROM in (meta := json.loads(one.frame.meta))
    }
    places = store.frames(named.values())
    return {
        identity: (origin, places[origin].frame.path)
        for identity, origin in named.items()
        if origin in places
    }


def _basis(
    algorithm: WorkspaceHash,
    store: FrameStore,
    trees: TreeStore,
    path: str,
    entry: Entry,
    side: Side,
    bound: Mapping[str, Any] | None,
) -> BasisHash | None:
    """The basis that a note would have had at a root; None where that is not known any more."""
    on = (bound or {}).get(ON)
    document: dict[str, Any] = {ON: on}
    if on == ON_CONTENT:
        document |= {KIND: entry.kind.label, CONTENT_ID: entry.content_id.hex()}
    elif on == ON_LISTING:
        names = trees.entries_at(side.seq, path)
        document |= {paths.split(where)[1]: [kind.label, ""] for where, kind in names}
    else:
        named = [one for (kind, _), one in side.made.get(path, {}).items() if kind == on]
        frames = store.frames(named)
        if on is None or not frames:
            return None
        document[SHA256] = frames[named[-1]].frame.content.hex()
    return note_basis(algorithm, path, document)
