"""Frames written by agents: checked, bound to what was read, journalled, carried on a rename."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

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
from indexer.core.secrets import find_secrets
from indexer.core.tree import Entry
from indexer.engine.agents import check_writer
from indexer.engine.documents import JsonObject
from indexer.engine.events import Event
from indexer.engine.freshness import bound_document, judge, note_basis
from indexer.engine.resolve import resolve_node
from indexer.errors import UsageError
from indexer.store.frames import FrameBatch, InputList

if TYPE_CHECKING:
    from indexer.engine.engine import Engine

MAX_BODY: Final = 1 << 20
_TYPE: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class FrameRefusedError(UsageError):
    """The frame cannot be stored as it is; nothing was."""

    code = "frame_refused"


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
) -> JsonObject:
    """Append a note, bound to what its author read."""
    check_writer(engine, agent)
    _check(engine, content, frame_type, meta or {}, allow_secrets)
    path = resolve_node(engine, node)["path"]
    engine.bring_up_to_date(path)
    entry = engine.tree.get(path)
    if entry is None:
        raise FrameRefusedError(f"{paths.on_screen(path)} is gone", hint="scan, then look again")
    on = on or (ON_LISTING if entry.kind is Kind.DIRECTORY else ON_CONTENT)
    node_id, document = _bound_to(engine, path, entry, on, seen)
    record = _record(engine, path, frame_type, agent, content, node_id, document, meta or {})
    key: HeadKey = (path, frame_type, agent)
    known = engine.shelf.head(*key)
    created = known is None or known.frame_id.hex() != record["frame_id"]
    if created:
        engine.journal_and_apply([record])
    head = engine.shelf.head(*key)
    assert head is not None
    judged = judge(engine, engine.tree, path, frame_type, agent, head)
    return {
        "frame_id": head.frame_id.hex(),
        "created": created,
        "path": path,
        "freshness": judged.freshness.value,
        "because": judged.because,
    }


def _check(
    engine: Engine, content: str, frame_type: str, meta: Mapping[str, str], allow_secrets: bool
) -> None:
    if not _TYPE.fullmatch(frame_type):
        raise FrameRefusedError(
            f"{frame_type!r} is no frame type",
            hint="use lower-case letters, digits, dot, dash and underscore",
        )
    if frame_type in engine.types:
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
    if not all(isinstance(k, str) and isinstance(v, str) for k, v in meta.items()):
        raise FrameRefusedError("metadata must be text by name")
    found = [] if allow_secrets else find_secrets(content)
    if found:
        raise FrameRefusedError(
            f"the content looks like it holds a secret ({found[0].kind})",
            hint="take it out, or pass --allow-secrets if it is none",
        )


def _bound_to(
    engine: Engine, path: str, entry: Entry, on: str, seen: str | None
) -> tuple[NodeId, dict[str, Any]]:
    """The node an author read, and what of it the note is bound to."""
    node_id, tree = engine.tree.node_id(path, entry), engine.tree
    if seen is not None and not node_id.hex().startswith(seen):
        if not is_id_prefix(seen):
            raise FrameRefusedError(f"{seen!r} is no NodeID", hint="give the id that was read")
        found = engine.trees.tree_with_node(path, seen)
        if found is None:
            raise FrameRefusedError(
                f"{paths.on_screen(path)} never had a NodeID that begins with {seen}",
                hint="pass the node_id that get-node gave you",
            )
        node_id, tree = found
        old = tree.get(path)
        assert old is not None
        entry = old
    document = bound_document(engine, tree, path, entry, on)
    if document is None:
        raise FrameRefusedError(
            f"there is no fresh {on} of {paths.on_screen(path)} to bind to",
            hint="bind with --on content, or run `merkle regenerate` first",
        )
    return node_id, document


def _record(
    engine: Engine,
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
    basis = note_basis(engine, path, document)
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
        "created_ns": engine.clock.now_ns(),
    }
    if origin is not None:
        record["carried_from"] = origin
    return record


def apply_frame(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    """Put a journalled frame into a batch, checking that it is what its id says."""
    path, frame_type, agent = record["path"], record["type"], record["agent"]
    basis = note_basis(engine, path, record["inputs"])
    content = body_hash(record["body"])
    identity = frame_id(basis, frame_type, agent, content)
    if identity.hex() != record["frame_id"]:
        raise FrameRefusedError(f"the frame {record['frame_id'][:12]} is not what its id says")
    text = json.dumps(record["inputs"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    inputs = hashlib.sha256(text.encode()).digest()
    meta = dict(record["meta"])
    action = Action.WRITTEN
    if "carried_from" in record:
        action = Action.CARRIED
        meta["carried_from"] = record["carried_from"]
    batch.inputs[inputs] = InputList(None, text)
    batch.bodies[content] = record["body"]
    batch.frames.append(
        Frame(
            identity, path, frame_type, agent, basis, content,
            NodeId(bytes.fromhex(record["node_id"])), inputs,
            json.dumps(meta, sort_keys=True, ensure_ascii=False), record["created_ns"],
        )
    )  # fmt: skip
    batch.heads[(path, frame_type, agent)] = Head(identity, basis, content, None, None, action)


def carry(engine: Engine, renames: Iterable[Rename]) -> None:
    """Let notes follow renamed nodes, and tell subscribers."""
    records = carry_records(engine, renames)
    engine.journal_and_apply(records)
    engine.publish_frames(
        [
            Event("carried", record["path"], record["type"], FrameId(bytes.fromhex(identity)))
            for record in records
            if (identity := record["frame_id"])
        ]
    )


def carry_records(engine: Engine, renames: Iterable[Rename]) -> list[JsonObject]:
    """The notes that follow renamed nodes: same content, same binding, new place."""
    records: list[JsonObject] = []
    for rename in renames:
        for (frame_type, agent), heads in sorted(engine.shelf.slots.items()):
            if agent.startswith(GENERATED_AGENT_PREFIX):
                continue
            for old in sorted(path for path in heads if paths.is_within(path, rename.old)):
                new = rename.new + old[len(rename.old) :]
                record = _carried(engine, old, new, frame_type, agent, heads[old])
                if record is not None:
                    records.append(record)
    return records


def _carried(
    engine: Engine, old: str, new: str, frame_type: str, agent: str, head: Head
) -> JsonObject | None:
    document = engine.note_inputs(head.frame_id)
    body = engine.frames.bodies([head.content]).get(head.content)
    stored = engine.frames.frame(head.frame_id)
    entry = engine.tree.get(new)
    if document is None or body is None or stored is None or entry is None:
        return None
    meta = {k: v for k, v in json.loads(stored.frame.meta).items() if k != "carried_from"}
    node_id = engine.tree.node_id(new, entry)
    return _record(
        engine, new, frame_type, agent, body, node_id, document, meta, head.frame_id.hex()
    )
