"""A server that stands in for a model, and workspaces whose types ask it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import FILES, KEY, KEY_NAME, Asking, Serving, declaration
from tests.support.model_server import ModelServer
from tests.support.service import Service
from tests.support.space import Space


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
