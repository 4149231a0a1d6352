"""The stores that a team shares, its members, and the model that writes for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.conftest import any_url, database, server, url
from tests.support.asking import KEY, KEY_NAME
from tests.support.model_server import ModelServer
from tests.support.postgres import Postgres
from tests.support.team import COUNTED, Member

__all__ = ["any_url", "database", "server", "url"]


@pytest.fixture(autouse=True)
def user_trusts(trusted: None) -> None:
    """Here merkle.toml names the team's store, and its user has agreed."""


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """A server that a test may kill."""
    if os.environ.get("MERKLE_TEST_PG_URL"):
        pytest.skip("a server that is named is not ours to kill")
    started = Postgres()
    yield started
    started.stop()


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A custom generator and policy that note every run; the file they note it in."""
    return COUNTED.install(tmp_path, monkeypatch)


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Workspaces to be closed in the end."""
    made: list[Member] = []
    yield made
    for member in made:
        member.close()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that answers, and the key for it."""
    monkeypatch.setenv(KEY_NAME, KEY)
    made = ModelServer()
    yield made
    made.stop()
