"""Packs: what was written and computed, as one file that another workspace can take in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from indexer.compose.manifest import ManifestProblem
from indexer.core import paths
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    BodyHash,
    Frame,
    FrameId,
    MemoKey,
    body_hash,
    frame_id,
)
from indexer.core.hashing import WorkspaceHash
from indexer.core.secrets import check_secrets, mask
from indexer.engine.documents import JsonObject
from indexer.engine.durable.journal import DUE, apply_record
from indexer.engine.frames.agents import check_agent
from indexer.engine.frames.freshness import note_basis
from indexer.engine.frames.notes import CARRIED_FROM, MAX_META
from indexer.engine.frames.read import path_of
from indexer.engine.frames.types import TYPE_NAME
from indexer.engine.late import LateModule
from indexer.engine.search.manifests import check_manifest, manifest_records
from indexer.errors import CorruptError, UsageError
from indexer.store.frames import FrameBatch, FrameStore
from indexer.store.pack import read_pack, write_pack
from indexer.store.sessions import SessionStore
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.sessions import packs as session_packs
    from indexer.engine.workspace import Engine
else:
    session_packs = LateModule("indexer.engine.sessions.packs")

PACK_FORMAT: Final = 1
SESSION: Final = "session"
_GROUP: Final = 1000


class PackContentError(UsageError):
    """A record of a pack is not what it says it is; nothing was taken in."""

    code = "pack_content"


def export_pack(engine: Engine, file: Path, nodes: Sequence[str] = ()) -> JsonObject:
    """Write agents, notes, manifests, memo entries and sessions, or what is about some nodes."""
    scopes = [path_of(engine, node) for node in nodes] or [paths.ROOT]
    count = write_pack(file, _records(engine, scopes))
    return {"file": str(file), "records": count}


def _records(engine: Engine, scopes: Sequence[str]) -> Iterator[JsonObject]:
    yield {"kind": "pack", "format": PACK_FORMAT, "hash": engine.algorithm.name}
    yield from agent_records(engine.frames)
    yield from note_records(engine.frames, scopes)
    yield from manifest_records(engine.frames, scopes)
    yield from _memo_records(engine, scopes)
    # Sessions are about no node in particular: they go along with everything.
    if paths.ROOT in scopes and SessionStore(engine.database).names():
        yield from session_packs.session_records(engine)


def agent_records(store: FrameStore) -> Iterator[JsonObject]:
    """Every registered agent, as the journal keeps it."""
    for agent in store.agents().values():
        able = list(agent.capabilities)
        yield {"kind": "agent", "id": agent.id, "role": agent.role, "can": able}


def note_records(store: FrameStore, scopes: Sequence[str] = (paths.ROOT,)) -> Iterator[JsonObject]:
    """Every frame in some scopes that an agent wrote, oldest first, as the journal keeps it."""
    notes = [
        stored.frame
        for stored in store.all_frames()
        if not stored.frame.agent.startswith(GENERATED_AGENT_PREFIX)
        and any(paths.is_within(stored.frame.path, scope) for scope in scopes)
    ]
    heads = {head.frame_id for head in store.heads().values()}
    for start in range(0, len(notes), _GROUP):
        group = notes[start : start + _GROUP]
        bodies = store.bodies(frame.content for frame in group)
        inputs = store.note_inputs(frame.frame_id for frame in group)
        for frame in group:
            if frame.content in bodies and frame.frame_id in inputs:
                record = _note_record(frame, bodies[frame.content], inputs[frame.frame_id])
                # The history comes along, but only what is said now becomes a head elsewhere.
                yield record if frame.frame_id in heads else {**record, "head": False}


def _note_record(frame: Frame, body: str, inputs: dict[str, Any]) -> JsonObject:
    meta = json.loads(frame.meta)
    origin = meta.pop(CARRIED_FROM, None)
    record: JsonObject = {
        "kind": "frame",
        "frame_id": frame.frame_id.hex(),
        "path": frame.path,
        "type": frame.type,
        "agent": frame.agent,
        "body": body,
        "node_id": frame.node_id.hex(),
        "inputs": inputs,
        "meta": meta,
        "created_ns": frame.created_ns,
    }
    if origin is not None:
        record[CARRIED_FROM] = origin
    return record


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
    for start in range(0, len(chosen), _GROUP):
        group = chosen[start : start + _GROUP]
        bodies = engine.frames.bodies(content for _, _, content in group)
        for key, generation, content in group:
            if content in bodies:
                record = _memo_record(key, generation, content, bodies[content])
                written = engine.shelf.model(key)
                if written is not None and written.content == content:
                    record |= {"kind": "model", "meta": json.loads(written.meta)}
                yield record


def _memo_record(key: MemoKey, generation: int, content: BodyHash, body: str) -> JsonObject:
    return {
        "kind": "memo",
        "key": key.hex(),
        "generation": generation,
        "content": content.hex(),
        "body": body,
    }


def due_records(store: FrameStore, queue: ShareQueue) -> Iterator[JsonObject]:
    """What the team is still to be given, as far as it is here."""
    keys, memo = list(queue.waiting()), store.memo()
    for start in range(0, len(keys), _GROUP):
        group = [(key, *memo.get(key, (0, None))) for key in keys[start : start + _GROUP]]
        bodies = store.bodies(content for _, _, content in group if content is not None)
        for key, generation, content in group:
            if content is not None and content in bodies:
                yield _memo_record(key, generation, content, bodies[content]) | {DUE: True}


def model_records(store: FrameStore) -> Iterator[JsonObject]:
    """Everything that a model wrote, as the journal keeps it."""
    results = sorted(store.models().items())
    for start in range(0, len(results), _GROUP):
        group = results[start : start + _GROUP]
        bodies = store.bodies(result.content for _, result in group)
        for key, result in group:
            if result.content in bodies:
                body = bodies[result.content]
                record = _memo_record(key, result.generation, result.content, body)
                yield record | {"kind": "model", "meta": json.loads(result.meta)}


def import_pack(engine: Engine, file: Path, allow_secrets: bool = False) -> JsonObject:
    """Take in a pack: checked whole, then journalled and stored; what is known already is left."""
    everything = [_checked(engine.algorithm, record) for record in _body_of(engine, file)]
    for record in everything:
        if record["kind"] in ("memo", "model"):
            _mask(record)
        elif not allow_secrets:
            check_secrets(PackContentError, f"{record['kind']} in the pack", record)
    records = [record for record in everything if record["kind"] != SESSION]
    sessions, diverged = _fresh_sessions(engine, everything)
    _keep_own_heads(engine, records)
    fresh = [record for record in records if not _is_known(engine, record)]
    durable = [record for record in fresh if record["kind"] != "memo"]
    computed = [record for record in fresh if record["kind"] == "memo"]
    engine.journal_and_apply([*durable, *sessions])
    for start in range(0, len(computed), _GROUP):
        batch = FrameBatch()
        for record in computed[start : start + _GROUP]:
            apply_record(engine, record, batch)
        engine.shelf.keep(batch)
    return {
        "file": str(file),
        "records": len(everything),
        "added": len(fresh) + len(sessions),
        "diverged": diverged,
    }


def _mask(record: dict[str, Any]) -> None:
    """Do to a generated text what is done to those that are made here."""
    body = mask(record["body"])
    if body != record["body"]:
        record |= {"body": body, "content": body_hash(body).hex()}


def _fresh_sessions(
    engine: Engine, records: Sequence[dict[str, Any]]
) -> tuple[list[JsonObject], list[str]]:
    packed = [record for record in records if record["kind"] == SESSION]
    if not packed:
        return [], []
    try:
        return session_packs.plan_sessions(engine, packed)
    except CorruptError as error:
        raise PackContentError(f"a session does not hold: {error.message}") from error


def _keep_own_heads(engine: Engine, records: Sequence[dict[str, Any]]) -> None:
    """Where the pack does not know what a head says here, its notes join the history only."""
    frames = [record for record in records if record["kind"] == "frame"]
    packed = {record["frame_id"] for record in frames}
    for record in frames:
        head = engine.shelf.head(record["path"], record["type"], record["agent"])
        if head is not None and head.frame_id.hex() not in packed:
            record["head"] = False


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


def _checked(algorithm: WorkspaceHash, record: dict[str, Any]) -> dict[str, Any]:
    """Refuse a record whose ids do not follow from what it holds."""
    # What is due to a team is no pack's to say.
    record.pop(DUE, None)
    try:
        if record["kind"] in ("memo", "model"):
            check_memo(record)
        elif record["kind"] == "frame":
            check_note(algorithm, record)
        elif record["kind"] == "manifest":
            check_manifest(record)
        elif record["kind"] == "agent":
            check_agent(record["id"], record["role"], record["can"])
        elif record["kind"] == SESSION:
            session_packs.check_shape(record)
        else:
            raise PackContentError(f"unknown record kind {record['kind']!r}")
    except PackContentError:
        raise
    except ManifestProblem as problem:
        raise PackContentError(f"a manifest is not sound: {problem}") from problem
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, UsageError) as error:
        raise PackContentError(f"a record is malformed: {error!r}") from error
    return record


def check_memo(record: dict[str, Any]) -> None:
    """Refuse a memo entry whose body is not what its hash says."""
    if body_hash(record["body"]).hex() != record["content"]:
        raise PackContentError("a memo entry's body is not what its hash says")
    generation = record["generation"]
    if len(bytes.fromhex(record["key"])) != 32 or not isinstance(generation, int):
        raise PackContentError("a memo entry has no proper key")
    if not 0 <= generation < 1 << 31:
        raise PackContentError("a memo entry has an impossible generation")
    if record["kind"] == "model" and len(json.dumps(dict(record["meta"]))) > MAX_META:
        raise PackContentError("a model's result has more to say of itself than it should")


def check_note(algorithm: WorkspaceHash, record: dict[str, Any]) -> None:
    """Refuse a note whose id does not follow from what it holds."""
    path, agent, kind = record["path"], record["agent"], record["type"]
    if paths.parse(path) != path or agent.startswith(GENERATED_AGENT_PREFIX):
        raise PackContentError(f"frame {record['frame_id'][:12]} is nobody's note")
    if not TYPE_NAME.fullmatch(kind):
        raise PackContentError(f"{kind!r} is no frame type")
    basis = note_basis(algorithm, path, record["inputs"])
    if frame_id(basis, kind, agent, body_hash(record["body"])).hex() != record["frame_id"]:
        raise PackContentError(f"frame {record['frame_id'][:12]} is not what its id says")
    if not isinstance(record.get("head", True), bool):
        raise PackContentError(f"frame {record['frame_id'][:12]} is neither head nor history")
    meta, origin = record["meta"], record.get(CARRIED_FROM, "")
    texts = [*meta, *meta.values(), origin]
    if not all(isinstance(text, str) for text in texts):
        raise PackContentError(f"frame {record['frame_id'][:12]} has metadata that is no text")
    bytes.fromhex(record["node_id"])
    if not isinstance(record["created_ns"], int) or abs(record["created_ns"]) >= 1 << 63:
        raise PackContentError(f"frame {record['frame_id'][:12]} has an impossible time")


def _is_known(engine: Engine, record: dict[str, Any]) -> bool:
    if record["kind"] == "agent":
        known = engine.frames.agents().get(record["id"])
        return known is not None
    if record["kind"] == "frame":
        return engine.shelf.has_frame(FrameId(bytes.fromhex(record["frame_id"])))
    if record["kind"] == "manifest":
        return bool(engine.frames.manifests(record["id"]))
    generation, content = engine.shelf.memo(MemoKey(bytes.fromhex(record["key"])))
    return generation >= record["generation"] and content is not None
