"""The sample workspace with notes in it, and a client to ask about it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer import Workspace
from tests.support.copies import copy_workspace
from tests.support.editor import EditorClient
from tests.support.processes import REPOSITORY
from tests.support.short import SHORT
from tests.support.wire import end_service

QUALITY = "ingest/saltgauge/quality.py"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own settings; a service that is left behind ends by itself."""
    for name in [*os.environ]:
        if name.startswith("MERKLE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MERKLE_WATCH_IDLE_EXIT", "60s")
    monkeypatch.setenv("MERKLE_SERVICE_READY", "no")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture(scope="session")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample workspace, indexed, with a note about a file and one about a symbol."""
    root = tmp_path_factory.mktemp("noted") / "sample"
    shutil.copytree(REPOSITORY / "sample_workspace", root, ignore=shutil.ignore_patterns(".merkle"))
    with Workspace.open(root) as workspace:
        workspace.scan()
        workspace.agent_add("ann", "writer")
        workspace.regenerate()
        workspace.put_frame(
            f"{QUALITY}::judge", "Rates are in metres per minute.", frame_type="note", agent="ann"
        )
        workspace.put_frame(
            QUALITY, "Marks, and never drops.\nAsk the harbour.", frame_type="note", agent="ann"
        )
    return root


@pytest.fixture
def sample(noted: Path) -> Iterator[Path]:
    """A workspace of the same content for one test, with no service yet."""
    with _copied(noted) as root:
        yield root


@contextlib.contextmanager
def _copied(noted: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mk-lsp-"))
    yield copy_workspace(noted, folder / "sample")
    end_service(folder / "sample")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared(noted: Path) -> Iterator[EditorClient]:
    """An editor for tests that change nothing, on a workspace of its own."""
    runtime = tempfile.mkdtemp(prefix="mk", dir=SHORT)
    with _copied(noted) as root, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", runtime)
        patch.setenv("MERKLE_WATCH_IDLE_EXIT", "60s")
        patch.setenv("MERKLE_SERVICE_READY", "no")
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        with EditorClient(root, "lsp", copies=True) as editor:
            # So that the service is started with these, too.
            editor.open(QUALITY)
            patch.undo()
            yield editor
    shutil.rmtree(runtime, ignore_errors=True)
