"""A server that stands in for a model, and workspaces whose types ask it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import BOTH, FILES, KEY, KEY_NAME, Asking, Serving, declaration
from tests.support.model_server import ModelServer
from tests.support.service import Service
from tests.support.space import Space, prepared

IGNORED = "merkle.toml\n.merkleignore\n"


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


@pytest.fixture(scope="session")
def asked_about() -> Iterator[Path]:
    """The usual files with their index, closed: merkle.toml is ignored, and put in later."""
    made = Space()
    made.write(".merkleignore", IGNORED)
    made.fill(FILES)
    made.engine.scan()
    made.engine.close()
    yield made.root
    shutil.rmtree(made.base)


@cache
def _writing(types: str = BOTH) -> Callable[[Space], None]:
    """What makes the frames of a workspace, by a server that is gone afterwards."""

    def write(space: Space) -> None:
        server = ModelServer()
        try:
            space.declare(declaration(server.url, types))
            assert space.engine.regenerate()["failed"] == []
        finally:
            server.stop()

    return write


@pytest.fixture
def asking(server: ModelServer, asked_about: Path) -> Iterator[Asking]:
    """Workspaces that ask the server: merkle.toml is ignored, so that it is no node itself."""
    made: list[Space] = []

    def make(
        files: dict[str, str] | None = None, *, is_written: bool = False, **options: str
    ) -> Space:
        if is_written:
            assert options.keys() <= {"types"}
            space = prepared(_writing(**options), asked_about)
        else:
            space = Space(copy_of=asked_about if files is None else None)
        made.append(space)
        space.declare(declaration(server.url, **options))
        if files is not None:
            space.write(".merkleignore", IGNORED)
            space.fill(files)
            space.engine.scan()
        return space

    yield make
    for space in made:
        space.close()


@pytest.fixture
def serving(runtime_dir: Path) -> Iterator[Serving]:
    """Start services for workspaces that are closed here; they end with the test."""
    started: list[Service] = []

    def start(space: Space, **options: Any) -> Service:
        space.engine.close()
        service = Service(space.root, runtime_dir, options)
        started.append(service)
        return service.ready()

    yield start
    for service in started:
        service.kill()
