"""Keeping declared frames up to date behind the batches, a chunk at a time."""

from __future__ import annotations

from indexer.engine.engine import Engine
from indexer.engine.regeneration import Outcome, Regeneration
from indexer.engine.sharing import PATIENCE_SERVED
from indexer.engine.types import FrameType
from indexer.errors import MerkleError, UsageError


class Maintainer:
    """Regenerates what batches made stale; between two chunks the keeper does everything else."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._passes: list[Regeneration] = []
        self._types: dict[str, FrameType] | None = None
        self.due = False
        """Whether something may be stale."""
        self.problem: str | None = None
        """Why declared frames cannot be kept, when the configuration is wrong."""
        self.generated = 0
        self.reused = 0
        self._version = -1
        """Of the heads, when everything was last made."""

    @property
    def owes(self) -> bool:
        """Whether the team has yet to get what was computed while it could not be reached."""
        exchange = self._engine.framing.exchange if self._types is not None else None
        return exchange is not None and exchange.owes

    def begin(self) -> None:
        """The tree or the configuration moved: plan anew."""
        self.close()
        self.due = True

    def notice_notes(self) -> None:
        """A job may have written what a folder's frame takes in, and no batch tells of it."""
        types = self._types or {}
        if any(one.rules.gathers for one in types.values()) and not self.due:
            self.due = self._engine.shelf.version != self._version

    def step(self) -> None:
        """Make and store one chunk; `due` tells whether there may be more."""
        try:
            self._engine.refresh_types()
        except UsageError as error:
            self.problem, self.due = error.message, False
            return
        self.problem = None
        if self._types is not self._engine.types:
            # Declared anew, perhaps by a file that is ignored and so came with no batch.
            self.close()
            self._types = self._engine.types
        if not self._passes:
            self._passes = [
                Regeneration(
                    self._engine, self._engine.tree, declared, Outcome(), patience=PATIENCE_SERVED
                )
                for declared in self._engine.types.values()
            ]
        while self._passes:
            current = self._passes[0]
            current.outcome = Outcome()
            try:
                more = current.run_some(self._engine.tree)
            except MerkleError:
                raise
            except Exception as error:
                # Frames that cannot be made are no reason to stop watching files.
                self.problem = f"{type(error).__name__}: {error}"
                self.close()
                self.due = False
                return
            events = current.outcome.events
            self.generated += current.outcome.count("generated")
            self.reused += current.outcome.count("reused")
            self._engine.publish_frames(events)
            if more:
                return
            current.close()
            self._passes.pop(0)
        self.due = False
        self._version = self._engine.shelf.version

    def close(self) -> None:
        """End the worker processes."""
        for one in self._passes:
            one.close()
        self._passes = []
