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
    team: str | None = None
    """Why notes do not reach the team."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the service has to do, and what its questions to models have cost."""

    paths: int | None
    """Paths that changed and were not looked at yet; None stands for all of them."""
    requests: int
    """Requests that wait for the thread that writes."""
    passes: tuple[str, ...]
    """Types whose frames are being made, and what comes behind them."""
    calls: int
    spent: str
    tokens_in: int
    tokens_out: int
