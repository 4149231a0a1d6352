"""What models are being asked now, for as long as the workspace is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from indexer.core.frames import MemoKey

if TYPE_CHECKING:
    from indexer.engine.make.run import Run
    from indexer.engine.models.calls import ModelCalls


class InFlight:
    """Belongs to no store: a database that is opened again must not forget what is under way."""

    def __init__(self) -> None:
        self.claims: dict[MemoKey, ModelCalls] = {}
        """Who asks a model for what; only the writing thread looks here."""
        self.runs: set[Run[Any]] = set()
        """Runs that may have answers under way."""
        self.left: set[ModelCalls] = set()
        """Calls whose run has ended, with answers that are still to be taken in."""
        self.is_hurried = False
        """Whether nobody wants to wait for answers any more."""
        self._wake: Callable[[], None] | None = None

    def serve(self, wake: Callable[[], None] | None) -> None:
        """Let a service be told when an answer comes for a run that has ended; None: no more."""
        self._wake = wake

    def hurry(self) -> None:
        """Wait for no answer any more, on any thread; those that have come are taken in."""
        self.is_hurried = True
        for calls in {*list(self.claims.values()), *list(self.left)}:
            calls.wake()

    def tell(self) -> None:
        """Wake the service, because an answer came for a run that has ended."""
        if self._wake is not None:
            self._wake()

    def leave(self, calls: ModelCalls) -> bool:
        """Hand over calls that are under way to the service; False where there is none."""
        if self._wake is None:
            return False
        self.left.add(calls)
        # An answer may have come just before.
        self._wake()
        return True
