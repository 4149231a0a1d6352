"""The operations on the team's store as methods, for whoever can run an operation by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from indexer.service.frame_commands import Document, Progress


class SharedCommands(ABC):
    """One method per command on the team's store."""

    @abstractmethod
    def operate(self, name: str, progress: Progress | None = None, **arguments: Any) -> Document:
        """Run an operation here, telling how it goes on, or in the service."""

    def shared_status(self) -> Document:
        """Whether the team's store can be reached, and what it holds."""
        return self.operate("shared-status")

    def shared_push(self, *, progress: Progress | None = None) -> Document:
        """Give the team what it lacks."""
        return self.operate("shared-push", progress)

    def shared_pull(self, *, progress: Progress | None = None) -> Document:
        """Bring here what the team has."""
        return self.operate("shared-pull", progress)

    def shared_gc(self, unused_seconds: float, *, dry_run: bool = False) -> Document:
        """Drop from the team's store what nobody has used for so long."""
        return self.operate("shared-gc", unused_seconds=unused_seconds, dry_run=dry_run)
