"""merkle: an always-true index of a workspace, and of what was written about it.

The names below are the public Python API; each is imported when it is first asked for, so that
`merkle --version` does not pay for the database.
"""

from __future__ import annotations

# Not from `typing`, which takes longer to load than Python itself to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from indexer import errors as errors
    from indexer.compiler import compile_stages as compile_stages
    from indexer.core.canonical import canonical_json as canonical_json
    from indexer.core.canonical import commit_hash as commit_hash
    from indexer.core.canonical import content_hash as content_hash
    from indexer.core.tokens import TokenCounter as TokenCounter
    from indexer.service.adapter import AgentAdapter as AgentAdapter
    from indexer.service.adapter import ContextView as ContextView
    from indexer.service.adapter import NewFrame as NewFrame
    from indexer.service.workspace import Workspace as Workspace
    from indexer.sessions import Session as Session
    from indexer.sessions import node_content_hash as node_content_hash

__version__ = "0.1.0"

_EXPORTS = {
    "AgentAdapter": "indexer.service.adapter",
    "ContextView": "indexer.service.adapter",
    "NewFrame": "indexer.service.adapter",
    "Session": "indexer.sessions",
    "TokenCounter": "indexer.core.tokens",
    "Workspace": "indexer.service.workspace",
    "canonical_json": "indexer.core.canonical",
    "commit_hash": "indexer.core.canonical",
    "compile_stages": "indexer.compiler",
    "content_hash": "indexer.core.canonical",
    "node_content_hash": "indexer.sessions",
}

__all__ = [
    "AgentAdapter",
    "ContextView",
    "NewFrame",
    "Session",
    "TokenCounter",
    "Workspace",
    "canonical_json",
    "commit_hash",
    "compile_stages",
    "content_hash",
    "errors",
    "node_content_hash",
]


def __getattr__(name: str) -> Any:
    # Imported late: a command that is handed over to a service does without.
    import importlib

    if name == "errors":
        return importlib.import_module("indexer.errors")
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
