"""Taking in what models answered: the journal first, whatever the database does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.core.frames import MemoKey, body_hash
from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import DUE
from indexer.engine.models.calls import GRACE, Answered, ModelCalls
from indexer.errors import MerkleError
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.models.in_flight import InFlight
    from indexer.engine.team.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Intake:
    """The one way in for what models answered.

    What is open may be opened again while answers are under way, so it is asked for each time.
    """

    _in_flight: InFlight
    _journal_now: Callable[[Sequence[JsonObject]], None]
    _records: Callable[[], Records]
    _exchange: Callable[[], Exchange | None]

    def take_in(self, calls: ModelCalls) -> list[Answered]:
        """Take in these calls' answers, and what else is known.

        Before anything more is asked, what the database missed and what has come for runs that
        have ended is taken in too: it must not be asked for again.
        """
        self._records().catch_up()
        self.take_in_left()
        return self._take_in(calls)

    def _take_in(self, calls: ModelCalls) -> list[Answered]:
        """Journal the answers that have come, store them, and give the team its part.

        They are let go of once they are durable: when the journal cannot be written they are here
        for the next attempt, and when only the database fails, the journal has them for its next
        opening.
        """
        answers = calls.arrived()
        if not answers:
            return []
        shared = [one.key for one in answers if one.body is not None and calls.is_shared(one.key)]
        due = frozenset(key for key in shared if calls.is_due(key))
        records = paid_records(answers, due)
        self._journal_now(records)
        calls.forget(answers)
        self._records().apply_appended(records)
        _store_free(self._records().frames.heads, answers, due)
        if shared and (exchange := self._exchange()) is not None:
            exchange.give_stored(shared)
        if calls.leases:
            let_go(self._exchange(), calls, [one.key for one in answers])
        return answers

    def take_in_left(self) -> None:
        """Take in what has come for runs that have ended."""
        for calls in list(self._in_flight.left):
            self._take_in(calls)
            if not calls.under_way:
                self._in_flight.left.discard(calls)
                calls.close()

    def end(self, calls: ModelCalls, deadline: float | None = None) -> None:
        """Ask nothing more; take in what has come, and then what comes.

        Later answers are the service's, where one runs; otherwise they are waited for a little.
        The first thing that went wrong is raised when all has been tried.
        """
        deadline = time.monotonic() + GRACE if deadline is None else deadline
        calls.stop("stopped")
        problem: MerkleError | None = None
        while True:
            try:
                # At once: whatever interrupts the waiting costs nothing that has come.
                self._take_in(calls)
            except MerkleError as error:
                problem = problem or error
            waits = calls.under_way and not self._in_flight.leave(calls)
            if not waits or not calls.wait_until(deadline):
                break
        if calls not in self._in_flight.left:
            calls.close()
        if problem is not None:
            raise problem


def let_go(exchange: Exchange | None, calls: ModelCalls, keys: Iterable[MemoKey]) -> None:
    """Give back the leases of questions that are no longer asked here."""
    held = [key for key in keys if key in calls.leases]
    calls.leases.difference_update(held)
    if held and exchange is not None:
        exchange.let_go(held)


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
