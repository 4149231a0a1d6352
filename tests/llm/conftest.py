"""A server that stands in for a model, and workspaces whose types ask it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frames.space import Space, python
from tests.llm.server import ModelServer
from tests.service.conftest import Service

KEY_NAME = "MERKLE_TEST_KEY"
KEY = "sk-test-9f3aB71cQe55Zt0pLm2x"

FILES = {
    "README.md": "# Project\n\nWhat it is.\n",
    "src/one/a.py": python("a"),
    "src/one/b.py": python("b"),
    "src/two/c.py": python("c"),
}
"""Four files and four folders, the root among them."""

BOTH = """
[types.summary]
file = {{ use = "llm", model = "{model}"{options} }}
folder = {{ use = "llm", model = "{model}" }}
"""

OUTLINED = """
[types.outline]
file = "outline"

[types.summary]
input = "outline"
file = {{ use = "llm", model = "{model}"{options} }}
"""


def declaration(
    url: str, types: str = BOTH, *, model: str = "gpt-4o-mini", options: str = "", llm: str = ""
) -> str:
    """A merkle.toml that asks the server at an address."""
    section = f'[llm]\nbase_url = "{url}"\nkey_env = "{KEY_NAME}"\nmax_wait = 5\n{llm}\n'
    return section + types.format(model=model, options=options)


@pytest.fixture(autouse=True)
def user_trusts(trusted: None) -> None:
    """Here merkle.toml names servers, and its user has agreed."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key in the environment, and no proxy or settings of whoever runs the tests."""
    monkeypatch.setenv(KEY_NAME, KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("indexer.generators.llm.calling.FIRST_PAUSE", 0.01)
    return KEY


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that answers."""
    made = ModelServer()
    yield made
    made.stop()


Asking = Callable[..., Space]


@pytest.fixture
def asking(server: ModelServer) -> Iterator[Asking]:
    """Workspaces that ask the server: merkle.toml is ignored, so that it is no node itself."""
    made: list[Space] = []

    def make(files: dict[str, str] | None = None, **options: str) -> Space:
        space = Space()
        made.append(space)
        space.write(".merkleignore", "merkle.toml\n.merkleignore\n")
        space.declare(declaration(server.url, **options))
        space.fill(FILES if files is None else files)
        space.engine.scan()
        return space

    yield make
    for space in made:
        space.close()


Serving = Callable[..., Service]


@pytest.fixture
def serving(runtime_dir: Path) -> Iterator[Serving]:
    """Start services for workspaces that are closed here; they end with the test."""
    started: list[tuple[Space, Service]] = []

    def start(space: Space, **options: Any) -> Service:
        space.engine.close()
        service = Service(space.root, runtime_dir, options)
        started.append((space, service))
        return service.ready()

    yield start
    for space, service in started:
        service.kill()
        space.open()


def copy_of(space: Space) -> Space:
    """Another workspace with the same files and no index."""
    return space.clone()


def lose_database(root: Path) -> None:
    """The database is gone; the journal is what is left."""
    for name in (root / ".merkle").iterdir():
        if name.suffix in (".duckdb", ".wal") or ".duckdb" in name.name:
            name.unlink()


def remove(path: Path) -> None:
    """Delete a file or a folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def space() -> Iterator[Space]:
    """An empty workspace that asks nobody."""
    made = Space()
    yield made
    made.close()
