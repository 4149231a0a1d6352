"""Workspaces for agents, with a service and without."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.service import served as serving
from indexer.service.served import start_service
from tests.support.copies import copy_workspace
from tests.support.processes import REPOSITORY, ForkingSubprocess
from tests.support.waiting import PATIENCE
from tests.support.wire import end_service, peopled


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own settings; a service that is left behind ends by itself."""
    for name in [*os.environ]:
        if name.startswith("MERKLE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MERKLE_WATCH_IDLE_EXIT", "60s")
    monkeypatch.setenv("MERKLE_SERVICE_READY", "no")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture(autouse=True, scope="package")
def forked_services() -> Iterator[None]:
    """Services that this process starts need no start of their own.

    What `merkle mcp` starts does, and tests of the transports are with those.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "subprocess", ForkingSubprocess)
        yield


def _short_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mk-mcp-"))


@pytest.fixture
def project() -> Iterator[Path]:
    """A workspace with agents and outlines, and no service."""
    root = copy_workspace(peopled(), _short_folder())
    yield root
    end_service(root)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def served() -> Iterator[Path]:
    """A workspace with agents and outlines whose service runs for the whole module."""
    root, runtime = copy_workspace(peopled(), _short_folder()), _short_folder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        patch.setenv("MERKLE_WATCH_IDLE_EXIT", "60s")
        patch.setenv("MERKLE_SERVICE_READY", "no")
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        start_service(root, time.monotonic() + PATIENCE)
    yield root
    end_service(root)
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(runtime, ignore_errors=True)
