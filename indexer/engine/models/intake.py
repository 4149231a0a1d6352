"""Taking in what models answered: the journal first, whatever the database does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from indexer.core.frames import MemoKey, body_hash
from indexer.engine.documents import JsonObject
from indexer.engine.durable.journal import DUE, apply_journalled
from indexer.engine.models.calls import GRACE, Answered, ModelCalls
from indexer.errors import MerkleError
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


def take_in(engine: Engine, calls: ModelCalls) -> list[Answered]:
    """Journal the answers that have come, store them, and give the team its part.

    They are let go of once they are durable: when the journal cannot be written they are here for
    the next attempt, and when only the database fails, the journal has them for its next opening.
    """
    answers = calls.arrived()
    if not answers:
        return []
    shared = [one.key for one in answers if one.body is not None and calls.is_shared(one.key)]
    due = frozenset(key for key in shared if calls.is_due(key))
    journalled = engine.journal_now(_paid(answers, due))
    calls.settle(answers)
    apply_journalled(engine, journalled)
    _store_free(engine, answers, due)
    if shared and (exchange := engine.framing.exchange) is not None:
        exchange.give_stored(shared)
    let_go(engine, calls, [one.key for one in answers])
    return answers


def take_in_left(engine: Engine) -> None:
    """The same for calls whose runs have ended, before anything more is asked."""
    for calls in list(engine.asked.left):
        take_in(engine, calls)
        if not calls.under_way:
            engine.asked.left.discard(calls)
            calls.close()


def keep_answers(engine: Engine, answers: Sequence[Answered]) -> None:
    """Journal answers that others paid for, and store them."""
    engine.journal_and_apply(_paid(answers, frozenset()))


def let_go(engine: Engine, calls: ModelCalls, keys: Iterable[MemoKey]) -> None:
    """Give back the leases of questions that are no longer asked here."""
    held = [key for key in keys if key in calls.leases]
    calls.leases.difference_update(held)
    if held and (exchange := engine.framing.exchange) is not None:
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
            take_in(engine, calls)
        except MerkleError as error:
            problem = problem or error
        if not calls.under_way or engine.asked.leave(calls) or not calls.wait_until(deadline):
            break
    if calls not in engine.asked.left:
        calls.close()
    if problem is not None:
        raise problem


def _paid(answers: Sequence[Answered], due: frozenset[MemoKey]) -> list[JsonObject]:
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


def _store_free(engine: Engine, answers: Sequence[Answered], due: frozenset[MemoKey]) -> None:
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
        engine.shelf.keep(batch)
