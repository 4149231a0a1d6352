"""Taking rows of frames away: what only repeats, what is too old, and what nothing names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from indexer.core.frames import BodyHash, FrameId
from indexer.store.database import Database, put_meta
from indexer.store.postings import TO_BE_FOLDED

MANY_HASHES: Final = 122_880
"""Bodies whose short hashes are looked through in a moment: those of one part of a table."""

_GONE: Final = 5
"""For so many contents that are there, one that is gone keeps its facts."""


class Forgetting:
    """Deletes frames and what belongs to them, each call in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def drop_bodies(self, unwanted: Sequence[BodyHash]) -> int:
        """Forget the contents of some bodies; their rows stay."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE bodies SET content = NULL WHERE sha256 IN (SELECT unnest(?::BLOB[]))",
                [list(unwanted)],
            )
            # Without its content a memo entry would promise what it cannot give. Its generation
            # stays, or an older one would count again.
            connection.execute(
                "UPDATE memo SET content = NULL WHERE content IN (SELECT unnest(?::BLOB[]))",
                [list(unwanted)],
            )
            put_meta(connection, TO_BE_FOLDED, "yes")
        return len(unwanted)

    def drop_repeated_heads(self, part: int = 0, parts: int = 1) -> int:
        """Drop rows of heads and notes that a later row for the same frame repeats, in a part.

        What is read of one comes from the newest row of each frame at its place, which stays.
        """
        with self._database.transaction() as connection:
            dropped = connection.execute(
                "DELETE FROM head_log WHERE rowid IN (SELECT rowid FROM head_log"
                " WHERE hash(path) % $1 = $2 QUALIFY row_number() OVER"
                " (PARTITION BY path, type, agent, frame_id ORDER BY seq DESC) > 1)",
                [parts, part],
            ).fetchone()
            connection.execute(
                "DELETE FROM note_log WHERE rowid IN (SELECT rowid FROM note_log"
                " WHERE hash(frame_id) % $1 = $2 QUALIFY row_number() OVER"
                " (PARTITION BY frame_id ORDER BY seq DESC, rowid DESC) > 1)",
                [parts, part],
            )
        return int(dropped[0]) if dropped else 0

    def drop_frames(
        self, agent_prefix: str, until_ns: int, named: Iterable[FrameId], wanted: Iterable[BodyHash]
    ) -> int:
        """Forget the frames by agents of a prefix that were made before a time.

        Those stay that are heads or were before the present ones, that were heads last for a
        content which a recorded root still has, that a model wrote, that are named, or whose
        bodies are wanted.
        """
        with self._database.transaction() as connection:
            dropped = connection.execute(
                "DELETE FROM frame_log WHERE created_ns < $until AND starts_with(agent, $prefix)"
                " AND frame_id NOT IN (SELECT unnest($named::BLOB[]))"
                " AND content NOT IN (SELECT unnest($wanted::BLOB[]))"
                " AND content NOT IN (SELECT content FROM model_results)"
                " AND frame_id NOT IN (SELECT frame_id FROM"
                "  (SELECT path, type, agent, frame_id, max(seq) AS seq FROM head_log GROUP BY ALL)"
                "  QUALIFY row_number() OVER"
                "   (PARTITION BY path, type, agent ORDER BY seq DESC) <= 2)"
                " AND frame_id NOT IN (SELECT arg_max(h.frame_id, h.seq)"
                "  FROM frame_log f JOIN head_log h ON h.frame_id = f.frame_id"
                "  WHERE f.node_id IN (SELECT node_id FROM node_log WHERE node_id IS NOT NULL)"
                "  GROUP BY f.node_id, h.path, h.type, h.agent)",
                {
                    "until": until_ns, "prefix": agent_prefix,
                    "named": list(named), "wanted": list(wanted),
                },
            ).fetchone()  # fmt: skip
            connection.execute(
                "DELETE FROM head_log WHERE frame_id NOT IN (SELECT frame_id FROM frame_log)"
            )
        return int(dropped[0]) if dropped else 0

    def contents_in_roots(self) -> set[BodyHash]:
        """The bodies of frames that were made for what a recorded root has."""
        rows = self._database.rows(
            "SELECT DISTINCT content FROM frame_log"
            " WHERE node_id IN (SELECT node_id FROM node_log WHERE node_id IS NOT NULL)"
        )
        return {BodyHash(row[0]) for row in rows}

    def drop_unnamed(self) -> None:
        """Drop what nothing names any more: lists of inputs, memo entries, rows of bodies."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM input_lists WHERE hash NOT IN ("
                " WITH RECURSIVE named AS (SELECT inputs AS hash FROM frame_log"
                "   WHERE inputs IS NOT NULL"
                "  UNION SELECT i.base FROM named n JOIN input_lists i ON i.hash = n.hash"
                "   WHERE i.base IS NOT NULL)"
                " SELECT hash FROM named)"
            )
            # A key without an entry has the generation 0 and no result.
            connection.execute(
                "DELETE FROM memo WHERE rowid IN (SELECT rowid FROM memo"
                " QUALIFY (generation = 0 AND content IS NULL)"
                "  OR row_number() OVER (PARTITION BY key ORDER BY generation DESC,"
                "  content IS NOT NULL DESC) > 1)"
            )
            # The last number stays, or it would be given again.
            connection.execute(
                "DELETE FROM bodies WHERE content IS NULL"
                " AND number < (SELECT max(number) FROM bodies)"
                " AND sha256 NOT IN (SELECT content FROM frame_log)"
            )

    def put_hashes_in_order(self) -> None:
        """Gather the short hashes of all bodies in order, where many are in their own rows only.

        Of each part of a table the library knows the least and the greatest value, and reads of
        those in order one part, of the others every one.
        """
        rows = self._database.rows("SELECT count(short) FROM bodies")
        if rows[0][0] <= MANY_HASHES:
            return
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM body_hashes")
            connection.execute(
                "INSERT INTO body_hashes"
                " SELECT ('0x' || hex(sha256)[1:8])::UINTEGER AS short, number FROM bodies"
                " WHERE content IS NOT NULL ORDER BY short"
            )
            connection.execute("UPDATE bodies SET short = NULL WHERE short IS NOT NULL")

    def drop_facts(self) -> int:
        """Forget what is known of the code of contents that are gone.

        They can be made again from a file that comes back. The newest of them stay, a part of as
        many as there are files: whoever goes from branch to branch finds both.
        """
        with self._database.transaction() as connection:
            # The last number stays, or it would be given again.
            dropped = connection.execute(
                "DELETE FROM code_facts WHERE number < (SELECT max(number) FROM code_facts)"
                " AND number NOT IN (WITH newest AS (SELECT content_id, max(number) AS number"
                "   FROM code_facts GROUP BY content_id, ending),"
                "  present AS (SELECT arg_max(content_id, seq) FILTER (kind <> 0) AS content_id"
                "   FROM node_log GROUP BY path HAVING arg_max(kind, seq) <> 0),"
                "  held AS (SELECT number FROM newest WHERE content_id IN (FROM present)),"
                "  gone AS (SELECT number FROM newest WHERE number NOT IN (FROM held)"
                "   ORDER BY number DESC LIMIT (SELECT count(*) // ? FROM held))"
                "  FROM held UNION ALL FROM gone)",
                [_GONE],
            ).fetchone()
            connection.execute(
                "DELETE FROM code_symbols WHERE number NOT IN (SELECT number FROM code_facts)"
            )
            connection.execute(
                "DELETE FROM code_uses WHERE number NOT IN (SELECT number FROM code_facts)"
            )
            if dropped and dropped[0]:
                put_meta(connection, TO_BE_FOLDED, "yes")
        return int(dropped[0]) if dropped else 0
