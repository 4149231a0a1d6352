"""The routes that are no operations of their own: how the service is, what happens, C-Trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class FixedRoute:
    """One route, asked for by GET without arguments: the method of the server that answers."""

    path: str
    handler: str
    media: str = JSON


FIXED: Final = (
    FixedRoute("/v1/health", "health"),
    FixedRoute("/v1/working", "working"),
    FixedRoute("/v1/openapi.json", "openapi"),
    FixedRoute("/v1/events", "events", media=EVENT_STREAM),
)


@dataclass(frozen=True, slots=True)
class SessionRoute:
    """A route below a session's name, asked for by GET: an operation with some of its arguments."""

    path: str
    operation: str
    given: Mapping[str, Any]


OF_SESSIONS: Final = (
    SessionRoute("/v1/sessions/{name}/ctrees", "session-tree", {"stages": True}),
    SessionRoute("/v1/sessions/{name}/ctrees/tree", "session-tree", {}),
)
