"""Workspaces to be served, and services that end with the tests that started them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Service, root_from_nothing
from tests.support.short import SHORT
from tests.support.space import with_index
from tests.support.waiting import wait_until


@pytest.fixture(scope="session")
def shm() -> Iterator[Path]:
    """A folder in memory for the whole run: creating after deleting is slow on some disks."""
    folder = Path(tempfile.mkdtemp(prefix="merkle-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def services() -> Iterator[Callable[..., Service]]:
    """Start services; whatever still runs at the end of the module is ended."""
    # Not tmp_path: socket paths end at 107 bytes.
    runtime = Path(tempfile.mkdtemp(prefix="merkle-run-", dir=SHORT))
    started: list[Service] = []

    def start(root: Path, **options: Any) -> Service:
        service = Service(root, runtime, options)
        started.append(service)
        return service

    start.runtime = runtime  # type: ignore[attr-defined]  # a function that carries a folder
    try:
        yield start
    finally:
        for service in started:
            service.kill()
        shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture
def folder(shm: Path) -> Path:
    """An empty workspace whose index is made: to make it is a fifteenth of what services cost."""
    root = Path(tempfile.mkdtemp(prefix="ws-", dir=shm))
    root.chmod(0o755)
    return with_index(root)


@pytest.fixture
def sample(folder: Path) -> Path:
    """A small workspace."""
    for number in range(30):
        place = folder / f"pkg{number % 5}" / "inner"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"file{number}.txt").write_text(f"content {number}\n")
    (folder / "README.md").write_text("hello\n")
    return folder


@pytest.fixture
def until() -> Callable[..., Any]:
    """`wait_until`, for tests."""
    return wait_until


@pytest.fixture
def from_nothing() -> Callable[[Path], str]:
    """`root_from_nothing`, for tests."""
    return root_from_nothing
