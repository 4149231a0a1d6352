"""The kinds of records in a journal or a pack, one row each: all that is done with one.

A record is a JSON object with its `kind`. The journal keeps what cannot be computed again from the
files, and a pack is the same on its way to another workspace.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import BodyHash, Frame, FrameId, MemoKey, body_hash, frame_id, is_generated
from indexer.core.hashing import WorkspaceHash
from indexer.engine.code.symbols import is_symbol_name
from indexer.engine.documents import JsonObject
from indexer.engine.frames.agents import agent_record, check_agent
from indexer.engine.frames.freshness import SHA256, note_basis, symbol_in
from indexer.engine.frames.note_records import (
    CARRIED_FROM,
    NO_WORDS,
    REPLACES,
    SUPERSEDED_BY,
    apply_frame,
)
from indexer.engine.frames.notes import MAX_BODY, MAX_META, check_meta
from indexer.engine.frames.roles import check_agent_id
from indexer.engine.frames.types import TYPE_NAME
from indexer.errors import CorruptError, MerkleError, UsageError
from indexer.store.frames import Agent, FrameBatch, FrameStore, ModelResult, NoteState

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

DUE: Final = "due"
"""Marks a record of a result that the team was to be given when it was written."""

UNVOUCHED: Final = "unvouched"
"""Marks the record of a result that came with a pack and that nobody vouched for."""

SEAL: Final = "seal"
"""Holds the team's word for the record of a result in a pack."""

RESULTS: Final = ("memo", "model")
SESSION: Final = "session"
ASIDE: Final = "aside"
GROUP: Final = 1000
"""Bodies that are read together."""

Record = Mapping[str, Any]


UNFIT: Final = (
    MerkleError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a record that is not what it should be raises somewhere on its way."""


def said_by(error: Exception) -> str:
    """What went wrong with a record: in the words of our errors, or what the library raised."""
    return error.message if isinstance(error, MerkleError) else repr(error)[:400]


class OtherFormatError(CorruptError):
    """The journal is another release's or another workspace's: no single record is at fault."""


class PackContentError(UsageError):
    """A record of a pack is not what it says it is; nothing was taken in."""

    code = "pack_content"


class RecordKind(NamedTuple):
    """What is done with the records of one kind."""

    apply: Callable[[Frames, JsonObject, FrameBatch], None]
    """Put it into a batch."""
    check: Callable[[WorkspaceHash, JsonObject], None] | None = None
    """Refuse what does not follow from what it holds; None where no pack can have such a record."""
    is_known: Callable[[Frames, JsonObject], bool] = lambda frames, record: False
    """Whether the workspace has it already."""
    identity: Callable[[Record], object] | None = None
    """What two records of the same thing have in common; None where that is no single thing."""
    replaces: bool = False
    """Whether a later record of the same thing takes the place of an earlier one."""
    stored: Callable[[FrameStore], Iterator[JsonObject]] = lambda store: iter(())
    """What a database has of this kind, for a journal that has lost it."""


def apply_record(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    """Put one record into a batch."""
    kind = KINDS.get(record["kind"])
    if kind is None:
        raise OtherFormatError(
            f"the journal has a record of unknown kind {record['kind']!r}",
            hint="it was written by a later release: upgrade merkle",
        )
    kind.apply(frames, record, batch)


def checked(algorithm: WorkspaceHash, record: JsonObject) -> JsonObject:
    """A record of a pack, refused where its ids do not follow from what it holds."""
    # What is due to a team, and what is vouched for, is no pack's to say.
    record.pop(DUE, None)
    record.pop(UNVOUCHED, None)
    try:
        _check_values(record)
        kind = KINDS.get(record["kind"])
        if kind is None or kind.check is None:
            raise PackContentError(f"unknown record kind {record['kind']!r}")
        kind.check(algorithm, record)
    except PackContentError:
        raise
    except UNFIT as error:
        raise PackContentError(
            f"a record of kind {record['kind']!r} is malformed: {said_by(error)}"
        ) from error
    return record


def _check_values(value: Any) -> None:
    """Refuse numbers and texts that no table can hold, wherever they are."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            _check_values(name)
            _check_values(one)
    elif isinstance(value, list):
        for one in value:
            _check_values(one)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    elif isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError("a number is too large")


def _is_whole(value: object, below: int = 1 << 63) -> bool:
    """Whether it is a whole number from 0 on; true and false are none."""
    return type(value) is int and 0 <= value < below


def _is_id(value: object, size: int = 32) -> bool:
    """Whether it is an id of so many bytes, spelled as ids are."""
    return isinstance(value, str) and bytes.fromhex(value).hex() == value and len(value) == 2 * size


def holds(algorithm: WorkspaceHash, record: JsonObject) -> bool:
    """Whether a record that a damaged database gave is what its ids say."""
    check = KINDS[record["kind"]].check
    try:
        if check is not None:
            check(algorithm, record)
    except UNFIT:
        return False
    return True


# -- format


def _apply_format(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    if record["hash"] != frames.algorithm.name:
        raise OtherFormatError(
            f"the journal was written under {record['hash']}, this workspace uses"
            f" {frames.algorithm.name}",
            hint="restore .merkle/format.json",
        )


# -- agents


def _apply_agent(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    batch.agents.append(Agent(record["id"], record["role"], tuple(record["can"])))


def _check_agent(algorithm: WorkspaceHash, record: JsonObject) -> None:
    if not isinstance(record["can"], list):
        raise PackContentError("an agent's capabilities are a list")
    # As the command would have it: sorted, and all of the role's where none are named.
    record["can"] = list(check_agent(record["id"], record["role"], record["can"]))


def agent_records(store: FrameStore) -> Iterator[JsonObject]:
    """Every registered agent."""
    return map(agent_record, store.agents().values())


# -- notes


def _check_note(algorithm: WorkspaceHash, record: JsonObject) -> None:
    path, agent, kind = record["path"], record["agent"], record["type"]
    named = f"frame {record['frame_id'][:12]}"
    if paths.parse(path) != path:
        raise PackContentError(f"{named} is nobody's note")
    check_agent_id(agent)
    if not TYPE_NAME.fullmatch(kind):
        raise PackContentError(f"{kind!r} is no frame type")
    symbol = symbol_in(record["inputs"])
    if symbol is not None and not is_symbol_name(symbol):
        raise PackContentError(f"{named} is about no symbol")
    if SHA256 in record["inputs"] and not _is_id(record["inputs"][SHA256]):
        raise PackContentError(f"{named} is bound to no text")
    basis = note_basis(algorithm, path, record["inputs"])
    if frame_id(basis, kind, agent, body_hash(record["body"])).hex() != record["frame_id"]:
        raise PackContentError(f"{named} is not what its id says")
    if not isinstance(record.get("head", True), bool):
        raise PackContentError(f"{named} is neither head nor history")
    replaced = record.get(REPLACES, [])
    if not isinstance(replaced, list) or not all(map(_is_id, replaced)):
        raise PackContentError(f"{named} replaces what is no frame")
    if SUPERSEDED_BY in record and not _is_id(record[SUPERSEDED_BY]):
        raise PackContentError(f"{named} is superseded by no frame")
    if len(record["body"].encode()) > MAX_BODY:
        raise PackContentError(f"{named} is larger than a frame can be")
    check_meta(record["meta"])
    if CARRIED_FROM in record and not _is_id(record[CARRIED_FROM]):
        raise PackContentError(f"{named} was carried from nowhere")
    if not _is_id(record["node_id"], algorithm.size):
        raise PackContentError(f"{named} is about no node")
    if type(record["created_ns"]) is not int:
        raise PackContentError(f"{named} has an impossible time")


def note_records(
    store: FrameStore,
    scopes: Sequence[str] = (paths.ROOT,),
    among: Collection[FrameId] | None = None,
) -> Iterator[JsonObject]:
    """Every frame in some scopes that an agent wrote, the one that was said last at the end.

    Those that are named, where some are: what they replaced is known as far as it is among them.
    """
    states = store.all_note_states() if among is None else store.note_states(among)
    said = {identity: place for place, identity in enumerate(states)}
    notes = [
        stored.frame
        for stored in (store.all_frames() if among is None else store.frames(among).values())
        if not is_generated(stored.frame.agent)
        and any(paths.is_within(stored.frame.path, scope) for scope in scopes)
    ]
    notes.sort(key=lambda frame: said.get(frame.frame_id, -1))
    replaced: dict[FrameId, list[str]] = {}
    for identity, state in states.items():
        if state.superseded_by is not None:
            replaced.setdefault(state.superseded_by, []).append(identity.hex())
    for start in range(0, len(notes), GROUP):
        group = notes[start : start + GROUP]
        bodies = store.bodies(frame.content for frame in group)
        inputs = store.note_inputs(frame.frame_id for frame in group)
        for frame in group:
            if frame.content in bodies and frame.frame_id in inputs:
                record = _note_record(frame, bodies[frame.content], inputs[frame.frame_id])
                if frame.frame_id in replaced:
                    record[REPLACES] = replaced[frame.frame_id]
                yield record | _standing(states.get(frame.frame_id))


def _standing(state: NoteState | None) -> JsonObject:
    """What a record says of a note that counts no longer: it comes along as history."""
    if state is None or state.live or (state.superseded_by is None and _is_withdrawal(state)):
        return {}
    if state.superseded_by is None:
        return {"head": False}
    return {"head": False, SUPERSEDED_BY: state.superseded_by.hex()}


def _is_withdrawal(state: NoteState) -> bool:
    """Whether it only takes others back: it never counts itself, and is no history."""
    return state.head.content == NO_WORDS


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


# -- invalidations


def _apply_invalidation(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    for key, generation in record["keys"].items():
        batch.memo[MemoKey(bytes.fromhex(key))] = (generation, None)
    for path, frame_type, agent in record["heads"]:
        head = frames.heads.head(path, frame_type, agent)
        if head is not None:
            batch.heads[(path, frame_type, agent)] = head._replace(verified=None)


# -- results: memo entries, and those that models wrote


def memo_record(key: MemoKey, generation: int, content: BodyHash, body: str) -> JsonObject:
    """A memo entry with its body."""
    return {
        "kind": "memo",
        "key": key.hex(),
        "generation": generation,
        "content": content.hex(),
        "body": body,
    }


def _apply_memo(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    content = body_hash(record["body"])
    if content.hex() != record["content"]:
        raise CorruptError(
            f"the result {record['key'][:12]} is not what its hash says", hint="run `merkle repair`"
        )
    key = MemoKey(bytes.fromhex(record["key"]))
    generation, known = batch.memo.get(key, frames.heads.memo(key))
    # The highest generation wins, in whatever order records come.
    if record["generation"] > generation or (record["generation"] == generation and not known):
        batch.memo[key] = (record["generation"], content)
    batch.bodies[content] = record["body"]
    if record.get(UNVOUCHED):
        batch.unvouched.append((key, record["generation"]))
    if record.get(DUE):
        # Redone after a loss, it may have reached the team since; the next push finds out.
        batch.due.append((key, record["generation"]))


def _apply_model(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    """A memo entry that was paid for."""
    _apply_memo(frames, record, batch)
    content = BodyHash(bytes.fromhex(record["content"]))
    meta = json.dumps(record["meta"], sort_keys=True, ensure_ascii=False)
    key = MemoKey(bytes.fromhex(record["key"]))
    known = frames.heads.model(key)
    if known is None or known.generation != record["generation"]:
        result = ModelResult(record["generation"], content, meta)
        batch.models.setdefault((key, record["generation"]), result)


def _check_memo(algorithm: WorkspaceHash, record: JsonObject) -> None:
    if body_hash(record["body"]).hex() != record["content"]:
        raise PackContentError("a memo entry's body is not what its hash says")
    if not _is_id(record["key"]):
        raise PackContentError("a memo entry has no proper key")
    if not _is_whole(record["generation"], 1 << 31):
        raise PackContentError("a memo entry has an impossible generation")
    if record["kind"] == "model":
        if not isinstance(record["meta"], dict):
            raise PackContentError("what a model's result took is no object")
        if len(json.dumps(record["meta"])) > MAX_META:
            raise PackContentError("a model's result has more to say of itself than it should")


def _is_memo_known(frames: Frames, record: JsonObject) -> bool:
    generation, content = frames.heads.memo(MemoKey(bytes.fromhex(record["key"])))
    return generation >= record["generation"] and content is not None


def model_records(store: FrameStore) -> Iterator[JsonObject]:
    """Everything that a model wrote, older generations included: each was paid for."""
    results, unvouched = store.paid(), store.unvouched()
    for start in range(0, len(results), GROUP):
        group = results[start : start + GROUP]
        bodies = store.bodies(result.content for _, result in group)
        for key, result in group:
            if result.content in bodies:
                body = bodies[result.content]
                record = memo_record(key, result.generation, result.content, body)
                record |= {"kind": "model", "meta": json.loads(result.meta)}
                is_ours = (key, result.generation) not in unvouched
                yield record if is_ours else record | {UNVOUCHED: True}


# -- manifests, with the composing that most commands have nothing to do with: imported late


def _apply_manifest(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    from indexer.engine.search.manifests import apply_manifest

    apply_manifest(frames.store, record, batch)


def _check_manifest(algorithm: WorkspaceHash, record: JsonObject) -> None:
    from indexer.compose.manifest import ManifestProblem
    from indexer.engine.search.manifests import check_manifest

    try:
        check_manifest(record)
    except ManifestProblem as problem:
        raise PackContentError(f"a manifest is not sound: {problem}") from problem


def _manifest_records(store: FrameStore) -> Iterator[JsonObject]:
    from indexer.engine.search.manifests import manifest_records

    return manifest_records(store)


# -- sessions


def _apply_session(frames: Frames, record: JsonObject, batch: FrameBatch) -> None:
    batch.session_records.append(record)


def _check_session(algorithm: WorkspaceHash, record: JsonObject) -> None:
    # Imported late: most packs have no session.
    from indexer.engine.sessions.packs import check_shape

    check_shape(record)


# -- what `repair` has put aside


def aside_record(record: Record, reason: str) -> JsonObject:
    """What stands in a journal in the place of a record that could not be applied."""
    return {"kind": ASIDE, "of": record["kind"], "reason": reason}


KINDS: Final[dict[str, RecordKind]] = {
    ASIDE: RecordKind(lambda frames, record, batch: None),
    "format": RecordKind(_apply_format),
    "agent": RecordKind(
        _apply_agent,
        _check_agent,
        is_known=lambda frames, record: record["id"] in frames.store.agents(),
        identity=lambda record: record["id"],
        replaces=True,
        stored=agent_records,
    ),
    "frame": RecordKind(
        apply_frame,
        _check_note,
        is_known=lambda frames, record: frames.heads.has_frame(
            FrameId(bytes.fromhex(record["frame_id"]))
        ),
        identity=lambda record: record["frame_id"],
        stored=note_records,
    ),
    "invalidate": RecordKind(_apply_invalidation),
    "memo": RecordKind(_apply_memo, _check_memo, is_known=_is_memo_known),
    "model": RecordKind(
        _apply_model,
        _check_memo,
        is_known=_is_memo_known,
        identity=lambda record: (record["key"], record["generation"]),
        stored=model_records,
    ),
    "manifest": RecordKind(
        _apply_manifest,
        _check_manifest,
        is_known=lambda frames, record: bool(frames.store.manifests(record["id"])),
        identity=lambda record: record["id"],
        stored=_manifest_records,
    ),
    SESSION: RecordKind(_apply_session, _check_session),
}
