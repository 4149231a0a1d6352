"""Sessions in the database: their logs, each content once, and every version of every node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from indexer.store.database import Database, Row, append_rows
from indexer.store.driver import duckdb

_RECORD_COLUMNS: Final = (
    "seq, at_ns, op, commit_hash, content_hash, content_type, node_id, reply_to, token_count,"
    " holds, record"
)
_VERSION_COLUMNS: Final = (
    "id, born, gone, parent, node_type, position, created_at_ns, creation_index, expires,"
    " removable, holds, refs, content_hash, node"
)


_OF_A_SESSION: Final = (
    "session_names",
    "session_heads",
    "session_requests",
    "session_records",
    "session_versions",
)
_NAMED: Final = (
    "(SELECT sid, name, seq, deleted_ns FROM session_names"
    " QUALIFY row_number() OVER (PARTITION BY sid ORDER BY seq DESC) = 1)"
)


class SessionHead(NamedTuple):
    """Where a session stands after a batch."""

    sid: int
    working: int
    creation_index: int
    last_ns: int
    released: str | None
    """Overdue nodes that nothing protects any more, as a JSON list."""


class SessionName(NamedTuple):
    """What a session is called from a record on, and since when it is deleted, if it is."""

    sid: int
    name: str
    seq: int = 0
    deleted_ns: int | None = None


@dataclass(slots=True, eq=False, repr=False)
class SessionRows:
    """New rows of sessions, stored in the transaction of the batch that carries them."""

    names: list[SessionName] = field(default_factory=list)
    records: list[tuple[int, Row]] = field(default_factory=list)
    """Rows by session, in the order of the log."""
    versions: list[tuple[int, int, Row]] = field(default_factory=list)
    """Rows by session and the number of the record that made them."""
    blobs: dict[str, str] = field(default_factory=dict)
    heads: dict[int, SessionHead] = field(default_factory=dict)
    requests: list[tuple[int, int, str]] = field(default_factory=list)
    """Session, number of the last record, and by which token it was asked for."""
    purged: list[int] = field(default_factory=list)
    """Sessions that go for good, with all contents that no other session has."""

    def write(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Append everything inside the running transaction; nothing stored is looked at."""
        append_rows(connection, "session_names", self.names)
        append_rows(
            connection,
            "session_blobs",
            [(bytes.fromhex(sha256), text) for sha256, text in self.blobs.items()],
        )
        append_rows(connection, "session_records", [(sid, *row) for sid, row in self.records])
        append_rows(
            connection,
            "session_versions",
            [(sid, seq, place, *row) for place, (sid, seq, row) in enumerate(self.versions)],
        )
        append_rows(connection, "session_requests", self.requests)
        seqs = {sid: row[0] for sid, row in self.records}
        append_rows(
            connection,
            "session_heads",
            [(head.sid, seqs[head.sid], *head[1:]) for head in self.heads.values()],
        )
        if self.purged:
            for table in _OF_A_SESSION:
                connection.execute(
                    f"DELETE FROM {table} WHERE list_contains(?::UINTEGER[], sid)", [self.purged]
                )
            connection.execute(
                "DELETE FROM session_blobs WHERE lower(hex(sha256)) NOT IN"
                " (SELECT content_hash FROM session_records WHERE content_hash IS NOT NULL)"
            )


class StoredSession(NamedTuple):
    """Everything that is stored of a session, in order."""

    records: list[Row]
    versions: list[Row]
    blobs: dict[str, str]
    head: SessionHead


class SessionStore:
    """Reads the sessions of one workspace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self) -> list[SessionName]:
        """What every session is called now, deleted ones too, oldest first."""
        rows = self._database.rows(f"SELECT * FROM {_NAMED} ORDER BY sid")
        return [SessionName(*row) for row in rows]

    def first_name(self, sid: int) -> str:
        """What a session was called when it was begun here."""
        rows = self._database.rows(
            "SELECT name FROM session_names WHERE sid = ? ORDER BY seq LIMIT 1", [sid]
        )
        return str(rows[0][0])

    def load(self, sid: int) -> StoredSession | None:
        """All rows of one session, as of one moment; None where there are none."""
        with self._database.snapshot() as read:
            heads = read(
                "SELECT sid, working, creation_index, last_ns, released FROM session_heads"
                " WHERE sid = ? ORDER BY seq DESC LIMIT 1",
                [sid],
            )
            if not heads:
                return None
            records = read(
                f"SELECT {_RECORD_COLUMNS} FROM session_records WHERE sid = ? ORDER BY seq", [sid]
            )
            versions = read(
                f"SELECT {_VERSION_COLUMNS} FROM session_versions WHERE sid = ?"
                " ORDER BY seq, place",
                [sid],
            )
            blobs = read(
                "SELECT lower(hex(sha256)), content FROM session_blobs WHERE sha256 IN"
                " (SELECT unhex(content_hash) FROM session_records"
                "  WHERE sid = ? AND content_hash IS NOT NULL)",
                [sid],
            )
        return StoredSession(records, versions, dict(blobs), SessionHead(*heads[0]))

    def answered(self, once: str) -> tuple[int, int] | None:
        """Session and number of the last record that a request made, known by its token."""
        rows = self._database.rows("SELECT sid, seq FROM session_requests WHERE once = ?", [once])
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def known_blobs(self) -> set[str]:
        """The hashes of all stored contents."""
        rows = self._database.rows("SELECT lower(hex(sha256)) FROM session_blobs")
        return {row[0] for row in rows}

    def all_blobs(self) -> list[tuple[str, str]]:
        """Every stored content with its hash."""
        return [
            (sha256, content)
            for sha256, content in self._database.rows(
                "SELECT lower(hex(sha256)), content FROM session_blobs ORDER BY sha256"
            )
        ]

    def summaries(self, *, deleted: bool = False) -> list[dict[str, Any]]:
        """Every session, or every deleted one, in a few figures, without its nodes."""
        rows = self._database.rows(
            "SELECT n.name, h.working - 1, count(r.seq), count(r.commit_hash),"
            " sum(r.token_count), min(r.at_ns), max(r.at_ns)"
            f" FROM {_NAMED} n JOIN session_records r ON r.sid = n.sid"
            " JOIN (SELECT sid, arg_max(working, seq) AS working FROM session_heads GROUP BY sid) h"
            " ON h.sid = n.sid WHERE (n.deleted_ns IS NOT NULL) = ?"
            " GROUP BY n.sid, n.name, h.working ORDER BY n.sid",
            [deleted],
        )
        keys = ("name", "cycle", "records", "commits", "tokens", "opened_ns", "updated_ns")
        return [dict(zip(keys, row, strict=True)) for row in rows]

    def record_texts(self, sid: int) -> list[tuple[str, str | None]]:
        """The records of a session as JSON, each with the content that it carries, if any."""
        rows = self._database.rows(
            "SELECT r.record, CASE WHEN r.holds THEN b.content END FROM session_records r"
            " LEFT JOIN session_blobs b ON r.holds AND b.sha256 = unhex(r.content_hash)"
            " WHERE r.sid = ? ORDER BY r.seq",
            [sid],
        )
        return [(record, content) for record, content in rows]

    def attribute_values(self, attribute: str) -> set[str]:
        """The texts that blocks of any session, whether shown or gone, carry under an attribute."""
        rows = self._database.rows(
            "SELECT DISTINCT node FROM session_versions WHERE contains(node, ?)",
            [json.dumps(attribute)],
        )
        values = (json.loads(row[0]).get(attribute) for row in rows)
        return {value for value in values if isinstance(value, str)}


def journalled(texts: Iterable[tuple[str, str | None]]) -> list[Mapping[str, Any]]:
    """Records with their contents put back, as they were journalled."""
    found = []
    for record, content in texts:
        data = json.loads(record)
        if content is not None:
            data["content"] = json.loads(content)
        found.append(data)
    return found
