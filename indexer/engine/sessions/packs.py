"""Sessions in packs, and in what is left of a damaged journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from indexer.engine.documents import JsonObject
from indexer.engine.sessions.write import check_name
from indexer.errors import MerkleError
from indexer.sessions import Session
from indexer.sessions.log import checked_content
from indexer.store.sessions import SessionStore, journalled

KIND: Final = "session"
_PIECE: Final = 4 << 20
"""Characters of one piece of a log: a long session takes several records of a journal or pack."""

Log = list[JsonObject]


def pieces(name: str, records: Sequence[Mapping[str, Any]]) -> Iterator[JsonObject]:
    """A log, or the rest of one, as journal records of bounded size."""
    piece: list[Mapping[str, Any]] = []
    size = 0
    for record in records:
        length = len(json.dumps(record))
        if piece and size + length > _PIECE:
            yield {"kind": KIND, "name": name, "records": piece}
            piece, size = [], 0
        piece.append(record)
        size += length
    if piece:
        yield {"kind": KIND, "name": name, "records": piece}


def stored_logs(store: SessionStore) -> dict[str, Log]:
    """The log of every session that a database has."""
    return {
        name: [dict(record) for record in journalled(store.record_texts(sid))]
        for name, sid in store.names().items()
    }


def session_records(store: SessionStore) -> Iterator[JsonObject]:
    """Every session as a pack has it."""
    for name, sid in store.names().items():
        log = journalled(store.record_texts(sid))
        for record in log:
            if "content" in record:
                checked_content(record["content"], record["content_hash"])
        yield from pieces(name, log)


def check_shape(record: Mapping[str, Any]) -> None:
    """Refuse what cannot be a piece of a session's log."""
    check_name(record["name"])
    records = record["records"]
    if not isinstance(records, list) or not records:
        raise ValueError("a session's records are a list")
    if not all(isinstance(item, dict) and type(item.get("seq")) is int for item in records):
        raise ValueError("a session's records are numbered objects")


def plan_sessions(
    store: SessionStore, packed: Iterable[Mapping[str, Any]]
) -> tuple[list[JsonObject], list[str]]:
    """What of a pack's sessions is new here, and the names of those that went another way.

    A session that is here already, or here and further on, adds nothing; one that is here and
    not as far is brought as far as the pack has it.
    """
    logs: dict[str, Log] = {}
    for record in packed:
        logs.setdefault(record["name"], []).extend(record["records"])
    known = store.names()
    fresh: list[JsonObject] = []
    diverged: list[str] = []
    for name, log in logs.items():
        Session.replay(log)
        here = journalled(store.record_texts(known[name])) if name in known else []
        shared = min(len(here), len(log))
        if here[:shared] != log[:shared]:
            diverged.append(name)
        else:
            fresh += pieces(name, log[shared:])
    return fresh, diverged


def without_unsound(records: Sequence[JsonObject]) -> tuple[list[JsonObject], list[str]]:
    """The records without those of sessions that do not hold, and the names of these."""
    logs: dict[str, Log] = {}
    for record in records:
        if record["kind"] == KIND:
            logs.setdefault(record["name"], []).extend(record["records"])
    unsound = [name for name, log in logs.items() if not _holds(log)]
    return [r for r in records if r["kind"] != KIND or r["name"] not in unsound], unsound


def complete_sessions(
    kept: Sequence[JsonObject], stored: Mapping[str, Log]
) -> tuple[list[JsonObject], list[JsonObject], list[str]]:
    """Make the sessions of a salvaged journal whole again with what a database still has.

    Gives back the records to keep where they are, those to add behind them, and what is gone.
    """
    told: dict[str, dict[int, JsonObject]] = {}
    for record in kept:
        if record["kind"] == KIND:
            mine = told.setdefault(record["name"], {})
            mine.update((item["seq"], item) for item in record["records"])
    rebuilt: set[str] = set()
    added: list[JsonObject] = []
    gone: list[str] = []
    for name in dict.fromkeys((*told, *stored)):
        mine = told.get(name, {})
        log = _longest(mine, stored.get(name, []))
        last = max(mine, default=-1)
        if len(log) <= last:
            gone.append(f"session {name!r} from its record {len(log)} on")
        if list(mine) == list(range(len(mine))) and len(log) >= len(mine):
            added += pieces(name, log[len(mine) :])
        else:
            # Records that have no place any more must not stay where they are.
            rebuilt.add(name)
            added += pieces(name, log)
    staying = [r for r in kept if r["kind"] != KIND or r["name"] not in rebuilt]
    return staying, added, gone


def _longest(mine: Mapping[int, JsonObject], stored: Log) -> Log:
    """The longest log without a gap that holds, from the journal's records and the database's."""
    both = {record["seq"]: record for record in stored} | dict(mine)
    for source in (both, mine):
        log: Log = []
        while len(log) in source:
            log.append(source[len(log)])
        if source is mine or _holds(log):
            return log
    return []


def _holds(log: Log) -> bool:
    try:
        Session.replay(log)
    except (MerkleError, KeyError, TypeError, ValueError):
        return False
    return True
