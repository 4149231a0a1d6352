"""Packs: what was written and computed, as one file that another workspace can take in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.core import paths
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    BodyHash,
    FrameId,
    MemoKey,
    body_hash,
    frame_id,
)
from indexer.engine.documents import JsonObject
from indexer.engine.freshness import note_basis
from indexer.engine.journaling import apply_record
from indexer.engine.reading import path_of
from indexer.errors import UsageError
from indexer.store.frames import FrameBatch, StoredFrame
from indexer.store.pack import read_pack, write_pack

if TYPE_CHECKING:
    from indexer.engine.engine import Engine

PACK_FORMAT = 1


class PackContentError(UsageError):
    """A record of a pack is not what it says it is; nothing was taken in."""

    code = "pack_content"


def export_pack(engine: Engine, file: Path, nodes: Sequence[str] = ()) -> JsonObject:
    """Write agents, notes and memo entries (all, or those of some nodes) to a file."""
    scopes = [path_of(engine, node) for node in nodes] or [paths.ROOT]
    count = write_pack(file, _records(engine, scopes))
    return {"file": str(file), "records": count}


def _records(engine: Engine, scopes: Sequence[str]) -> Iterator[JsonObject]:
    yield {"kind": "pack", "format": PACK_FORMAT, "hash": engine.algorithm.name}
    for agent in engine.frames.agents().values():
        yield {
            "kind": "agent",
            "id": agent.id,
            "role": agent.role,
            "can": list(agent.capabilities),
        }
    notes = [
        stored
        for stored in engine.frames.all_frames()
        if not stored.frame.agent.startswith(GENERATED_AGENT_PREFIX)
        and any(paths.is_within(stored.frame.path, scope) for scope in scopes)
    ]
    yield from _note_records(engine, notes)
    yield from _memo_records(engine, scopes)


def _note_records(engine: Engine, notes: Iterable[StoredFrame]) -> Iterator[JsonObject]:
    for stored in notes:
        frame = stored.frame
        body = engine.frames.bodies([frame.content]).get(frame.content)
        if body is None or frame.inputs is None:
            continue
        meta = json.loads(frame.meta)
        record: JsonObject = {
            "kind": "frame",
            "frame_id": frame.frame_id.hex(),
            "path": frame.path,
            "type": frame.type,
            "agent": frame.agent,
            "body": body,
            "node_id": frame.node_id.hex(),
            "inputs": engine.frames.inputs(frame.inputs),
            "created_ns": frame.created_ns,
        }
        origin = meta.pop("carried_from", None)
        if origin is not None:
            record["carried_from"] = origin
        record["meta"] = meta
        yield record


def _memo_records(engine: Engine, scopes: Sequence[str]) -> Iterator[JsonObject]:
    """The memo entries whose results the heads in these scopes hold (all, for the root)."""
    memo = engine.frames.memo()
    wanted: set[BodyHash] | None = None
    if paths.ROOT not in scopes:
        wanted = {
            head.content
            for heads in engine.shelf.slots.values()
            for path, head in heads.items()
            if any(paths.is_within(path, scope) for scope in scopes)
        }
    chosen = [
        (key, generation, content)
        for key, (generation, content) in sorted(memo.items())
        if content is not None and (wanted is None or content in wanted)
    ]
    for start in range(0, len(chosen), 1000):
        group = chosen[start : start + 1000]
        bodies = engine.frames.bodies(content for _, _, content in group)
        for key, generation, content in group:
            if content in bodies:
                yield {
                    "kind": "memo",
                    "key": key.hex(),
                    "generation": generation,
                    "content": content.hex(),
                    "body": bodies[content],
                }


def import_pack(engine: Engine, file: Path) -> JsonObject:
    """Take in a pack: checked whole, then journalled and stored; what is known already is left."""
    records = [_checked(engine, record) for record in _body_of(engine, file)]
    fresh = [record for record in records if not _is_known(engine, record)]
    durable = [record for record in fresh if record["kind"] != "memo"]
    computed = [record for record in fresh if record["kind"] == "memo"]
    engine.journal_and_apply(durable)
    for start in range(0, len(computed), 1000):
        batch = FrameBatch()
        for record in computed[start : start + 1000]:
            apply_record(engine, record, batch)
        engine.shelf.keep(batch)
    return {"file": str(file), "records": len(records), "added": len(fresh)}


def _body_of(engine: Engine, file: Path) -> Iterator[dict[str, Any]]:
    records = read_pack(file)
    head = next(records, None)
    if head is None or head.get("kind") != "pack":
        raise PackContentError(f"{file} is not a pack", hint="packs are made by `merkle export`")
    if head.get("format") != PACK_FORMAT:
        raise PackContentError(
            f"{file} has pack format {head.get('format')}", hint="upgrade merkle"
        )
    if head.get("hash") != engine.algorithm.name:
        raise PackContentError(
            f"{file} was made under {head.get('hash')}; this workspace uses"
            f" {engine.algorithm.name}",
            hint="packs go between workspaces with the same hash",
        )
    yield from records


def _checked(engine: Engine, record: dict[str, Any]) -> dict[str, Any]:
    """Refuse a record whose ids do not follow from what it holds."""
    try:
        if record["kind"] == "memo":
            if body_hash(record["body"]).hex() != record["content"]:
                raise PackContentError("a memo entry's body is not what its hash says")
            bytes.fromhex(record["key"])
            int(record["generation"])
        elif record["kind"] == "frame":
            basis = note_basis(engine, paths.parse(record["path"]), record["inputs"])
            content = body_hash(record["body"])
            made = frame_id(basis, record["type"], record["agent"], content)
            if made.hex() != record["frame_id"]:
                raise PackContentError(f"frame {record['frame_id'][:12]} is not what its id says")
        elif record["kind"] == "agent":
            str(record["id"]), str(record["role"]), list(record["can"])
        else:
            raise PackContentError(f"unknown record kind {record['kind']!r}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PackContentError(f"a record is malformed: {error!r}") from error
    return record


def _is_known(engine: Engine, record: dict[str, Any]) -> bool:
    if record["kind"] == "agent":
        known = engine.frames.agents().get(record["id"])
        return known is not None
    if record["kind"] == "frame":
        return engine.shelf.has_frame(FrameId(bytes.fromhex(record["frame_id"])))
    generation, content = engine.shelf.memo(MemoKey(bytes.fromhex(record["key"])))
    return generation >= record["generation"] and content is not None
