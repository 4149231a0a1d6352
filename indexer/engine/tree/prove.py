"""`prove`: the inclusion proof of a node of the recorded tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.core.proofs import prove
from indexer.engine.documents import JsonObject
from indexer.engine.tree.resolve import UnknownNodeError, resolve_node
from indexer.errors import UncheckedError

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


def prove_node(engine: Engine, node: str) -> JsonObject:
    """The proof that the newest recorded root holds a node."""
    if engine.trees.head() is None:
        raise UncheckedError("nothing has been recorded yet", hint="run `merkle scan` first")
    # One tree throughout: the service may put the next one in its place meanwhile.
    tree = engine.tree
    found = resolve_node(engine, node)
    if found["superseded"] or tree.get(found["path"]) is None:
        raise UnknownNodeError(
            "that is the id of an earlier state", hint="name the node by its path"
        )
    return prove(tree, found["path"])
