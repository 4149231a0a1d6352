"""Packs: what was written and computed, as one file that another workspace can take in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import File
from indexer.core.frames import BodyHash, FrameId, body_hash
from indexer.core.progress import Progress, begin, counted
from indexer.core.secrets import check_secrets, mask
from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import (
    GROUP,
    KINDS,
    RESULTS,
    SEAL,
    SESSION,
    UNFIT,
    UNVOUCHED,
    PackContentError,
    agent_records,
    apply_record,
    checked,
    memo_record,
    note_records,
    said_by,
)
from indexer.engine.frames.note_records import REPLACES
from indexer.engine.frames.read import path_of
from indexer.engine.search.manifests import manifest_records
from indexer.shared.seal import TEAM_KEY, Seal
from indexer.store.frames import FrameBatch
from indexer.store.pack import payload_of, read_pack, write_pack
from indexer.store.sessions import SessionStore

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine
    from indexer.store.database import Database

PACK_FORMAT: Final = 1


class ExportedDocument(TypedDict):
    """Result of `export`."""

    file: str
    records: int


def export_pack(
    engine: Engine, file: File, nodes: Sequence[str] = (), *, progress: Progress | None = None
) -> ExportedDocument:
    """Write what was written and computed to a file.

    Everything, or what is about some nodes. Computed results are signed where the environment
    has the team's key, so that they are believed where the key is known too.
    """
    scopes = [path_of(engine.frames, engine.tree, engine.trees, node) for node in nodes] or [
        paths.ROOT
    ]
    seal = _seal(engine.frames)
    records = (
        _sealed(seal, record)
        for record in _records(engine.frames, engine.database, scopes, progress)
    )
    count = write_pack(file, counted(records, progress))
    return {"file": str(file), "records": count}


def _records(
    frames: Frames, database: Database, scopes: Sequence[str], progress: Progress | None
) -> Iterator[JsonObject]:
    store = frames.store
    begin(progress, "writing notes and manifests", "records")
    yield {"kind": "pack", "format": PACK_FORMAT, "hash": frames.algorithm.name}
    yield from agent_records(store)
    yield from note_records(store, scopes)
    yield from manifest_records(store, scopes)
    yield from _memo_records(frames.heads, scopes, progress)
    # Sessions are about no node in particular: they go along with everything.
    sessions = SessionStore(database)
    if paths.ROOT in scopes and sessions.names():
        # Imported late: most workspaces have no session.
        from indexer.engine.sessions.packs import session_records

        begin(progress, "writing sessions", "sessions", len(sessions.names()))
        yield from session_records(sessions)


def _seal(frames: Frames) -> Seal:
    namespace = str(frames.declared.settings.values["shared.namespace"])
    return Seal(namespace, os.environ.get(TEAM_KEY))


def _sealed(seal: Seal, record: JsonObject) -> JsonObject:
    """A record as it goes out: a result that is vouched for here, with the team's word for it."""
    if record.pop(UNVOUCHED, False) or record["kind"] not in RESULTS:
        return record
    mac = seal.of_record(payload_of(record))
    return record if mac is None else {**record, SEAL: mac}


def _is_vouched(seal: Seal, record: JsonObject) -> bool:
    """Whether the team's key vouches for a result; takes the seal off."""
    mac = record.pop(SEAL, None)
    expected = seal.of_record(payload_of(record))
    return isinstance(mac, str) and expected is not None and compare_digest(
        mac.encode(), expected.encode()
    )  # fmt: skip


def _memo_records(
    heads: HeadCache, scopes: Sequence[str], progress: Progress | None
) -> Iterator[JsonObject]:
    """The memo entries whose results the heads in these scopes hold (all, for the root)."""
    wanted: set[BodyHash] | None = None
    if paths.ROOT not in scopes:
        wanted = {
            head.content
            for by_path in heads.slots.values()
            for path, head in by_path.items()
            if any(paths.is_within(path, scope) for scope in scopes)
        }
    unvouched = heads.store.unvouched()
    chosen = [
        (key, generation, content)
        for key, (generation, content) in sorted(heads.store.memo().items())
        if content is not None and (wanted is None or content in wanted)
    ]
    begin(progress, "writing computed results", "records", len(chosen))
    for start in range(0, len(chosen), GROUP):
        group = chosen[start : start + GROUP]
        bodies = heads.store.bodies(content for _, _, content in group)
        for key, generation, content in group:
            if content in bodies:
                record = memo_record(key, generation, content, bodies[content])
                written = heads.model(key)
                if written is not None and written.content == content:
                    record |= {"kind": "model", "meta": json.loads(written.meta)}
                yield record | ({UNVOUCHED: True} if (key, generation) in unvouched else {})


class ImportedDocument(TypedDict):
    """Result of `import`."""

    file: str
    records: int
    added: int
    unsigned: int
    diverged: list[str]


def import_pack(
    engine: Engine,
    file: File,
    *,
    trust: bool = False,
    allow_secrets: bool = False,
    progress: Progress | None = None,
) -> ImportedDocument:
    """Take in a pack.

    It is checked whole, then journalled and stored; what is known already is left. Computed
    results are taken where the team's key vouches for them; with `trust` others are used here
    too, and given to nobody. Secrets are refused in what was written, and masked in what was
    generated.
    """
    frames, seal = engine.frames, _seal(engine.frames)
    begin(progress, "checking the pack", "records")
    everything = [
        checked(engine.algorithm, record)
        for record in counted(_body_of(file, engine.algorithm.name), progress)
    ]
    records = []
    unsigned = 0
    for record in everything:
        if record["kind"] in RESULTS:
            is_vouched = _is_vouched(seal, record)
            # After the seal, which is of the text as it was sent.
            _mask(record)
            if not is_vouched:
                unsigned += 1
                if not trust:
                    continue
                record[UNVOUCHED] = True
        elif not allow_secrets:
            check_secrets(PackContentError, f"{record['kind']} in the pack", record)
        if record["kind"] != SESSION:
            records.append(record)
    sessions, diverged = _fresh_sessions(engine.database, everything)
    _check_authors(frames, everything, sessions)
    check_replaced(frames, records)
    fresh = [r for r in records if not KINDS[r["kind"]].is_known(frames, r)]
    check_rights(frames, fresh)
    durable = [record for record in fresh if record["kind"] != "memo"]
    computed = [record for record in fresh if record["kind"] == "memo"]
    begin(progress, "storing notes and sessions")
    engine.records.write([*durable, *sessions])
    begin(progress, "storing computed results", "records", len(computed))
    for start in range(0, len(computed), GROUP):
        batch = FrameBatch()
        for record in computed[start : start + GROUP]:
            apply_record(frames, record, batch)
        frames.heads.add(batch)
        if progress is not None:
            progress(len(computed[start : start + GROUP]))
    return {
        "file": str(file),
        "records": len(everything),
        "added": len(fresh) + len(sessions),
        "unsigned": 0 if trust else unsigned,
        "diverged": diverged,
    }


def check_rights(frames: Frames, records: Sequence[JsonObject]) -> None:
    """Refuse notes by nobody; what their authors may not write here joins the history only."""
    here = frames.store.agents()
    coming = {record["id"] for record in records if record["kind"] == "agent"}
    for record in records:
        if record["kind"] == "frame":
            author, declared = here.get(record["agent"]), frames.types.get(record["type"])
            if author is None and record["agent"] not in coming:
                raise PackContentError(
                    f"frame {record['frame_id'][:12]} is by {record['agent']}, whom neither the"
                    " pack nor this workspace knows"
                )
            is_kept = declared is not None and not declared.rules.gathers
            if is_kept or (author is not None and "write" not in author.capabilities):
                record["head"] = False


def check_replaced(frames: Frames, records: Sequence[JsonObject]) -> None:
    """Leave out of what notes replace whatever is not a note about the same node."""
    notes = [record for record in records if record["kind"] == "frame"]
    places = {record["frame_id"]: record["path"] for record in notes}
    named = (bytes.fromhex(one) for record in notes for one in record.get(REPLACES, ()))
    for identity, state in frames.store.note_states(map(FrameId, named)).items():
        places[identity.hex()] = state.key[0]
    for record in notes:
        listed = record.pop(REPLACES, ())
        if kept := [one for one in listed if places.get(one) == record["path"]]:
            record[REPLACES] = kept


def _check_authors(
    frames: Frames, everything: Sequence[JsonObject], sessions: Sequence[JsonObject]
) -> None:
    """Refuse sessions by authors whom nobody knows, as notes by them are refused."""
    known = {*frames.store.agents(), *(r["id"] for r in everything if r["kind"] == "agent")}
    for session in sessions:
        for record in session["records"]:
            if record.get("author") not in (None, *known):
                raise PackContentError(
                    f"session {session['name']!r} has records by {record['author']!r}, whom neither"
                    " the pack nor this workspace knows"
                )


def _mask(record: dict[str, Any]) -> None:
    """Do to a generated text what is done to those that are made here."""
    body = mask(record["body"])
    if body != record["body"]:
        record |= {"body": body, "content": body_hash(body).hex()}


def _fresh_sessions(
    database: Database, records: Sequence[dict[str, Any]]
) -> tuple[list[JsonObject], list[str]]:
    packed = [record for record in records if record["kind"] == SESSION]
    if not packed:
        return [], []
    # Imported late: most packs have no session.
    from indexer.engine.sessions.packs import plan_sessions

    try:
        return plan_sessions(SessionStore(database), packed)
    except UNFIT as error:
        raise PackContentError(f"a session does not hold: {said_by(error)}") from error


def _body_of(file: Path, hash_name: str) -> Iterator[dict[str, Any]]:
    records = read_pack(file)
    head = next(records, None)
    if head is None or head.get("kind") != "pack":
        raise PackContentError(f"{file} is not a pack", hint="packs are made by `merkle export`")
    if head.get("format") != PACK_FORMAT:
        raise PackContentError(
            f"{file} has pack format {head.get('format')}", hint="upgrade merkle"
        )
    if head.get("hash") != hash_name:
        raise PackContentError(
            f"{file} was made under {head.get('hash')}; this workspace uses {hash_name}",
            hint="packs go between workspaces with the same hash",
        )
    yield from records
