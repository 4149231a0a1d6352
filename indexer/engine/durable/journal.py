"""What cannot be recomputed goes to the journal first, then to the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from indexer.core.frames import BodyHash, MemoKey
from indexer.engine.documents import JsonObject
from indexer.engine.frames.notes import apply_frame
from indexer.engine.late import LateModule
from indexer.errors import CorruptError
from indexer.store.frames import Agent, FrameBatch, ModelResult
from indexer.store.journal import Journal

if TYPE_CHECKING:
    from indexer.engine.search import manifests
    from indexer.engine.workspace import Engine
else:
    # With the composing that most commands have nothing to do with.
    manifests = LateModule("indexer.engine.search.manifests")


_TOGETHER: Final = 500
"""Records redone in one transaction."""


DUE: Final = "due"
"""Marks a record of a result that the team was to be given when it was written."""


class JournalBehindError(CorruptError):
    """The database knows of records that the journal does not have."""

    code = "journal_behind"


def open_journal(engine: Engine) -> tuple[Journal, int]:
    """Open the journal and bring the database up to it; also tells how many records it lacked."""
    applied = engine.frames.journal_number()
    journal = engine.journal_at_hand or Journal.open(engine.layout.journal, applied=applied)
    if journal.last < applied:
        _let_go(engine, journal)
        raise JournalBehindError(
            f"the journal ends at record {journal.last}, the database has applied {applied}",
            hint="run `merkle repair`; it keeps both and says what is gone",
        )
    if journal.last == 0:
        journal.append([_format_record(engine)])
    redone = 0
    if journal.last > applied:
        try:
            redone = redo(engine, journal, applied)
        except BaseException:
            _let_go(engine, journal)
            raise
    engine.journal_at_hand = None
    engine.framing.applied = journal.last
    return journal, redone


def _let_go(engine: Engine, journal: Journal) -> None:
    """Close a journal, unless it is what answers go to while the database fails."""
    if journal is not engine.journal_at_hand:
        journal.close()


def _format_record(engine: Engine) -> JsonObject:
    return {"kind": "format", "format": engine.format.version, "hash": engine.algorithm.name}


def redo(engine: Engine, journal: Journal, applied: int) -> int:
    """Apply the records that the database does not have yet; returns how many."""
    count, records = 0, journal.records(after=applied)
    while group := list(islice(records, _TOGETHER)):
        batch = FrameBatch()
        for number, record in group:
            apply_record(engine, record, batch)
            batch.journal_number = number
        _keep(engine, batch)
        count += len(group)
    return count


def catch_up_with_journal(engine: Engine) -> None:
    """Redo what an earlier write brought into the journal and not into the database."""
    if engine.framing.applied == engine.journal.last:
        return
    applied = engine.frames.journal_number()
    if applied < engine.journal.last:
        redo(engine, engine.journal, applied)


def journal_and_apply(engine: Engine, records: Sequence[JsonObject]) -> None:
    """Make records durable, then store what they say; every refusal comes before this."""
    if not records:
        return
    catch_up_with_journal(engine)
    batch = FrameBatch()
    for record in records:
        apply_record(engine, record, batch)
    batch.journal_number = engine.journal.append(records)
    _keep(engine, batch)


def apply_journalled(engine: Engine, records: Sequence[JsonObject]) -> None:
    """Store what the last records of the journal say, and whatever else it is ahead by."""
    before = engine.journal.last - len(records)
    if not records or engine.framing.applied != before:
        catch_up_with_journal(engine)
        return
    batch = FrameBatch()
    for record in records:
        apply_record(engine, record, batch)
    batch.journal_number = engine.journal.last
    _keep(engine, batch)


def _keep(engine: Engine, batch: FrameBatch) -> None:
    """Store a batch; sessions change in memory only now that the journal has their records."""
    # Not known until the transaction is through.
    engine.framing.applied = None
    if batch.session_records:
        with engine.framing.desk.applying(batch):
            engine.shelf.keep(batch)
    else:
        engine.shelf.keep(batch)
    engine.framing.applied = batch.journal_number


def apply_record(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    """Put one record into a batch."""
    apply = _APPLY.get(record["kind"])
    if apply is None:
        raise CorruptError(
            f"the journal has a record of unknown kind {record['kind']!r}",
            hint="it was written by a later release: upgrade merkle",
        )
    apply(engine, record, batch)


def _apply_format(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    if record["hash"] != engine.algorithm.name:
        raise CorruptError(
            f"the journal was written under {record['hash']}, this workspace uses"
            f" {engine.algorithm.name}",
            hint="restore .merkle/format.json",
        )


def _apply_agent(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    batch.agents.append(Agent(record["id"], record["role"], tuple(record["can"])))


def _apply_invalidation(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    for key, generation in record["keys"].items():
        batch.memo[MemoKey(bytes.fromhex(key))] = (generation, None)
    for path, frame_type, agent in record["heads"]:
        head = engine.shelf.head(path, frame_type, agent)
        if head is not None:
            batch.heads[(path, frame_type, agent)] = head._replace(verified=None)


def _apply_memo(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    content = BodyHash(bytes.fromhex(record["content"]))
    key = MemoKey(bytes.fromhex(record["key"]))
    generation, known = batch.memo.get(key, engine.shelf.memo(key))
    # The highest generation wins, in whatever order records come.
    if record["generation"] > generation or (record["generation"] == generation and not known):
        batch.memo[key] = (record["generation"], content)
    batch.bodies[content] = record["body"]
    if record.get(DUE):
        # Redone after a loss, it may have reached the team since; the next push finds out.
        batch.due.append((key, record["generation"]))


def _apply_model(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    """A memo entry that was paid for."""
    _apply_memo(engine, record, batch)
    content = BodyHash(bytes.fromhex(record["content"]))
    meta = json.dumps(record["meta"], sort_keys=True, ensure_ascii=False)
    key = MemoKey(bytes.fromhex(record["key"]))
    known = batch.models.get(key) or engine.shelf.model(key)
    if known is None or known.generation < record["generation"]:
        batch.models[key] = ModelResult(record["generation"], content, meta)


def _apply_manifest(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    manifests.apply_manifest(engine, record, batch)


def _apply_session(engine: Engine, record: JsonObject, batch: FrameBatch) -> None:
    batch.session_records.append(record)


_APPLY: Final[dict[str, Callable[[Engine, JsonObject, FrameBatch], None]]] = {
    "format": _apply_format,
    "agent": _apply_agent,
    "frame": apply_frame,
    "invalidate": _apply_invalidation,
    "memo": _apply_memo,
    "model": _apply_model,
    "manifest": _apply_manifest,
    "session": _apply_session,
}
