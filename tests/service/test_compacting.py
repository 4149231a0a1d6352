"""A service that has nothing else to do compacts an index that has grown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.service.workspace import Workspace
from tests.support.waiting import wait_until

Start = Callable[..., Any]

SOON = """
import indexer.engine.durable.compact, indexer.service.maintainer
indexer.engine.durable.compact.SAVES_BETWEEN = 12
indexer.engine.durable.compact.LEAST = 0
"""

COMPACTED = "SELECT value FROM meta WHERE key = 'compacted'"


def _save(folder: Path, edition: int) -> None:
    text = f'"""Edition {edition}."""\n\n\ndef f(a):\n    return {edition}\n'
    (folder / "module.py").write_text(text)


def test_it_compacts_by_itself_when_it_pays(
    services: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A function that carries a folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(services.runtime))  # type: ignore[attr-defined]
    (folder / "merkle.toml").write_text("[history]\nkeep_count = 5\n")
    _save(folder, 0)
    service = services(folder, inject=SOON)
    service.ready()
    file = folder / ".merkle" / "index.duckdb"
    before = file.stat().st_ino
    with Workspace.open(folder) as workspace:
        workspace.agent_add("ann", "writer")
        workspace.put_frame("module.py", "kept", frame_type="note", agent="ann")
        for edition in range(1, 9):
            _save(folder, edition)
            workspace.status()
        assert workspace.sql(COMPACTED)["rows"] == []
        for edition in range(9, 16):
            _save(folder, edition)
            workspace.status()
        wait_until(lambda: bool(workspace.sql(COMPACTED)["rows"]), "it was compacted")
        assert file.stat().st_ino != before
        # Not again: it did not grow since.
        told = workspace.sql(COMPACTED)["rows"]
        for edition in range(16, 30):
            _save(folder, edition)
            workspace.status()
        assert workspace.status()["state"] == "current"
        assert workspace.sql(COMPACTED)["rows"] == told
        assert workspace.validate()["errors"] == []
        notes = workspace.list_frames("module.py", frame_type="note", content=True)["frames"]
        assert [one["content"] for one in notes] == ["kept"]
