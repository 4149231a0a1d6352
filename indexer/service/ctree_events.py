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
    events = [{"event": NODE, "session": name, "node": row} for row in _rows(engine, name, ids)]
    if "turn" in document or "origin" in document:
        events.append(_snapshot(engine, name))
    return events


def _rows(engine: Engine, name: str, ids: list[str]) -> list[dict[str, Any]]:
    def look(session: Session) -> list[dict[str, Any]]:
        found = (session.block(node_id) for node_id in ids)
        return [node_row(item) for item in found if item is not None]

    return engine.sessions.read(name, look) if ids else []


def _snapshot(engine: Engine, name: str) -> dict[str, Any]:
    cycle, blocks = engine.sessions.read(name, lambda s: (s.cycle, len(s.state.live.blocks)))
    payload: dict[str, Any] = {"node_count": blocks, "compiler": None}
    if blocks <= MOST:
        told = tree(engine, name, stages=True)
        payload = {**told["snapshot"], "compiler": told["compiler"]}
    return {"event": SNAPSHOT, "session": name, "cycle": cycle, "payload": payload}
