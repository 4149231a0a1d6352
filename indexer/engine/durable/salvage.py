"""What a database still knows of things that only the journal should have to keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indexer.compose.manifest import ManifestProblem
from indexer.core.hashing import WorkspaceHash
from indexer.engine.documents import JsonObject
from indexer.engine.durable.journal import DUE
from indexer.engine.durable.packs import (
    SESSION,
    agent_records,
    check_memo,
    check_note,
    due_records,
    model_records,
    note_records,
)
from indexer.engine.late import LateModule
from indexer.engine.search.manifests import check_manifest, manifest_records
from indexer.errors import MerkleError
from indexer.store.database import Database
from indexer.store.frames import FrameStore
from indexer.store.layout import Layout
from indexer.store.sessions import SessionStore
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.sessions import packs as session_packs
else:
    session_packs = LateModule("indexer.engine.sessions.packs")


def missing_records(
    layout: Layout, algorithm: WorkspaceHash, kept: Iterable[Mapping[str, Any]]
) -> list[JsonObject]:
    """What the database has of agents, notes, models and manifests, and the kept records lack.

    Nothing when the database cannot be read. Each note is taken only if its id follows from it.
    """
    if not layout.database.exists():
        return []
    records = list(kept)
    agents = {record["id"] for record in records if record["kind"] == "agent"}
    frames = {record["frame_id"] for record in records if record["kind"] == "frame"}
    paid = {record["key"] for record in records if record["kind"] == "model"}
    manifests = {record["id"] for record in records if record["kind"] == "manifest"}
    found: list[JsonObject] = []
    try:
        database = Database(layout.database)
    except MerkleError:
        return []
    try:
        store = FrameStore(database)
        found += [record for record in agent_records(store) if record["id"] not in agents]
        found += [
            record
            for record in note_records(store)
            if record["frame_id"] not in frames and _holds(algorithm, record)
        ]
        found += [
            record
            for record in model_records(store)
            if record["key"] not in paid and _holds(algorithm, record)
        ]
        found += [
            record
            for record in manifest_records(store)
            if record["id"] not in manifests and _can_be_replayed(record)
        ]
    except MerkleError:
        # What was read before the damage counts.
        pass
    finally:
        database.close()
    return found


def due_results(layout: Layout) -> list[JsonObject]:
    """The results that the team is still to be given; none when the database cannot be read."""
    if not layout.database.exists():
        return []
    found: list[JsonObject] = []
    try:
        database = Database(layout.database)
    except MerkleError:
        return []
    try:
        for record in due_records(FrameStore(database), ShareQueue(database)):
            # One that is damaged must not cost those behind it.
            if _is_sound(record):
                found.append(record)
    except MerkleError:
        # What was read before the damage counts.
        pass
    finally:
        database.close()
    return found


def with_due(records: Iterable[JsonObject], due: Iterable[JsonObject]) -> list[JsonObject]:
    """Records that say of themselves what is due, and behind them what none of them holds."""
    waiting = {record["key"]: record for record in due}
    marked = []
    for record in records:
        if record["kind"] == "model" and waiting.pop(record["key"], None) is not None:
            record = {**record, DUE: True}
        marked.append(record)
    return [*marked, *waiting.values()]


def settled_sessions(
    layout: Layout, kept: Sequence[JsonObject]
) -> tuple[list[JsonObject], list[JsonObject], list[str]]:
    """Kept records, those to add behind them, and what is gone, so that every session is whole."""
    stored: dict[str, list[JsonObject]] = {}
    if layout.database.exists():
        try:
            database = Database(layout.database)
        except MerkleError:
            database = None
        if database is not None:
            try:
                store = SessionStore(database)
                stored = session_packs.stored_logs(store) if store.names() else {}
            except (MerkleError, ValueError):
                stored = {}
            finally:
                database.close()
    if not stored and not any(record["kind"] == SESSION for record in kept):
        return list(kept), [], []
    return session_packs.settle_sessions(kept, stored)


def _holds(algorithm: WorkspaceHash, record: JsonObject) -> bool:
    if record["kind"] == "model":
        return _is_sound(record)
    try:
        check_note(algorithm, record)
    except (MerkleError, KeyError, TypeError, ValueError, StopIteration):
        return False
    return True


def _is_sound(record: JsonObject) -> bool:
    """Whether a result is what its hash says."""
    try:
        check_memo(record)
    except (MerkleError, KeyError, TypeError, ValueError):
        return False
    return True


def _can_be_replayed(record: JsonObject) -> bool:
    try:
        check_manifest(record)
    except (ManifestProblem, MerkleError, KeyError, TypeError, ValueError):
        return False
    return True
