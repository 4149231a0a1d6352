"""In whose name a session is changed: nobody's, or that of an agent that may write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.engine.frames.agents import check_writer

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


def checked_author(engine: Engine, agent: str | None) -> str | None:
    """An agent that is registered and may write, or nobody."""
    if agent is not None:
        check_writer(engine.frames.store, agent)
    return agent
