"""Sessions as a person keeps them: their log, branches, names, and what becomes of old ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core.arguments import Count
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.write import check_name
from indexer.sessions import CommitRecord, Session
from indexer.sessions.content import text_of
from indexer.sessions.merging import Merged, merge
from indexer.sessions.node import iso_of
from indexer.sessions.records import Record
from indexer.sessions.session import replay_state
from indexer.sessions.stored_records import RecordList

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

SHOWN: Final = 50
"""Records that `log` gives unless told otherwise."""

PREVIEW: Final = 200
"""Characters of a content that `log` gives."""

_FIGURES: Final = (
    "id", "target", "priority", "reason", "parent", "offset", "ttl", "attributes", "cycle",
    "attempt_id", "status", "provider", "model", "error", "of", "name", "from", "to", "turns",
    "conflicts", "budget",
)  # fmt: skip


class SessionLogDocument(TypedDict):
    """Result of `session log`."""

    name: str
    total: int
    records: list[JsonObject]


def log(
    engine: Engine, name: str, *, limit: Count | None = None, before: Count | None = None
) -> SessionLogDocument:
    """What was done to a session, newest first: by whom, when and why.

    `before` goes on with the records that are older than that number.
    """

    def look(session: Session) -> SessionLogDocument:
        records = session.state.records
        end = len(records) if before is None else min(before, len(records))
        begin = max(0, end - (SHOWN if limit is None else limit))
        shown = [_told(session, records[seq]) for seq in range(end - 1, begin - 1, -1)]
        return {"name": name, "total": len(records), "records": shown}

    return engine.sessions.read(name, look)


def _told(session: Session, record: Record) -> JsonObject:
    head = {"seq": record.seq, "at": iso_of(record.at_ns), "author": record.author}
    if isinstance(record, CommitRecord):
        said = text_of(session.state.log.content(record))
        return {
            **head,
            "op": record.operation if record.placed or not record.reply_to else "replace",
            "id": record.node_id,
            "commit": record.commit_hash,
            "type": record.content_type,
            "reply_to": record.reply_to,
            "message": record.message,
            "tokens": record.token_count,
            "text": said if len(said) <= PREVIEW else said[: PREVIEW - 1] + "…",
        }
    figures: dict[str, Any] = {key: record.data[key] for key in _FIGURES if key in record.data}
    node = record.data.get("node")
    if isinstance(node, Mapping):
        figures["id"] = node["id"]
    return {**head, "op": record.op, **figures}


class ForkedDocument(TypedDict):
    """Result of `session fork`."""

    name: str
    of: str
    cycle: int
    records: int
    left_out: int


def fork(
    engine: Engine, name: str, new: str, *, at: str | None = None, agent: str | None = None
) -> ForkedDocument:
    """Begin a session that shares another one's log up to a snapshot.

    Without one it is the last commit; `@w` takes the work in progress along. Neither sees what
    the other does from then on, until one is merged.
    """
    check_name(new)
    author = engine.sessions.author(agent)
    engine.sessions.check_free(new)

    def share(session: Session) -> tuple[RecordList, int]:
        shared = session.shared(at)
        return shared, len(session.state.records) - len(shared)

    shared, left_out = engine.sessions.read(name, share)
    made = engine.sessions.session_of(replay_state(shared, verify=False))
    made.branch_off(name, new, author)
    kept = engine.sessions.create(new, made, of=name)
    return {
        "name": new,
        "of": name,
        "cycle": kept.cycle,
        "records": len(kept.state.records),
        "left_out": left_out,
    }


class NamedDocument(TypedDict):
    """Result of `session rename`, `delete` and `restore`."""

    name: str
    was: str


def rename(engine: Engine, name: str, new: str, *, agent: str | None = None) -> NamedDocument:
    """Call a session something else; its ids stay what they are."""
    engine.sessions.rename(name, check_name(new), engine.sessions.author(agent))
    return {"name": new, "was": name}


def delete(engine: Engine, name: str, *, agent: str | None = None) -> NamedDocument:
    """Take a session away.

    Its name is free again, and `session restore` brings it back until `compact` is asked for.
    """
    engine.sessions.delete(name, engine.sessions.author(agent))
    return {"name": name, "was": name}


def restore(
    engine: Engine, name: str, *, new: str | None = None, agent: str | None = None
) -> NamedDocument:
    """Bring back the session that was deleted last under a name, as another one on request."""
    author = engine.sessions.author(agent)
    to = engine.sessions.restore(name, None if new is None else check_name(new), author)
    return {"name": to, "was": name}


class MergedDocument(TypedDict):
    """Result of `session merge`."""

    name: str
    of: str
    turns: int
    cycle: int
    left: int
    conflicts: list[JsonObject]
    checked_only: bool


def merge_sessions(
    engine: Engine, name: str, other: str, *, check: bool = False, agent: str | None = None
) -> MergedDocument:
    """Append the sealed turns of a branch, in their order, and tell every conflict.

    What both sides changed is what the branch says, being later. With `check` it is only told.
    """
    author = engine.sessions.author(agent)
    sessions = engine.sessions
    branch = sessions.apart(other)
    if check:
        here = sessions.apart(name)
        return _merged(here, merge(here, branch, other), name, other, check)
    return sessions.write_several(
        name,
        lambda here: _merged(here, merge(here, branch, other), name, other, check),
        lambda here, last: _merged(
            here, Merged.recorded(here.state.records[last]), name, other, check
        ),
        author,
    )


def _merged(here: Session, done: Merged, name: str, other: str, check: bool) -> MergedDocument:
    return {
        "name": name,
        "of": other,
        "turns": done.turns,
        "cycle": here.cycle,
        "left": done.left,
        "conflicts": [dict(conflict) for conflict in done.conflicts],
        "checked_only": check,
    }
