"""Why a frame is what it is, or why it is stale: the chain of inputs with old and new ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core import paths
from indexer.core.frames import Freshness, Head, is_generated
from indexer.core.tree import Entry, Tree
from indexer.engine.documents import JsonObject
from indexer.engine.frames.few import Slot
from indexer.engine.frames.freshness import bound_document, fresh_in, judge, stale_child
from indexer.engine.frames.inputs import FINGERPRINT
from indexer.engine.frames.read import path_of
from indexer.engine.frames.recipe import expected_basis
from indexer.engine.frames.types import FrameType
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import UsageError
from indexer.store.frames import StoredFrame

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

_MAX_DEPTH: Final = 64
_SHOWN: Final = 8
"""How many of the inputs that moved are named at one step."""


class ExplainDocument(TypedDict):
    """Result of `explain`."""

    path: str
    type: str
    agent: str
    frame_id: str
    freshness: str
    because: str
    chain: list[JsonObject]
    model: JsonObject | None


class NoFrameError(UsageError):
    """There is no such frame to explain."""

    code = "no_frame"


def explain(engine: Engine, node: str, *, frame_type: str | None = None) -> ExplainDocument:
    """Why a frame is what it is, or why it is stale."""
    frames = engine.frames
    path = path_of(frames, engine.tree, engine.trees, node)
    slots = {
        slot: head
        for slot, head in frames.heads.heads_at(path).items()
        if frame_type in (None, slot[0])
    }
    if not slots:
        raise NoFrameError(
            f"{paths.on_screen(path) or 'the root'} has no frame"
            + (f" of type {frame_type}" if frame_type else ""),
            hint="`merkle regenerate` makes declared ones; `merkle put-frame` writes your own",
        )
    tree = tree_as_on_disk(engine, path)
    labels = {slot: judge(frames, tree, path, *slot, head) for slot, head in slots.items()}
    # Prefer what a generator keeps: its chain is the one people ask about.
    slot = min(
        slots,
        key=lambda one: (
            labels[one].freshness is Freshness.UNMANAGED,
            not is_generated(one[1]),
            one,
        ),
    )
    head, judged = slots[slot], labels[slot]
    chain: list[JsonObject] = []
    if judged.freshness is Freshness.FRESH:
        _made_of(frames, path, slot, head, chain)
    elif judged.freshness is Freshness.STALE:
        _stale_by(frames, tree, path, slot, head, judged.because, chain)
    else:
        old = head.frame_id.hex()
        chain.append(_link(path, judged.freshness.value, judged.because, old, None))
    return {
        "path": path,
        "type": slot[0],
        "agent": slot[1],
        "frame_id": head.frame_id.hex(),
        "freshness": judged.freshness.value,
        "because": judged.because,
        "chain": chain,
        "model": _model_of(frames, head),
    }


def _model_of(frames: Frames, head: Head) -> JsonObject | None:
    """What a model was asked and what did not fit, where a model wrote the frame."""
    stored = frames.store.frame(head.frame_id)
    said = json.loads(stored.frame.meta).get("model") if stored is not None else None
    return said if isinstance(said, dict) else None


def _link(path: str, action: str, source: str, old: str | None, new: str | None) -> JsonObject:
    return {"path": path, "action": action, "input": source, "old": old, "new": new}


def _made_of(frames: Frames, path: str, slot: Slot, head: Head, chain: list[JsonObject]) -> None:
    """How a head came about: what moved since the one before, down to the file."""
    pending = [(path, slot, head)]
    while pending and len(chain) < _MAX_DEPTH:
        path, slot, head = pending.pop(0)
        now = frames.store.frame(head.frame_id)
        before = _before(frames, path, slot, head)
        action = head.action.value
        if now is None:
            return
        if now.frame.inputs is None or not is_generated(slot[1]):
            old = before.frame.node_id.hex() if before else None
            chain.append(_link(path, action, "content", old, now.frame.node_id.hex()))
            continue
        new_inputs = frames.store.inputs(now.frame.inputs) or {}
        old_inputs: dict[str, Any] = {}
        if before is not None and before.frame.inputs is not None:
            old_inputs = frames.store.inputs(before.frame.inputs) or {}
        moved = _moved(old_inputs, new_inputs)
        if not moved:
            chain.append(_link(path, action, "nothing moved", None, head.frame_id.hex()))
        for name, old_value, new_value in moved[:_SHOWN]:
            where = paths.join(path, name)
            chain.append(_link(path, action, _shown(name, where), old_value, new_value))
            below = _head_below(frames, where, slot[0])
            if below is not None and old_value is not None:
                pending.append((where, *below))
        if len(moved) > _SHOWN:
            more = f"{len(moved) - _SHOWN} more inputs"
            chain.append(_link(path, action, more, None, None))


def _before(frames: Frames, path: str, slot: Slot, head: Head) -> StoredFrame | None:
    """The frame whose place a head took: of a note, the last that it said it replaces."""
    if is_generated(slot[1]):
        return frames.store.head_before((path, *slot), head.frame_id)
    replaced = frames.store.superseded_by([head.frame_id])
    return frames.store.frame(replaced[-1].head.frame_id) if replaced else None


def _shown(name: str, where: str) -> str:
    return "configuration" if name == FINGERPRINT else where


def _head_below(frames: Frames, path: str, frame_type: str) -> tuple[Slot, Head] | None:
    for slot, head in frames.heads.heads_at(path).items():
        if slot[0] == frame_type and is_generated(slot[1]):
            return slot, head
    return None


def _moved(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    found = []
    for name in sorted({*old, *new}, key=lambda n: (n != FINGERPRINT, n)):
        if old.get(name) != new.get(name):
            found.append((name, _id_in(old.get(name)), _id_in(new.get(name))))
    return found


def _id_in(value: Any) -> str | None:
    if isinstance(value, list):
        return str(value[1]) or None
    return None if value is None else str(value)


def _stale_by(
    frames: Frames,
    tree: Tree,
    path: str,
    slot: Slot,
    head: Head,
    because: str,
    chain: list[JsonObject],
) -> None:
    """From a stale head down to the very thing that moved."""
    frame_type, agent = slot
    if not is_generated(agent):
        chain.append(_note_link(frames, tree, path, head, because))
        return
    declared = frames.types.get(frame_type)
    entry = tree.get(path)
    while declared is not None and entry is not None and len(chain) < _MAX_DEPTH:
        config = declared.rules.config_for(entry)
        if head.config != config:
            old = head.config.hex() if head.config else None
            chain.append(_link(path, "stale", "configuration", old, config.hex()))
            return
        step = stale_child(frames, declared, path, entry) if entry.folder is not None else None
        if step is None:
            chain.append(_last_link(frames, tree, declared, path, entry, head))
            return
        where, child, below = step
        if below is None:
            new = tree.node_id(where, child).hex()
            chain.append(_link(path, "stale", where, None, new))
            return
        chain.append(_link(path, "stale", where, below.frame_id.hex(), None))
        path, entry, head = where, child, below
    if not chain:
        chain.append(_link(path, "stale", because, head.frame_id.hex(), None))


def _last_link(
    frames: Frames, tree: Tree, declared: FrameType, path: str, entry: Entry, head: Head
) -> JsonObject:
    """What moved where nothing below did."""
    if expected_basis(frames, declared, path, entry, fresh_in(frames, tree)) == head.basis:
        return _link(path, "stale", "invalidated", head.frame_id.hex(), None)
    if entry.folder is not None:
        return _link(path, "stale", "entries", None, entry.content_id.hex())
    stored = frames.store.frame(head.frame_id)
    old = stored.frame.node_id.hex() if stored else None
    new = tree.node_id(path, entry).hex()
    read = frames.types.get(declared.input or "")
    if old == new and read is not None:
        below = frames.heads.head(path, read.name, read.rules.file_agent)
        return _link(path, "stale", read.name, None, below.frame_id.hex() if below else None)
    return _link(path, "stale", "content", old, new)


def _note_link(frames: Frames, tree: Tree, path: str, head: Head, because: str) -> JsonObject:
    document = frames.note_inputs(head.frame_id) or {}
    entry = tree.get(path)
    on = str(document.get("/on", "content"))
    now = bound_document(frames, path, entry, on) if entry else None
    old_id = document.get("/content_id") or document.get("/sha256")
    new_id = (now or {}).get("/content_id") or (now or {}).get("/sha256")
    return _link(path, "stale", on if entry else because, old_id, new_id)
