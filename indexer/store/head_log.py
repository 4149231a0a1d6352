"""The log of heads beyond their present: what belongs to which content, and what can go."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.core.frames import FrameId
from indexer.core.ids import NodeId
from indexer.store.database import Database

Made = dict[tuple[str, str], FrameId]
"""Frames by type and agent."""


class HeadLog:
    """Reads and thins out `head_log`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def made_for(self, nodes: Sequence[NodeId], agent_prefix: str) -> dict[NodeId, Made]:
        """By node, the frames for its content that were heads last.

        Of agents whose names begin like this. A NodeID has the path in it.
        """
        found: dict[NodeId, Made] = {}
        if not nodes:
            return found
        for node_id, kind, agent, frame_id in self._database.rows(
            "SELECT f.node_id, h.type, h.agent, arg_max(h.frame_id, h.seq)"
            " FROM frame_log f JOIN head_log h ON h.frame_id = f.frame_id"
            " WHERE f.node_id IN (SELECT unnest(?::BLOB[])) AND starts_with(f.agent, ?)"
            " GROUP BY ALL",
            [list(nodes), agent_prefix],
        ):
            found.setdefault(NodeId(node_id), {})[kind, agent] = FrameId(frame_id)
        return found

    def drop_repeated(self, part: int = 0, parts: int = 1) -> int:
        """Forget where a head was noted again with the frame it had: the last note says it all.

        The present of a head, the frame before it and the order in which frames came are read
        from the newest row of each frame at its place, and that one stays. One part of the
        paths at a time.
        """
        with self._database.transaction() as connection:
            dropped = connection.execute(
                "DELETE FROM head_log WHERE rowid IN (SELECT rowid FROM head_log"
                " WHERE hash(path) % $1 = $2 QUALIFY row_number() OVER"
                " (PARTITION BY path, type, agent, frame_id ORDER BY seq DESC) > 1)",
                [parts, part],
            ).fetchone()
        return int(dropped[0]) if dropped else 0
