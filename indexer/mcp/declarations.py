"""The tools as agents see them: names, descriptions, and the shape of arguments and answers.

Every word here is paid for in each conversation, so there are few; a test counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
TABLE: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
OBJECT: Final[Schema] = {"type": "object"}
OBJECTS: Final[Schema] = {"type": "array", "items": OBJECT}
NODE: Final[Schema] = {"type": "string", "description": "path ('' is the root) or node_id"}

SESSION_ACTIONS: Final = (
    "list", "show", "new", "append", "edit", "annotate", "commit", "select", "diff", "render",
    "compile", "pull", "record",
)  # fmt: skip
SESSION_READS: Final = frozenset({"list", "show", "select", "diff", "render", "compile"})

INSTRUCTIONS: Final = (
    "An index of this workspace and of what was written about it. Every answer carries"
    " `freshness`: trust `fresh`, re-read what is `stale`. Start with compose or search; before"
    " put_frame, call get_node and pass its node_id as `seen`."
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One tool."""

    name: str
    description: str
    takes: dict[str, Schema]
    gives: dict[str, Schema]
    required: tuple[str, ...] = ()
    reads_only: bool = True
    optional: frozenset[str] = field(default_factory=frozenset)
    """Keys of the answer that are not always there."""

    @property
    def input_schema(self) -> Schema:
        """What it takes, and nothing else."""
        schema: Schema = {"type": "object", "properties": self.takes, "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        return schema

    @property
    def output_schema(self) -> Schema:
        """What it always gives; an answer may hold more."""
        properties = {**self.gives, "freshness": TEXT}
        required = [name for name in properties if name not in self.optional]
        return {"type": "object", "properties": properties, "required": required}


_COMPOSED: Final[dict[str, Schema]] = {
    "items": OBJECTS, "tokens": COUNT, "budget": COUNT, "omitted": OBJECT, "root": TEXT,
}  # fmt: skip

TOOLS: Final = (
    Declaration(
        "status",
        "Is the index true to the disk, and which frames are not fresh? Also tells who you are.",
        {"wait": {"type": "boolean", "description": "false: do not wait for pending changes"}},
        {
            "state": TEXT, "root": {"type": ["string", "null"]}, "files": COUNT, "frames": OBJECT,
            "not_fresh": OBJECTS, "changes": OBJECT, "agent": OBJECT,
        },
    ),
    Declaration(
        "get_node",
        "A file or folder with the frames (outline, summary, notes) about it. Returns node_id.",
        {
            "node": NODE, "type": TEXT, "agent": TEXT,
            "view": {"enum": ["recency", "type", "agent", "relevance"]}, "query": TEXT,
            "max_frames": COUNT,
            "max_tokens": {**COUNT, "description": "of all contents together, 8000 if not given"},
        },
        {
            "node_id": TEXT, "path": TEXT, "kind": TEXT, "children": TEXTS, "frames": OBJECTS,
            "frame_count": COUNT,
        },
        required=("node",),
    ),
    Declaration(
        "compose",
        "Context within a token budget: what is known about nodes, or about a query.",
        {
            "nodes": TEXTS, "query": TEXT, "budget": {**COUNT, "description": "tokens"},
            "max_frames": COUNT, "types": TEXTS, "related": TEXTS,
            "sources": {
                "type": "array",
                "items": {
                    "enum": ["node", "parents", "siblings", "below", "related", "workspace"]
                },
            },
            "order": {"type": "string", "description": "recency, type, agent or relevance"},
            "require_fresh": FLAG,
        },
        {"manifest_id": TEXT, "messages": OBJECTS, **_COMPOSED},
    ),
    Declaration(
        "search",
        "Find the frames most relevant to a query in the whole workspace, best first.",
        {
            "query": TEXT, "limit": {**COUNT, "description": "10 if not given"}, "types": TEXTS,
            "budget": {**COUNT, "description": "tokens"},
        },
        {"results": OBJECTS, "found": COUNT},
        required=("query",),
    ),
    Declaration(
        "put_frame",
        "Write what you learned about a node. It goes stale when the node changes.",
        {
            "node": NODE,
            "seen": {"type": "string", "description": "node_id that get_node gave you"},
            "type": {"type": "string", "description": "such as note or review"},
            "content": TEXT,
            "on": {"type": "string", "description": "bind to: content, listing or a frame type"},
            "meta": TABLE,
        },
        {"frame_id": TEXT, "created": FLAG, "path": TEXT},
        required=("node", "seen", "type", "content"),
        reads_only=False,
    ),
    Declaration(
        "synthesize",
        "Make the frames of a type for a folder, children first.",
        {"node": NODE, "type": TEXT, "policy": TEXT},
        {"frame_id": {"type": ["string", "null"]}, "generated": COUNT, "reused": COUNT},
        required=("node", "type"),
        reads_only=False,
    ),
    Declaration(
        "regenerate",
        "Make stale generated frames again. With plan, only tell what would be made and why.",
        {"node": NODE, "type": TEXT, "recursive": FLAG, "plan": FLAG},
        {
            "regenerated": COUNT, "reused": COUNT, "failed": OBJECTS, "unchanged": FLAG,
            "plan": OBJECTS,
        },
        reads_only=False,
    ),
    Declaration(
        "explain",
        "Why a frame is what it is, or exactly what made it stale.",
        {"node": NODE, "type": TEXT},
        {"path": TEXT, "frame_id": {"type": ["string", "null"]}, "chain": OBJECTS},
        required=("node",),
    ),
    Declaration(
        "diff",
        "What changed between two roots or manifests; @-N is N batches ago, @-0 is now.",
        {"old": TEXT, "new": TEXT},
        {"added": TEXTS, "removed": TEXTS, "modified": TEXTS, "renamed": OBJECTS},
        required=("old",),
    ),
    Declaration(
        "session",
        "A conversation as a context tree: append, commit, select, render, pull context in."
        " record: compose and keep the manifest.",
        {
            "action": {"enum": list(SESSION_ACTIONS)},
            "name": TEXT,
            "type": {"type": "string", "description": "of a block: dialogue, tool_io, output..."},
            "role": TEXT, "text": TEXT, "payload": OBJECT,
            "target": {"type": "string", "description": "block id to edit or annotate"},
            "priority": {"enum": ["pinned", "normal", "skip"]},
            "selector": TEXT,
            "snapshots": {**TEXTS, "description": "such as @t0; two for diff"},
            "nodes": TEXTS, "query": TEXT, "budget": COUNT, "ttl": COUNT,
        },
        {"action": TEXT, "result": OBJECT},
        required=("action",),
        reads_only=False,
    ),
)  # fmt: skip

BY_NAME: Final = {tool.name: tool for tool in TOOLS}
