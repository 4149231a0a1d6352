"""The stores that a team shares, its members, and the model that writes for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
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


@pytest.fixture(scope="session")
def killable() -> Iterator[Postgres]:
    """The one server that tests may kill: to start what was killed takes less than a new one."""
    started = Postgres()
    yield started
    started.stop()


@pytest.fixture
def own_server(request: pytest.FixtureRequest) -> Postgres:
    """A server that a test may kill, running and empty, whatever was done to it before."""
    if os.environ.get("MERKLE_TEST_PG_URL"):
        pytest.skip("a server that is named is not ours to kill")
    server: Postgres = request.getfixturevalue("killable")
    if server._process is None:
        server.start()
    empty(server.url)
    return server


def empty(url: str) -> None:
    """Remove what the test before has left in a database, and who is still connected to it."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


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
        # What is gone is not folded before.
        shutil.rmtree(member.base, ignore_errors=True)
        member.close()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that answers, and the key for it."""
    monkeypatch.setenv(KEY_NAME, KEY)
    made = ModelServer()
    yield made
    made.stop()
