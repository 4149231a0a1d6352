"""Frames written by agents: checked, bound to what was read, journalled, carried on a rename."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core import paths
from indexer.core.changes import Rename
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    ON_CONTENT,
    ON_LISTING,
    Action,
    Frame,
    FrameId,
    Head,
    HeadKey,
    body_hash,
    frame_id,
)
from indexer.core.ids import NodeId, is_id_prefix
from indexer.core.kinds import Kind
from indexer.core.secrets import check_secrets
from indexer.core.tree import Entry, Tree
from indexer.engine.documents import JsonObject
from indexer.engine.frames.agents import check_writer
from indexer.engine.frames.freshness import ON, SHA256, bound_document, judge, note_basis
from indexer.engine.frames.inputs import inputs_text
from indexer.engine.frames.types import TYPE_NAME, FrameType
from indexer.engine.make.events import Event
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import bring_up_to_date
from indexer.errors import CorruptError, UsageError
from indexer.regenerate.plan import EVERY_TYPE
from indexer.store.frames import FrameBatch, FrameStore, InputList
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

MAX_BODY: Final = 1 << 20
MAX_META: Final = 16 << 10
CARRIED_FROM: Final = "carried_from"


class FrameRefusedError(UsageError):
    """The frame cannot be stored as it is; nothing was."""

    code = "frame_refused"


class WrittenDocument(TypedDict):
    """Result of `put-frame`."""

    frame_id: str
    created: bool
    path: str
    freshness: str
    because: str


def put_frame(
    engine: Engine,
    node: str,
    content: str,
    *,
    frame_type: str,
    agent: str,
    seen: str | None = None,
    on: str | None = None,
    meta: Mapping[str, str] | None = None,
    allow_secrets: bool = False,
) -> WrittenDocument:
    """Append a note, bound to what its author read.

    `seen` is the NodeID that was read; without it the node as it is now.
    """
    frames = engine.frames
    check_writer(frames.store, agent)
    _check(frames.types, content, frame_type, meta or {}, allow_secrets)
    path = resolve_node(engine.tree, engine.trees, node)["path"]
    bring_up_to_date(engine, path)
    tree = engine.tree
    entry = tree.get(path)
    if entry is None:
        raise FrameRefusedError(f"{paths.on_screen(path)} is gone", hint="scan, then look again")
    if entry.kind is Kind.DIRECTORY and frame_type in frames.types:
        raise FrameRefusedError(
            f"folders' frames of type {frame_type} are made from their children's",
            hint="write about a file in it, or under a type of your own",
        )
    on = on or (ON_LISTING if entry.kind is Kind.DIRECTORY else ON_CONTENT)
    node_id, document = _bound_to(frames, engine.trees, tree, path, entry, on, seen)
    record = _record(frames, path, frame_type, agent, content, node_id, document, meta or {})
    key: HeadKey = (path, frame_type, agent)
    known = frames.heads.head(*key)
    created = not frames.heads.has_frame(FrameId(bytes.fromhex(record["frame_id"])))
    if known is None or known.frame_id.hex() != record["frame_id"]:
        engine.records.write([record])
    head = frames.heads.head(*key)
    assert head is not None
    judged = judge(frames, tree, path, frame_type, agent, head)
    return {
        "frame_id": head.frame_id.hex(),
        "created": created,
        "path": path,
        "freshness": judged.freshness.value,
        "because": judged.because,
    }


def _check(
    types: Mapping[str, FrameType],
    content: str,
    frame_type: str,
    meta: Mapping[str, str],
    allow_secrets: bool,
) -> None:
    if not TYPE_NAME.fullmatch(frame_type):
        raise FrameRefusedError(
            f"{frame_type!r} is no frame type",
            hint="use lower-case letters, digits, dot, dash and underscore",
        )
    declared = types.get(frame_type)
    if declared is not None and not declared.rules.gathers:
        raise FrameRefusedError(
            f"frames of type {frame_type} are kept by a generator",
            hint="write under a type of your own, such as note",
        )
    try:
        size = len(content.encode())
    except UnicodeEncodeError as error:
        raise FrameRefusedError("the content is not valid Unicode text") from error
    if size > MAX_BODY:
        raise FrameRefusedError(
            f"the content has {size} bytes; a frame holds at most {MAX_BODY}",
            hint="say less, or split it over several types",
        )
    check_meta(meta)
    if not allow_secrets:
        check_secrets(FrameRefusedError, "content", content)
        check_secrets(FrameRefusedError, "metadata", meta)


def check_meta(meta: Mapping[str, str]) -> None:
    """Refuse metadata that no frame may have."""
    if not all(isinstance(k, str) and isinstance(v, str) for k, v in meta.items()):
        raise FrameRefusedError("metadata must be text by name")
    if CARRIED_FROM in meta:
        raise FrameRefusedError(f"{CARRIED_FROM} is set when a note follows a rename, by nobody")
    try:
        size = sum(len(k.encode()) + len(v.encode()) for k, v in meta.items())
    except UnicodeEncodeError as error:
        raise FrameRefusedError("the metadata is not valid Unicode text") from error
    if size > MAX_META:
        raise FrameRefusedError(
            f"the metadata has {size} bytes; it may have {MAX_META}", hint="say it in the content"
        )


def _bound_to(
    frames: Frames,
    trees: TreeStore,
    tree: Tree,
    path: str,
    entry: Entry,
    on: str,
    seen: str | None,
) -> tuple[NodeId, dict[str, Any]]:
    """The node an author read, and what of it the note is bound to."""
    node_id, is_past = tree.node_id(path, entry), False
    if seen is not None and not is_id_prefix(seen):
        raise FrameRefusedError(f"{seen!r} is no NodeID", hint="give the id that was read")
    if seen is not None and not node_id.hex().startswith(seen):
        found = trees.tree_with_node(path, seen)
        if found is None:
            raise FrameRefusedError(
                f"{paths.on_screen(path)} never had a NodeID that begins with {seen}",
                hint="pass the node_id that get-node gave you",
            )
        node_id, then = found
        old = then.get(path)
        assert old is not None
        entry, is_past = old, True
    document = bound_document(frames, path, entry, on)
    if document is None and is_past:
        document = _frame_of_then(frames.store, path, node_id, on)
    if document is None:
        raise FrameRefusedError(
            f"there is no fresh {on} of {paths.on_screen(path)} to bind to",
            hint="bind with --on content, or run `merkle regenerate` first",
        )
    return node_id, document


def _frame_of_then(store: FrameStore, path: str, node_id: NodeId, on: str) -> dict[str, Any] | None:
    """What the generated frame of an older version said, from the history."""
    for stored in store.history(path, on):
        frame = stored.frame
        if frame.node_id == node_id and frame.agent.startswith(GENERATED_AGENT_PREFIX):
            return {ON: on, SHA256: frame.content.hex()}
    return None


def _record(
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
    if record.get("head", True):
        batch.heads[(path, frame_type, agent)] = Head(identity, basis, content, None, None, action)
        _take_back_proofs(frames, path, frame_type, batch)


def _take_back_proofs(frames: Frames, path: str, frame_type: str, batch: FrameBatch) -> None:
    """Folders above that are made from notes of this type have to be shown fresh again."""
    above, kinds = paths.ancestors(path), (frame_type, EVERY_TYPE)
    for key, stored in frames.heads.heads_among(above, kinds).items():
        head = batch.heads.get(key) or stored
        if key[2].startswith(GENERATED_AGENT_PREFIX) and head.verified is not None:
            batch.heads[key] = head._replace(verified=None)


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
    for (frame_type, agent), heads in sorted(frames.heads.slots.items()):
        if agent.startswith(GENERATED_AGENT_PREFIX):
            continue
        for old in sorted(heads):
            above = next((p for p in (old, *paths.ancestors(old)) if p in moves), None)
            if above is not None:
                new = moves[above] + old[len(above) :]
                found.append((new, frame_type, agent, heads[old]))
    stored_frames = frames.store.frames(head.frame_id for *_, head in found)
    bodies = frames.heads.bodies(head.content for *_, head in found)
    frames.load_note_inputs(head.frame_id for *_, head in found)
    records = []
    for new, frame_type, agent, head in found:
        document, entry = frames.note_inputs(head.frame_id), tree.get(new)
        stored, body = stored_frames.get(head.frame_id), bodies.get(head.content)
        if document is None or entry is None or stored is None or body is None:
            continue
        meta = {k: v for k, v in json.loads(stored.frame.meta).items() if k != CARRIED_FROM}
        node_id, origin = tree.node_id(new, entry), head.frame_id.hex()
        record = _record(frames, new, frame_type, agent, body, node_id, document, meta, origin)
        there = frames.heads.head(new, frame_type, agent)
        if there is None or there.frame_id.hex() != record["frame_id"]:
            records.append(record)
    return records
