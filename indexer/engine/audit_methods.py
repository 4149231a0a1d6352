"""Lock, proofs and reports as methods of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from indexer.engine.documents import JsonObject
from indexer.engine.late import LateModule

if TYPE_CHECKING:
    from indexer.engine.tree import lock as locking
    from indexer.engine.tree import prove as proving
    from indexer.engine.tree import report
    from indexer.engine.workspace import Engine
else:
    locking = LateModule("indexer.engine.tree.lock")
    proving = LateModule("indexer.engine.tree.prove")
    report = LateModule("indexer.engine.tree.report")


class AuditMethods:
    """One method per operation; only the engine mixes them in."""

    def lock(self) -> JsonObject:
        """Write merkle.lock."""
        return locking.write_lock(cast("Engine", self))

    def prove(self, node: str) -> JsonObject:
        """The proof that the recorded root holds a node."""
        return proving.prove_node(cast("Engine", self), node)

    def report(self, base: str | None = None) -> JsonObject:
        """Root, coverage, freshness, changes since a base root, and a map."""
        return report.report_document(cast("Engine", self), base)
