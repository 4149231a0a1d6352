"""The operations on the team's store as methods of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from indexer.engine.documents import JsonObject
from indexer.engine.late import LateModule

if TYPE_CHECKING:
    from indexer.engine.team import commands as team
    from indexer.engine.workspace import Engine
else:
    team = LateModule("indexer.engine.team.commands")


class SharedMethods:
    """One method per operation; only the engine mixes them in."""

    @property
    def _member(self) -> Engine:
        return cast("Engine", self)

    def shared_status(self) -> JsonObject:
        """Whether the team's store can be reached, and what it holds."""
        return team.shared_status(self._member)

    def shared_push(self, *, progress: Callable[[int], None] | None = None) -> JsonObject:
        """Give the team what it lacks."""
        return team.push(self._member, progress=progress)

    def shared_pull(self, *, progress: Callable[[int], None] | None = None) -> JsonObject:
        """Bring here what the team has."""
        return team.pull(self._member, progress=progress)

    def shared_gc(self, unused_seconds: float, *, dry_run: bool = False) -> JsonObject:
        """Drop from the team's store what nobody has used for so long."""
        return team.sweep(self._member, unused_seconds, dry_run=dry_run)
