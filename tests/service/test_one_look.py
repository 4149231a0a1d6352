"""What is made right after a scan is made from it, without a second look at the disk."""

from pathlib import Path

import pytest

from indexer.engine.make import commands
from indexer.engine.workspace import Engine
from indexer.service.workspace import Workspace


def test_no_second_look_and_no_frame_from_another_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    look = commands.bring_up_to_date

    def noted(engine: Engine, path: str) -> None:
        looked.append(path)
        look(engine, path)

    monkeypatch.setattr(commands, "bring_up_to_date", noted)
    changed = tmp_path / "changed.py"
    changed.write_text("def before(): pass\n")
    (tmp_path / "same.py").write_text("def same(): pass\n")
    with Workspace.open(tmp_path) as workspace:
        workspace.scan()
        with workspace.as_scanned():
            changed.write_text("def after(): pass\n")
            made = workspace.regenerate()
        assert not looked
        assert [each["reason"] for each in made["failed"]] == ["changed meanwhile"]
        frames = workspace.status()["frames"]
        # Of the one that stayed; the folder's lacks the other.
        assert (frames["fresh"], frames["stale"], frames["missing"]) == (1, 1, 1)
        assert not workspace.regenerate()["failed"]
        assert looked == [""]
        assert workspace.status()["frames"]["fresh"] == 3
