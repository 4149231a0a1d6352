"""What a database still knows of things that only the journal should have to keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from indexer.core.hashing import WorkspaceHash
from indexer.engine.documents import JsonObject
from indexer.engine.transfer import (
    agent_records,
    check_memo,
    check_note,
    model_records,
    note_records,
)
from indexer.errors import MerkleError
from indexer.store.database import Database
from indexer.store.frames import FrameStore
from indexer.store.layout import Layout


def missing_records(
    layout: Layout, algorithm: WorkspaceHash, kept: Iterable[Mapping[str, Any]]
) -> list[JsonObject]:
    """What the database has of agents, notes and models, and a journal of these would lose.

    Nothing when the database cannot be read. Each note is taken only if its id follows from it.
    """
    if not layout.database.exists():
        return []
    records = list(kept)
    agents = {record["id"] for record in records if record["kind"] == "agent"}
    frames = {record["frame_id"] for record in records if record["kind"] == "frame"}
    paid = {record["key"] for record in records if record["kind"] == "model"}
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
    except MerkleError:
        pass
    finally:
        database.close()
    return found


def _holds(algorithm: WorkspaceHash, record: JsonObject) -> bool:
    try:
        if record["kind"] == "model":
            check_memo(record)
        else:
            check_note(algorithm, record)
    except (MerkleError, KeyError, TypeError, ValueError, StopIteration):
        return False
    return True
