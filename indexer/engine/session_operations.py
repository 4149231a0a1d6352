"""Every operation on sessions, gathered; whoever has no session never imports them."""

from __future__ import annotations

from indexer.engine.sessions import imports as session_transfer
from indexer.engine.sessions import pull as session_pull
from indexer.engine.sessions import read as session_reads
from indexer.engine.sessions import write as session_writes
from indexer.sessions import CompileOptions, Note

__all__ = [
    "CompileOptions",
    "Note",
    "session_pull",
    "session_reads",
    "session_transfer",
    "session_writes",
]
