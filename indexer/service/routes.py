"""The routes that are no operations on frames: one row each, for the server and for its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from indexer.engine.documents import (
    DiffDocument,
    LogDocument,
    NodeDocument,
    ScanDocument,
    SqlDocument,
    StatusDocument,
    ValidateDocument,
)
from indexer.service.arguments import (
    Check,
    is_count,
    is_flag,
    is_part,
    is_seconds,
    is_text,
)

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class FixedRoute:
    """One route: the method of the server that answers, and what it takes."""

    method: str
    path: str
    handler: str
    answer: type | None = None
    """The shape of the answer, where it has a name."""
    required: Mapping[str, Check] = field(default_factory=dict)
    optional: Mapping[str, Check] = field(default_factory=dict)
    inline: bool = False
    """Whether it is answered even while every worker thread waits."""
    media: str = JSON


FIXED: Final = (
    FixedRoute("GET", "/v1/health", "health", inline=True),
    FixedRoute("GET", "/v1/openapi.json", "openapi", inline=True),
    FixedRoute("GET", "/v1/status", "status", StatusDocument, optional={"wait": is_flag}),
    FixedRoute(
        "POST", "/v1/scan", "scan", ScanDocument,
        optional={"force": is_flag, "accept_empty": is_flag},
    ),
    FixedRoute(
        "POST", "/v1/validate", "validate", ValidateDocument,
        optional={
            "content": is_flag, "subset": is_part, "expect_root": is_text, "locked": is_flag,
        },
    ),
    FixedRoute("GET", "/v1/log", "log", LogDocument, optional={"limit": is_count}),
    FixedRoute(
        "GET", "/v1/diff", "diff", DiffDocument, required={"old": is_text, "new": is_text}
    ),
    FixedRoute(
        "POST", "/v1/sql", "sql", SqlDocument,
        required={"query": is_text}, optional={"limit": is_count, "timeout": is_seconds},
    ),
    FixedRoute("GET", "/v1/resolve", "resolve", NodeDocument, required={"node": is_text}),
    FixedRoute("GET", "/v1/why-ignored", "why_ignored", required={"path": is_text}),
    FixedRoute("GET", "/v1/events", "events", media=EVENT_STREAM),
)  # fmt: skip
