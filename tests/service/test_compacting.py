"""A service that has nothing else to do compacts an index that has grown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.engine.durable.compact import Compaction
from indexer.service.maintainer import Maintainer
from indexer.service.workspace import Workspace
from tests.support.space import Space
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


def test_beside_somebody_who_edits_all_the_time_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1)
    one = Compaction.step

    def a_second(self: Compaction) -> bool:
        clock.advance(1)
        return one(self)

    monkeypatch.setattr(Compaction, "step", a_second)
    monkeypatch.setattr("indexer.engine.durable.compact.SAVES_BETWEEN", 1)
    monkeypatch.setattr("indexer.engine.durable.compact.compacting_pays", lambda *_: True)
    space = Space(clock=clock)
    try:
        space.write("a.py", "a = 1\n")
        maintainer = Maintainer(space.engine)

        def edit_and_make_frames() -> None:
            space.settle()
            maintainer.begin()
            while maintainer.due and "compacting" not in maintainer.doing:
                maintainer.step()

        edit_and_make_frames()
        assert maintainer.doing == ("compacting",)
        maintainer.step()
        space.write("a.py", "a = 2\n")
        given_up = clock.monotonic()
        edit_and_make_frames()
        assert maintainer.doing == ()
        # Two steps of a second each were for nothing.
        assert maintainer.again_at is not None
        assert maintainer.again_at - given_up == pytest.approx(40)
        clock.advance(38)
        edit_and_make_frames()
        assert maintainer.doing == ()
        clock.advance(4)
        maintainer.try_again()
        while maintainer.due:
            maintainer.step()
            assert maintainer.doing in {("compacting",), ()}
        assert space.engine.sql(COMPACTED)["rows"] != []
        assert maintainer.again_at is None
    finally:
        space.close()
