"""Every operation on sessions, gathered; whoever has no session never imports them."""

from __future__ import annotations

from indexer.engine import session_pull, session_reads, session_transfer, session_writes
from indexer.sessions import CompileOptions, Note

__all__ = [
    "CompileOptions",
    "Note",
    "session_pull",
    "session_reads",
    "session_transfer",
    "session_writes",
]
