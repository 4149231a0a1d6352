"""The team as one more memo: what it has is taken over, what it lacks is made by one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.frames import BodyHash, MemoKey
from indexer.core.progress import Progress
from indexer.shared.base import Entry
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.make.item import Item
    from indexer.engine.models.calls import ModelCalls
    from indexer.engine.team.exchange import Exchange

LOOK_AGAIN: Final = 0.5
"""Seconds between two looks at what other machines have got meanwhile."""

FROM_TEAM: Final = {"from": "team"}
"""What is known of an answer that another machine paid for."""


class TeamMemo:
    """What a pass has to do with the team, on the writing thread; nothing where there is none."""

    def __init__(
        self,
        exchange: Callable[[], Exchange | None],
        heads: HeadCache,
        records: Records,
        texts: dict[BodyHash, str],
        *,
        share: bool = True,
        patience: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._exchange_now = exchange
        self._any_exchange: Exchange | None = None
        """The dealings with the team that the settings named when this chunk was begun."""
        self._exchange: Exchange | None = None
        """The dealings with the team, where the type of this pass is shared."""
        self._heads = heads
        self._records = records
        self._texts = texts
        """Bodies that folders above may need before they are stored."""
        self._share = share
        self._patience = patience
        """Seconds to wait for what another machine computes; None: as long as it does."""
        self._progress = progress
        self._looked: dict[MemoKey, float] = {}
        self.told_of = 0
        """Steps of this chunk that were already reported as progress."""
        self.elsewhere: set[str] = set()
        """Paths of this chunk whose results another machine is computing still."""

    def begin(self) -> bool:
        """Begin a chunk; whether there is a team for this type, which settings may change."""
        self.told_of = 0
        self.elsewhere.clear()
        self._any_exchange = self._exchange_now()
        self._exchange = self._any_exchange if self._share else None
        return self.is_asked

    @property
    def is_asked(self) -> bool:
        """Whether there is a team for this type in the chunk that was begun."""
        return self._exchange is not None

    def look_up(self, keys: Collection[MemoKey], into: FrameBatch | None) -> list[MemoKey]:
        """Take what the team has of some keys, in one conversation; the keys of those.

        Results of generators go into a batch. Without one, they are answers of models: paid for
        by somebody, and so journalled here like answers of our own.
        """
        exchange = self._exchange if keys else None
        if exchange is None:
            return []
        entries = exchange.look_up({key: self._heads.memo(key)[0] for key in keys})
        if into is None:
            # Imported late, as below: most workspaces declare no model.
            from indexer.engine.models.calls import Answered
            from indexer.engine.models.intake import paid_records

            self._looked.update(dict.fromkeys(keys, time.monotonic()))
            paid = [Answered(one.key, one.generation, one.body, dict(FROM_TEAM)) for one in entries]
            self._records.write(paid_records(paid, frozenset()))
        else:
            for entry in entries:
                self._take(into, entry)
        return [entry.key for entry in entries]

    def _take(self, batch: FrameBatch, entry: Entry) -> None:
        batch.memo[entry.key] = (entry.generation, entry.content)
        batch.bodies[entry.content] = self._texts[entry.content] = entry.body

    # -- what generators and policies make

    def compute(
        self,
        missing: Mapping[MemoKey, Sequence[Item]],
        batch: FrameBatch,
        compute: Callable[[Iterable[MemoKey]], None],
    ) -> None:
        """Compute what is ours to compute, into the batch, and wait for what others compute."""
        exchange = self._exchange if missing else None
        if exchange is None:
            compute(missing)
            return

        def run(keys: list[MemoKey]) -> list[Entry]:
            compute(keys)
            self._tell_of(sum(len(missing[key]) for key in keys))
            # The exchange stores them before anybody is told of them, so the batch need not.
            made = [(key, batch.memo.pop(key)) for key in keys if key in batch.memo]
            return [
                Entry(key, generation, content, batch.bodies[content])
                for key, (generation, content) in made
                if content is not None
            ]

        wanted = {key: self._heads.memo(key)[0] for key in missing}
        take = partial(self._take, batch)
        for key in exchange.compute_ours(wanted, take, run, self._patience):
            self.elsewhere.update(item.step.path for item in missing[key])

    def _tell_of(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done)
            self.told_of += done

    def waits_below(self, path: str) -> bool:
        """Whether another machine is computing something that this folder is made from."""
        waits = any(paths.is_within(other, path) for other in self.elsewhere)
        if waits:
            self.elsewhere.add(path)
        return waits

    def give_what_is_due(self) -> None:
        """Hand over what could not be handed over before, of any type."""
        if self._any_exchange is not None:
            self._any_exchange.catch_up()

    # -- what models write

    @property
    def gets_answers(self) -> bool | None:
        """Whether the team is given what is answered here; None where there is none."""
        return None if self._exchange is None else not self._exchange.client.member.read_only

    def look_again(self, wanted: Iterable[MemoKey]) -> list[MemoKey]:
        """Look up answers that others may have got since; the keys of those."""
        now = time.monotonic()
        due = [key for key in wanted if now - self._looked.get(key, -LOOK_AGAIN) >= LOOK_AGAIN]
        return self.look_up(due, None)

    def is_ours(self, key: MemoKey, calls: ModelCalls) -> bool | None:
        """Whether this machine is to ask the model; None when the answer has come meanwhile."""
        exchange = self._exchange
        if exchange is None:
            return True
        leased = exchange.lease([key])
        if leased is not None and key not in leased:
            return False
        if leased:
            from indexer.engine.models.intake import let_go

            calls.leases.add(key)
            if self.look_up([key], None):
                let_go(exchange, calls, [key])
                return None
        return True

    def let_go_of_idle(self, calls: ModelCalls) -> None:
        """Give back the leases of questions that are not under way; the others go with them."""
        from indexer.engine.models.intake import let_go

        idle = [key for key in calls.leases if not calls.is_asked(key)]
        let_go(self._exchange_now() if idle else None, calls, idle)

    def wait(self, seconds: float) -> None:
        """Sleep until another machine may have got something."""
        if self._exchange is not None:
            self._exchange.wait(seconds)
