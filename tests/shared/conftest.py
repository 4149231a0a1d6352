"""One PostgreSQL for all tests about sharing, and a database in it for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.postgres import one_for_all

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> str:
    """The address of a server: the one that is named, or one of our own."""
    return os.environ.get("MERKLE_TEST_PG_URL") or one_for_all().url


@pytest.fixture(scope="session")
def database(server: str) -> Iterator[str]:
    """A database for a whole run: making one takes as long as many a test."""
    # Each folder of tests that uses this has one.
    name = f"merkle_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    given = conninfo_to_dict(server)
    user, word = given.get("user", ""), given.get("password")
    login = f"{user}:{word}" if word else f"{user}"
    yield f"postgresql://{login}@/{name}?host={given['host']}&port={given.get('port', 5432)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(database: str) -> str:
    """The database, emptied of what the test before has left in it."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
    return database


@pytest.fixture(params=["postgresql", "sqlite"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/team.db"
    found: str = request.getfixturevalue("url")
    return found
