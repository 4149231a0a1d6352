"""The tables of a team's PostgreSQL as a list of steps, each applied once by whoever is first."""

from __future__ import annotations

from typing import Final

from indexer.shared.base import NOTE_BEGINS

VERSIONS: Final = (
    "CREATE TABLE IF NOT EXISTS merkle_schema ("
    " version INTEGER NOT NULL PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())"
)

_ENTRIES: Final = (
    """
    CREATE TABLE merkle_bodies (
        namespace TEXT NOT NULL, sha256 BYTEA NOT NULL, body BYTEA NOT NULL,
        touched_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (namespace, sha256)
    )
    """,
    """
    CREATE TABLE merkle_entries (
        namespace TEXT NOT NULL, key BYTEA NOT NULL, generation BIGINT NOT NULL,
        content BYTEA NOT NULL, mac BYTEA NOT NULL,
        used_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (namespace, key)
    )
    """,
    """
    CREATE TABLE merkle_leases (
        namespace TEXT NOT NULL, key BYTEA NOT NULL, holder TEXT NOT NULL,
        expires_at TIMESTAMPTZ NOT NULL,
        PRIMARY KEY (namespace, key)
    )
    """,
)
_INDEXES: Final = (
    # Sweeping asks which bodies no entry names any more.
    "CREATE INDEX merkle_entries_content ON merkle_entries (namespace, content)",
)

NOTES: Final = (
    "CREATE TABLE IF NOT EXISTS merkle_notes (namespace TEXT NOT NULL, number BIGINT NOT NULL,"
    " token BYTEA NOT NULL, key BYTEA NOT NULL, content BYTEA NOT NULL,"
    " PRIMARY KEY (namespace, number))",
    "CREATE INDEX IF NOT EXISTS merkle_notes_key ON merkle_notes (namespace, key)",
    # Last: where it is, the others are.
    "CREATE TABLE IF NOT EXISTS merkle_note_numbers ("
    " namespace TEXT NOT NULL PRIMARY KEY, newest BIGINT NOT NULL)",
)
"""The log of notes: no step, because releases that do not know it go on using the store."""

NAMED: Final = "e.key = ANY(%b::bytea[])"
BEGINS_AS_NOTE: Final = (
    "EXISTS (SELECT 1 FROM merkle_bodies b WHERE b.namespace = e.namespace"
    f" AND b.sha256 = e.content AND substring(b.body FROM 1 FOR {len(NOTE_BEGINS)}) = %b)"
)
"""Which entries are entered in the log of notes."""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_ENTRIES, _INDEXES)
"""Step N brings a store from version N to N + 1."""
