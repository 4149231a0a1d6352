"""How a service is doing, for those who ask."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Health:
    """How the service is doing."""

    state: str
    """`starting`, `watching`, `degraded`, `unavailable`, `unhealthy` or `stopped`."""
    reason: str | None
    watches: int
    batches: int
    pending: bool
    frames: str | None = None
    """Why declared frames are not all kept."""
