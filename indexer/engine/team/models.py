"""A pass over a type that models write, in a team: nobody pays for what another has paid for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from indexer.core.frames import MemoKey
from indexer.engine.models.calls import Answered, ModelCalls
from indexer.engine.models.intake import let_go, paid_records

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.team.exchange import Exchange
    from indexer.engine.workspace import Engine

LOOK_AGAIN: Final = 0.5
"""Seconds between two looks at what other machines have got meanwhile."""

FROM_TEAM: Final = {"from": "team"}
"""What is known of an answer that another machine paid for."""


def take_paid(
    exchange: Exchange, heads: HeadCache, records: Records, keys: list[MemoKey]
) -> list[MemoKey]:
    """Take what the team has of some answers, in one conversation; the keys of those."""
    if not keys:
        return []
    entries = exchange.look_up({key: heads.memo(key)[0] for key in keys})
    # Paid for by somebody: journalled here like an answer of our own.
    found = [Answered(one.key, one.generation, one.body, dict(FROM_TEAM)) for one in entries]
    records.write(paid_records(found, frozenset()))
    return [one.key for one in entries]


class ModelTeam:
    """Look-ups and leases for answers of models, on the writing thread."""

    def __init__(self, engine: Engine, calls: ModelCalls, *, share: bool) -> None:
        self._engine = engine
        self._calls = calls
        self._share = share
        self._looked: dict[MemoKey, float] = {}

    @property
    def _exchange(self) -> Exchange | None:
        return self._engine.exchange if self._share else None

    @property
    def is_on(self) -> bool:
        """Whether there is a team at all."""
        return self._exchange is not None

    @property
    def gets_answers(self) -> bool | None:
        """Whether the team is given what is answered here; None where there is none."""
        return None if self._exchange is None else not self._exchange.client.member.read_only

    def fetch(self, wanted: Iterable[MemoKey]) -> list[MemoKey]:
        """Take what the team has of some answers, in one conversation; the keys of those."""
        exchange, now = self._exchange, time.monotonic()
        if exchange is None:
            return []
        due = [key for key in wanted if now - self._looked.get(key, -LOOK_AGAIN) >= LOOK_AGAIN]
        self._looked.update(dict.fromkeys(due, now))
        return self._take_paid(exchange, due)

    def is_ours(self, key: MemoKey) -> bool | None:
        """Whether this machine is to ask the model; None when the answer has come meanwhile."""
        exchange = self._exchange
        if exchange is None:
            return True
        leased = exchange.lease_for_long([key])
        if leased is not None and key not in leased:
            return False
        if leased:
            self._calls.leases.add(key)
            if self._take_paid(exchange, [key]):
                let_go(exchange, self._calls, [key])
                return None
        return True

    def _take_paid(self, exchange: Exchange, keys: list[MemoKey]) -> list[MemoKey]:
        return take_paid(exchange, self._engine.frames.heads, self._engine.records, keys)

    def wait(self, seconds: float) -> None:
        """Sleep until another machine may have got something."""
        if self._exchange is not None:
            self._exchange.wait(seconds)

    def close(self) -> None:
        """Give back the leases of questions that are not under way; the others go with them."""
        idle = [key for key in self._calls.leases if not self._calls.is_asked(key)]
        let_go(self._exchange, self._calls, idle)
