"""Conversations as a positioned context tree on a hash-chained log; pure, without files."""

from indexer.sessions.budget import TokenBudget
from indexer.sessions.compile import Compiled, CompileOptions, Message
from indexer.sessions.content import make_content
from indexer.sessions.importing import import_session
from indexer.sessions.lifecycle import PrunePolicy
from indexer.sessions.node import Node, node_content_hash
from indexer.sessions.operations import Attempt
from indexer.sessions.plan import Note, Placement
from indexer.sessions.rangediff import SelectOptions
from indexer.sessions.records import CommitRecord, OpRecord, Record, record_from_json
from indexer.sessions.session import Plan, Session

__all__ = [
    "Attempt",
    "CommitRecord",
    "CompileOptions",
    "Compiled",
    "Message",
    "Node",
    "Note",
    "OpRecord",
    "Placement",
    "Plan",
    "PrunePolicy",
    "Record",
    "SelectOptions",
    "Session",
    "TokenBudget",
    "import_session",
    "make_content",
    "node_content_hash",
    "record_from_json",
]
