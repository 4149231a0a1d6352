"""What a change of a session tells those who follow it as a C-Tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from indexer.engine.sessions.ctrees import node_row, tree
from indexer.engine.workspace import Engine
from indexer.sessions import Session

NODE: Final = "ctree_node"
SNAPSHOT: Final = "ctree_snapshot"

MOST: Final = 2_000
"""Blocks of a session whose stages are told with a snapshot; of a longer one, ask for them."""


def ctree_events(engine: Engine, name: str, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A `ctree_node` for each block that came, and a `ctree_snapshot` for a cycle that was sealed.

    What came is told by the document of the operation that did it.
    """
    ids = list(document.get("ids", ()))
    if "commit" in document:
        ids.append(document["id"])
    ids += [item["id"] for item in document.get("items", ())]
    sealed = "turn" in document or "origin" in document
    if not ids and not sealed:
        return []

    def look(session: Session) -> tuple[list[dict[str, Any]], int, int]:
        found = (session.block(node_id) for node_id in ids)
        rows = [node_row(item) for item in found if item is not None]
        return rows, session.cycle, len(session.state.live.blocks)

    rows, cycle, blocks = engine.sessions.read(name, look)
    events: list[dict[str, Any]] = [{"event": NODE, "session": name, "node": row} for row in rows]
    if sealed:
        payload: dict[str, Any] = {"node_count": blocks, "compiler": None}
        if blocks <= MOST:
            told = tree(engine, name, stages=True)
            payload = {**told["snapshot"], "compiler": told["compiler"]}
        events.append({"event": SNAPSHOT, "session": name, "cycle": cycle, "payload": payload})
    return events
