"""Members of a team whose frames a model writes, all of the same files."""

from __future__ import annotations

from typing import Final

from tests.support.asking import FILES, declaration
from tests.support.model_server import ModelServer
from tests.support.team import Member

CONTENT: Final = {**FILES, ".merkleignore": "merkle.toml\n.merkleignore\n"}
EVERYTHING: Final = 8
"""Four files and four folders."""


def member_of(members: list[Member], model: ModelServer, more: str = "", **options: str) -> Member:
    """One more member of the team; `more` goes into its declared type."""
    members.append(Member(CONTENT, declaration(model.url, **options) + more))
    return members[-1]
