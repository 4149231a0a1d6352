"""What lies between two roots for notes: which went stale, which hold again, which came along."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.core import paths
from indexer.core.changes import Change
from indexer.core.frames import ON_CONTENT, ON_LISTING, ON_SYMBOL, BasisHash, FrameId
from indexer.core.tree import Entry
from indexer.engine.documents import NoteChangeDocument
from indexer.engine.frames.freshness import CONTENT_ID, KIND, ON, SHA256, note_basis, symbol_in
from indexer.engine.frames.note_records import CARRIED_FROM
from indexer.store.frames import FrameStore, Made, NoteState
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames


class Side(NamedTuple):
    """One of two roots."""

    seq: int
    made: Mapping[str, Made]
    """By path, the generated frames of what it held then."""


def notes_between(
    frames: Frames,
    trees: TreeStore,
    changes: Sequence[Change],
    before: Side,
    after: Side,
) -> list[NoteChangeDocument]:
    """The notes that two roots make something different of, in order of their paths."""
    store = frames.store
    changed = {change.path: change for change in changes}
    listed = [note for note in store.live_notes() if note.key[0] in changed]
    inputs = store.note_inputs(note.head.frame_id for note in listed)
    origins = _origins(store, listed)
    gone = {path for path, change in changed.items() if change.new is None}
    carried = {one for one, old in origins.values() if old in gone}
    found: list[NoteChangeDocument] = []
    for note in listed:
        identity, (path, frame_type, agent) = note.head.frame_id, note.key
        change, origin = changed[path], origins.get(identity)
        sides = ((change.old, before), (change.new, after))
        bound = inputs.get(identity)
        was, now = (
            None if entry is None else _bases(frames, trees, path, entry, side, bound)
            for entry, side in sides
        )
        word = None
        if change.old is None and origin is not None and origin[1] in gone:
            word = "carried"
        elif change.new is None and identity not in carried:
            word = "orphaned"
        elif was is not None and now is not None:
            held, holds = note.head.basis in was, note.head.basis in now
            word = None if held == holds else "fresh" if holds else "stale"
        if word is not None:
            found.append(
                {
                    "path": path,
                    "symbol": symbol_in(bound),
                    "type": frame_type,
                    "agent": agent,
                    "frame_id": identity.hex(),
                    "change": word,
                    "from": origin[1] if word == "carried" and origin is not None else None,
                }
            )
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


def _bases(
    frames: Frames,
    trees: TreeStore,
    path: str,
    entry: Entry,
    side: Side,
    bound: Mapping[str, Any] | None,
) -> list[BasisHash] | None:
    """What a note could have been bound to at a root; None where that is not known any more.

    It is one thing, or each of the symbols of one name.
    """
    on = (bound or {}).get(ON)
    if on is None:
        return None
    documents: list[dict[str, Any]] = [{ON: on}]
    if on == ON_CONTENT:
        documents[0] |= {KIND: entry.kind.label, CONTENT_ID: entry.content_id.hex()}
    elif on == ON_LISTING:
        names = trees.entries_at(side.seq, path)
        documents[0] |= {paths.split(where)[1]: [kind.label, ""] for where, kind in names}
    elif on.startswith(ON_SYMBOL):
        found = frames.symbols.named(path, entry, on.removeprefix(ON_SYMBOL))
        if found is None:
            return None
        documents = [{ON: on, SHA256: one.sha256.hex()} for one in found]
    else:
        named = [one for (kind, _), one in side.made.get(path, {}).items() if kind == on]
        stored = frames.store.frames(named)
        if not stored:
            return []
        documents[0][SHA256] = stored[named[-1]].frame.content.hex()
    return [note_basis(frames.algorithm, path, document) for document in documents]
