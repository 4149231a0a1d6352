"""What the roles of agents allow, readable without the database."""

from __future__ import annotations

from typing import Final

from indexer.errors import UsageError

ROLES: Final = ("reader", "writer", "synthesis")
CAPABILITIES: Final = {
    "reader": ("read",),
    "writer": ("read", "write"),
    "synthesis": ("read", "synthesize", "write"),
}


class AgentError(UsageError):
    """The agent is unknown, or may not do that."""

    code = "agent"
