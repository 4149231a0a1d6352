"""One chunk of a regeneration in a team: who computes what, and what comes from whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.frames import BodyHash, MemoKey
from indexer.shared.base import Entry
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.make.item import Item
    from indexer.engine.team.exchange import Exchange


class TeamChunk:
    """Gets the results of one chunk with the team, into the chunk's batch."""

    def __init__(
        self,
        exchange: Exchange,
        generation: Callable[[MemoKey], int],
        bodies: dict[BodyHash, str],
        patience: float | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._exchange = exchange
        self._generation = generation
        self._bodies = bodies
        self._patience = patience
        self._progress = progress
        self.told_of = 0
        """Steps that whoever watches knows to be done."""
        self.elsewhere: set[str] = set()
        """Paths whose results another machine is computing still."""

    def get_or_compute(
        self,
        waiting: Mapping[MemoKey, Sequence[Item]],
        batch: FrameBatch,
        compute: Callable[[list[MemoKey]], None],
    ) -> dict[MemoKey, BodyHash]:
        """The results that others had; `compute` leaves its own in the batch."""
        taken: dict[MemoKey, BodyHash] = {}

        def take(entry: Entry) -> None:
            batch.memo[entry.key] = (entry.generation, entry.content)
            batch.bodies[entry.content] = self._bodies[entry.content] = entry.body
            taken[entry.key] = entry.content

        def run(keys: list[MemoKey]) -> list[Entry]:
            compute(keys)
            self._tell_of(sum(len(waiting[key]) for key in keys))
            # The exchange stores them before anybody is told of them, so the batch need not.
            made = [(key, batch.memo.pop(key)) for key in keys if key in batch.memo]
            return [
                Entry(key, generation, content, batch.bodies[content])
                for key, (generation, content) in made
                if content is not None
            ]

        wanted = {key: self._generation(key) for key in waiting}
        for key in self._exchange.get_or_compute(wanted, take, run, self._patience):
            self.elsewhere.update(item.path for item in waiting[key])
        return taken

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
