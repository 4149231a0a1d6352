"""What people do with notes: write one, list them, say that one is still true, take one back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import Count
from indexer.core.clock import iso_utc
from indexer.core.frames import ON_SYMBOL, Frame, FrameId, Freshness, Head, HeadKey, is_generated
from indexer.core.tree import Tree
from indexer.engine.code.symbols import split_symbol
from indexer.engine.frames.agents import check_writer, new_writer
from indexer.engine.frames.find import find_frame
from indexer.engine.frames.freshness import ON, Judged, judge, place_of, symbol_in
from indexer.engine.frames.note_records import CARRIED_FROM, REPLACES, WITHDRAWN, note_record
from indexer.engine.frames.notes import (
    FrameRefusedError,
    NewNote,
    WrittenDocument,
    written_documents,
)
from indexer.engine.frames.read import path_of
from indexer.engine.frames.roles import AgentId
from indexer.engine.make.events import Event
from indexer.engine.tree.scan import bring_up_to_date, tree_as_on_disk

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

NOTE: Final = "note"
WRITTEN_BY: Final = "written_by"
"""In the metadata of a note that somebody else confirmed: who wrote it first."""

_STALE_FIRST: Final = (
    Freshness.STALE,
    Freshness.ORPHANED,
    Freshness.UNKNOWN,
    Freshness.UNMANAGED,
    Freshness.FRESH,
)


class NotedDocument(WrittenDocument):
    """Result of `note`."""

    agent: str
    registered: bool
    """Whether its author was registered with it."""


def note(
    engine: Engine,
    node: str,
    content: str,
    *,
    agent: AgentId,
    frame_type: str = NOTE,
    seen: str | None = None,
    replaces: Sequence[str] = (),
    allow_secrets: bool = False,
) -> NotedDocument:
    """Write a note in one go; an author whom nobody knows yet is registered as a writer.

    It is bound as `put_frame` binds it: to what is there now or, with `seen`, to what was read.
    """
    newcomer = agent not in engine.frames.store.agents()
    joining = [new_writer(agent)] if newcomer else []
    given = NewNote(node, content, frame_type, agent, seen, None, replaces)
    (written,) = written_documents(engine, [given], allow_secrets, joining=joining)
    return {**written, "agent": agent, "registered": newcomer}


class NoteDocument(TypedDict):
    """One note that counts."""

    frame_id: str
    path: str
    symbol: str | None
    """What of the file it is about; None for all of it."""
    line: int | None
    """Where that symbol begins now."""
    type: str
    agent: str
    freshness: str
    because: str
    content: str | None
    created_at: str


class NotesDocument(TypedDict):
    """Result of `notes`."""

    notes: list[NoteDocument]
    found: int
    """How many there are, shown or not."""


def notes(
    engine: Engine, node: str = "", *, stale: bool = False, limit: Count | None = None
) -> NotesDocument:
    """The notes at and below a node, or about PATH::SYMBOL: those that do not hold first.

    With `stale` only those. Within one state they stand in order of their places.
    """
    place, symbol = split_symbol(engine.tree, node)
    path = path_of(engine.frames, engine.tree, engine.trees, place)
    tree, frames = tree_as_on_disk(engine, path), engine.frames
    listed = [
        ((where, *slot), head)
        for where, live in sorted(frames.heads.notes.items())
        if paths.is_within(where, path)
        for slot, head in live
    ]
    frames.load_notes(tree, ((key[0], head.frame_id) for key, head in listed))
    if symbol is not None:
        listed = [one for one in listed if _is_about(frames, one[1], symbol)]
    judged = [(key, head, judge(frames, tree, *key, head)) for key, head in listed]
    if stale:
        judged = [one for one in judged if one[2].freshness is not Freshness.FRESH]
    shown = _documents(frames, tree, judged)
    shown.sort(key=_in_place)
    return {"notes": shown[:limit], "found": len(shown)}


def _is_about(frames: Frames, head: Head, wanted: str) -> bool:
    """Whether a note is bound to a symbol of that name, or whose name ends so."""
    symbol = symbol_in(frames.note_inputs(head.frame_id)) or ""
    return symbol == wanted or symbol.endswith((f".{wanted}", f"> {wanted}"))


def _in_place(one: NoteDocument) -> tuple[int, str, int, str]:
    state = _STALE_FIRST.index(Freshness(one["freshness"]))
    return state, one["path"], one["line"] or 0, one["frame_id"]


def _documents(
    frames: Frames, tree: Tree, judged: Sequence[tuple[HeadKey, Head, Judged]]
) -> list[NoteDocument]:
    stored = frames.store.frames(head.frame_id for _, head, _ in judged)
    bodies = frames.heads.bodies(head.content for _, head, _ in judged)
    found: list[NoteDocument] = []
    for (path, frame_type, agent), head, state in judged:
        place = place_of(frames, path, tree.get(path), head.frame_id)
        found.append(
            {
                "frame_id": head.frame_id.hex(),
                "path": path,
                "symbol": place.symbol,
                "line": place.line,
                "type": frame_type,
                "agent": agent,
                "freshness": state.freshness.value,
                "because": state.because,
                "content": bodies.get(head.content),
                "created_at": iso_utc(stored[head.frame_id].frame.created_ns),
            }
        )
    return found


def confirm_note(
    engine: Engine, frame: str, *, agent: str, seen: str | None = None
) -> WrittenDocument:
    """Say that a note is still true: the same words take its place, bound to what is there now.

    Whoever says so is their author from now on; the metadata keeps who wrote them first
    (`written_by`). A note that is fresh stays as it is.
    """
    frames = engine.frames
    check_writer(frames.store, agent)
    stored = _living_note(frames, frame)
    bring_up_to_date(engine, stored.path)
    key: HeadKey = (stored.path, stored.type, stored.agent)
    head = frames.heads.live_frame(key, stored.frame_id)
    assert head is not None
    tree = engine.tree
    judged = judge(frames, tree, *key, head)
    if judged.freshness is Freshness.FRESH:
        place = place_of(frames, stored.path, tree.get(stored.path), stored.frame_id)
        return {
            "frame_id": stored.frame_id.hex(),
            "created": False,
            "path": stored.path,
            "symbol": place.symbol,
            "line": place.line,
            "freshness": judged.freshness.value,
            "because": "",
            "replaced": [],
        }
    body = frames.heads.bodies([stored.content]).get(stored.content)
    if tree.get(stored.path) is None or body is None:
        raise FrameRefusedError(
            f"{stored.frame_id.hex()[:12]} cannot be confirmed: {judged.because}",
            hint=f"write it about another node, or `merkle note --withdraw {frame}`",
        )
    on, symbol = _binding(frames, stored.frame_id)
    meta = {k: v for k, v in json.loads(stored.meta).items() if k != CARRIED_FROM}
    if agent != stored.agent:
        meta.setdefault(WRITTEN_BY, stored.agent)
    # Its id may look like part of another's name: a path is said to be one.
    node = f"path:{stored.path}" + (f"{ON_SYMBOL}{symbol}" if symbol is not None else "")
    replaced = [stored.frame_id.hex()]
    given = NewNote(node, body, stored.type, agent, seen, on, replaced, meta=meta)
    # What is stored already was looked at when it came.
    (written,) = written_documents(engine, [given], allow_secrets=True)
    return written


def _binding(frames: Frames, frame_id: FrameId) -> tuple[str | None, str | None]:
    """What a note is bound to: as `--on` says it, or a symbol."""
    document = frames.note_inputs(frame_id) or {}
    symbol = symbol_in(document)
    return (None, symbol) if symbol is not None else (document.get(ON), None)


def _living_note(frames: Frames, frame: str) -> Frame:
    """A note that counts, by its id."""
    stored = find_frame(frames.store, frame).frame
    name = stored.frame_id.hex()[:12]
    if is_generated(stored.agent):
        raise FrameRefusedError(
            f"{name} is no note: a generator keeps it",
            hint="`merkle regenerate` makes it again, `merkle notes` lists notes",
        )
    if frames.heads.live_frame((stored.path, stored.type, stored.agent), stored.frame_id) is None:
        by = frames.store.note_states([stored.frame_id])[stored.frame_id].superseded_by
        said = "counts no longer" if by is None else f"was superseded by {by.hex()[:12]}"
        raise FrameRefusedError(f"{name} {said}", hint="`merkle notes` lists those that count")
    return stored


class WithdrawnDocument(TypedDict):
    """Result of `withdraw-note`."""

    frame_id: str
    path: str
    symbol: str | None
    withdrawn_by: str
    """The frame that says so."""
    agent: str


def withdraw_note(engine: Engine, frame: str, *, agent: str) -> WithdrawnDocument:
    """Take a note back: it stays in the history, and counts no longer.

    Frames never change, so another one says so: without words, in the name of whoever does it.
    """
    frames = engine.frames
    check_writer(frames.store, agent)
    stored = _living_note(frames, frame)
    document = frames.note_inputs(stored.frame_id) or {}
    record = note_record(
        frames, stored.path, stored.type, agent, WITHDRAWN, stored.node_id, document, {}
    )
    record[REPLACES] = [stored.frame_id.hex()]
    engine.records.write([record])
    because = f"withdrawn by {agent}"
    engine.publish_frames([Event("superseded", stored.path, stored.type, stored.frame_id, because)])
    return {
        "frame_id": stored.frame_id.hex(),
        "path": stored.path,
        "symbol": symbol_in(document),
        "withdrawn_by": record["frame_id"],
        "agent": agent,
    }
