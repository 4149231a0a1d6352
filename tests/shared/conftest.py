"""One PostgreSQL for all tests about sharing, and a database in it for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.llm.conftest import KEY, KEY_NAME
from tests.llm.server import ModelServer
from tests.shared.postgres import Postgres
from tests.shared.team import COUNTED, Member

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def user_trusts(trusted: None) -> None:
    """Here merkle.toml names servers, and its user has agreed."""


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server: the one that is named, or one of our own."""
    named = os.environ.get("MERKLE_TEST_PG_URL")
    if named:
        yield named
        return
    started = Postgres()
    try:
        yield started.url
    finally:
        started.stop()


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """An empty database."""
    name = f"merkle_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    given = conninfo_to_dict(server)
    user, word = given.get("user", ""), given.get("password")
    login = f"{user}:{word}" if word else f"{user}"
    yield f"postgresql://{login}@/{name}?host={given['host']}&port={given.get('port', 5432)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["postgresql", "sqlite"])
def any_url(request: pytest.FixtureRequest, fast_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite://{fast_path}/team.db"
    found: str = request.getfixturevalue("url")
    return found


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
