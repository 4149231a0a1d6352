"""The routes that are no operations: how the service is, what it can do, and what happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
    FixedRoute("/v1/openapi.json", "openapi"),
    FixedRoute("/v1/events", "events", media=EVENT_STREAM),
)
