"""Builders that the session tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.sessions import Placement, Session, make_content

START_NS = 1_700_000_000_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_NS)


@pytest.fixture
def session(clock: ManualClock) -> Session:
    return Session.new("talk", clock=clock)


@pytest.fixture
def say() -> Callable[..., str]:
    """Appends a line of dialogue and gives back the id of its block."""

    def add(session: Session, text: str, role: str = "user", **where: Any) -> str:
        content = make_content("dialogue", text=text, role=role)
        return session.append(content, Placement(**where)).node_id

    return add
