"""Taking in what models answered: the journal first, whatever the database does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from indexer.core.frames import MemoKey, body_hash
from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import DUE
from indexer.engine.models.calls import GRACE, Answered, ModelCalls
from indexer.errors import MerkleError
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.team.exchange import Exchange
    from indexer.engine.workspace import Engine


def take_in(engine: Engine, calls: ModelCalls) -> list[Answered]:
    """The one way in for what models answered: these calls' answers, and what else is known.

    Before anything more is asked, what the database missed and what has come for runs that have
    ended is taken in too: it must not be asked for again.
    """
    engine.records.catch_up()
    take_in_left(engine)
    return _take_in(engine, calls)


def _take_in(engine: Engine, calls: ModelCalls) -> list[Answered]:
    """Journal the answers that have come, store them, and give the team its part.

    They are let go of once they are durable: when the journal cannot be written they are here for
    the next attempt, and when only the database fails, the journal has them for its next opening.
    """
    answers = calls.arrived()
    if not answers:
        return []
    shared = [one.key for one in answers if one.body is not None and calls.is_shared(one.key)]
    due = frozenset(key for key in shared if calls.is_due(key))
    records = paid_records(answers, due)
    engine.journal_now(records)
    calls.forget(answers)
    engine.records.apply_appended(records)
    _store_free(engine.frames.heads, answers, due)
    if shared and (exchange := engine.exchange) is not None:
        exchange.give_stored(shared)
    if calls.leases:
        let_go(engine.exchange, calls, [one.key for one in answers])
    return answers


def take_in_left(engine: Engine) -> None:
    """Take in what has come for runs that have ended."""
    for calls in list(engine.in_flight.left):
        _take_in(engine, calls)
        if not calls.under_way:
            engine.in_flight.left.discard(calls)
            calls.close()


def let_go(exchange: Exchange | None, calls: ModelCalls, keys: Iterable[MemoKey]) -> None:
    """Give back the leases of questions that are no longer asked here."""
    held = [key for key in keys if key in calls.leases]
    calls.leases.difference_update(held)
    if held and exchange is not None:
        exchange.let_go(held)


def end(engine: Engine, calls: ModelCalls, deadline: float | None = None) -> None:
    """Ask nothing more; take in what has come, and then what comes.

    Later answers are the service's, where one runs; otherwise they are waited for a little. The
    first thing that went wrong is raised when all has been tried.
    """
    deadline = time.monotonic() + GRACE if deadline is None else deadline
    calls.stop("stopped")
    problem: MerkleError | None = None
    while True:
        try:
            # At once: whatever interrupts the waiting costs nothing that has come.
            _take_in(engine, calls)
        except MerkleError as error:
            problem = problem or error
        if not calls.under_way or engine.in_flight.leave(calls) or not calls.wait_until(deadline):
            break
    if calls not in engine.in_flight.left:
        calls.close()
    if problem is not None:
        raise problem


def paid_records(answers: Sequence[Answered], due: frozenset[MemoKey]) -> list[JsonObject]:
    """The records of what was paid for; `due` says that the team is to be given it."""
    return [
        {
            "kind": "model",
            "key": one.key.hex(),
            "generation": one.generation,
            "content": body_hash(one.body).hex(),
            "body": one.body,
            "meta": one.meta,
            **({DUE: True} if one.key in due else {}),
        }
        for one in answers
        if one.body is not None and one.meta is not None
    ]


def _store_free(heads: HeadCache, answers: Sequence[Answered], due: frozenset[MemoKey]) -> None:
    """What needed no model is only stored."""
    batch = FrameBatch()
    for one in answers:
        if one.body is not None and one.meta is None:
            content = body_hash(one.body)
            batch.bodies[content] = one.body
            batch.memo[one.key] = (one.generation, content)
            if one.key in due:
                batch.due.append((one.key, one.generation))
    if batch:
        heads.add(batch)
