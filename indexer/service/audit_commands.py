"""Lock, proofs and reports as methods, for whoever can run an operation by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from indexer.engine.documents import JsonObject
from indexer.service.frame_commands import Progress


class AuditCommands(ABC):
    """One method per command."""

    @abstractmethod
    def operate(self, name: str, progress: Progress | None = None, **arguments: Any) -> JsonObject:
        """Run an operation here, telling how it goes on, or in the service."""

    @abstractmethod
    def init(self, hash_name: str | None = None) -> JsonObject:
        """Make the workspace's own folder; harmless to repeat."""

    def lock(self) -> JsonObject:
        """Bring the index up to date and write merkle.lock."""
        self.init()
        return self.operate("lock")

    def prove(self, node: str) -> JsonObject:
        """The proof that the recorded root holds a node; sha256 workspaces only."""
        return self.operate("prove", node=node)

    def report(self, base: str | None = None) -> JsonObject:
        """Root, coverage, freshness, changes since a base root, and a map of the tree."""
        return self.operate("report", base=base)
