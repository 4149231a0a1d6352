"""Every invariant of sessions: contents, hash chain, and that rows and log say the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from indexer.core.canonical import content_hash
from indexer.engine.documents import Report
from indexer.errors import MerkleError
from indexer.sessions.session import replay_state
from indexer.sessions.state import State
from indexer.sessions.stored import Counters, VersionRow, counters_of, load_state
from indexer.sessions.stored_records import RecordList, RecordRow, row_of
from indexer.store.sessions import SessionStore, StoredSession


def check_sessions(store: SessionStore, error: Report) -> int:
    """Check every session; returns how many there are."""
    for sha256, content in store.all_blobs():
        if not _has_hash(content, sha256):
            error("session_content", "", f"content {sha256[:12]} is not what its hash says")
    names = store.names()
    for sid, name, *_ in names:
        stored = store.load(sid)
        if stored is None:
            error("session_log", "", f"session {name!r} has lost its log")
            continue
        try:
            for problem in _problems(stored):
                error("session_state", "", f"session {name!r}: {problem}")
        except MerkleError as problem:
            error("session_log", "", f"session {name!r}: {problem.message}")
        except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as problem:
            error("session_log", "", f"session {name!r} cannot be read: {problem!r}")
    return len(names)


def _has_hash(content: str, sha256: str) -> bool:
    try:
        return content_hash(json.loads(content)) == sha256
    except (MerkleError, ValueError):
        return False


def _problems(stored: StoredSession) -> list[str]:
    """What of a stored session does not follow from its own log."""
    rows = [RecordRow(*row) for row in stored.records]
    blobs = {sha256: json.loads(content) for sha256, content in stored.blobs.items()}
    records = list(RecordList(rows, blobs))
    found = [
        f"record {row.seq} is not what its fields say"
        for row, record in zip(rows, records, strict=True)
        if row_of(record)[:-1] != row[:-1]
    ]
    replayed = replay_state(records, verify=True)
    head = stored.head
    released = tuple(json.loads(head.released)) if head.released else ()
    counters = Counters(head.working, head.creation_index, head.last_ns, released)
    told = counters_of(replayed)
    if (counters.working, counters.creation_index, counters.last_ns) != (
        told.working,
        told.creation_index,
        told.last_ns,
    ) or set(counters.released) != set(told.released):
        found.append("its counters do not follow from its log")
    loaded = load_state(rows, [VersionRow(*row) for row in stored.versions], blobs, counters)
    wanted, kept = nodes_of(replayed), nodes_of(loaded)
    for key in sorted(wanted.keys() | kept.keys(), key=repr):
        if wanted.get(key) != kept.get(key):
            found.append(f"node {key[0]!r} of cycle {key[1]} is not what its log says")
    return found


def nodes_of(state: State) -> Mapping[tuple[str, int], Any]:
    """Every version of every node, by id and the cycle it came in; an id without any too."""
    found: dict[tuple[str, int], Any] = {}
    for node_id, versions in state.history.ids():
        found[(node_id, -1)] = len(versions)
        for version in versions:
            found[(node_id, version.born)] = version.to_json()
    return found
