"""Every operation but the scan, gathered: each takes an engine and returns a document."""

from __future__ import annotations

from indexer.engine.agents import add_agent, list_agents, require_agent
from indexer.engine.compaction import compact
from indexer.engine.composition import compile_events, compose, replay
from indexer.engine.explain import explain
from indexer.engine.framing import Framing
from indexer.engine.history import diff_document, log_document
from indexer.engine.journaling import catch_up_with_journal, journal_and_apply
from indexer.engine.maintenance import invalidate, regenerate, synthesize
from indexer.engine.notes import carry, put_frame
from indexer.engine.reading import get_head, get_node, list_frames
from indexer.engine.resolve import ignored_document, resolve_node
from indexer.engine.runs import Limits, run_to_end
from indexer.engine.status import status_document
from indexer.engine.transfer import export_pack, import_pack
from indexer.engine.validation import validate_document
from indexer.store.query import run_query

__all__ = [
    "Framing",
    "Limits",
    "add_agent",
    "carry",
    "catch_up_with_journal",
    "compact",
    "compile_events",
    "compose",
    "diff_document",
    "explain",
    "export_pack",
    "get_head",
    "get_node",
    "ignored_document",
    "import_pack",
    "invalidate",
    "journal_and_apply",
    "list_agents",
    "list_frames",
    "log_document",
    "put_frame",
    "regenerate",
    "replay",
    "require_agent",
    "resolve_node",
    "run_query",
    "run_to_end",
    "status_document",
    "synthesize",
    "validate_document",
]
