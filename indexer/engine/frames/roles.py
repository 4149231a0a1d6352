"""What the roles of agents allow, readable without the database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from indexer.core.arguments import matching, one_of, some_of
from indexer.core.frames import is_generated
from indexer.errors import UsageError

ROLES: Final = ("reader", "writer", "synthesis")
CAPABILITIES: Final = {
    "reader": ("read",),
    "writer": ("read", "write"),
    "synthesis": ("read", "synthesize", "write"),
}
_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_.@/+-]{0,127}"
_ID: Final = re.compile(_PATTERN)

AgentId = Annotated[str, matching("an id of letters, digits and . _ - @ / +", _PATTERN)]
Role = Annotated[str, one_of(*ROLES)]
Capability = Annotated[str, one_of(*CAPABILITIES["synthesis"])]
Capabilities = Annotated[Sequence[str], some_of(*CAPABILITIES["synthesis"])]


class AgentError(UsageError):
    """The agent is unknown, or may not do that."""

    code = "agent"


def check_agent_id(agent_id: str) -> str:
    """The id, refused where no agent could have it."""
    if not _ID.fullmatch(agent_id) or is_generated(agent_id):
        raise AgentError(
            f"{agent_id!r} cannot be an agent's id",
            hint="use letters, digits and . _ - @ / +; `merkle:` is reserved",
        )
    return agent_id
