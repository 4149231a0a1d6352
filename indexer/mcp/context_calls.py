"""The tools that gather context: compose, search, and a recorded manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.mcp.labels import Document, worst
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.mcp.calls import Calls

RESULTS: Final = 10
SEARCH_TOKENS: Final = 4000
"""Tokens of all that a search gives, unless the agent asks for another number."""


def compose(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """Context within a budget; nothing is stored."""
    return labelled(dict(workspace.compose(**given)))


def search(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """The most relevant frames, each with what it says."""
    found = workspace.compose(
        query=given["query"],
        sources=["workspace"],
        order="relevance",
        max_frames=given.get("limit", RESULTS),
        budget=given.get("budget", SEARCH_TOKENS),
        types=given.get("types", ()),
    )
    results = [
        {
            "path": item["path"],
            "type": item["type"],
            "agent": item["agent"],
            "freshness": item["freshness"],
            "because": item["because"],
            "tokens": item["tokens"],
            "frame_id": item["frame_id"],
            "content": found["messages"][item["message"]]["content"],
        }
        for item in found["items"]
    ]
    return {
        "results": results,
        "found": len(results),
        "omitted": found["omitted"]["counts"],
        "missing": found["missing"],
        "root": found["root"],
        "freshness": worst(result["freshness"] for result in results),
    }


def manifest(workspace: Workspace, identity: str) -> Document:
    """A recorded manifest with its messages; its labels are those of then."""
    return labelled(dict(workspace.replay(identity)))


def labelled(found: Document) -> Document:
    """A composition with the label of its least fresh frame, without what only a program needs."""
    found["freshness"] = worst(item["freshness"] for item in found["items"])
    for name in ("request", "hashes", "tokenizer"):
        found.pop(name)
    return found
