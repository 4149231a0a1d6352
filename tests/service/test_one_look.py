"""What is made right after a scan is made from it, without a second look at the disk."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from indexer.core.frames import Head, HeadKey
from indexer.engine.make import commands
from indexer.engine.workspace import Engine
from indexer.service.workspace import Workspace
from indexer.store.frames import FrameStore


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


def test_the_heads_on_the_way_to_an_edit_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = tmp_path / "one" / "two" / "three" / "edited.py"
    edited.parent.mkdir(parents=True)
    edited.write_text("def before(): pass\n")
    (tmp_path / "one" / "beside.py").write_text("def beside(): pass\n")
    with Workspace.open(tmp_path) as workspace:
        workspace.scan()
        workspace.regenerate()
    edited.write_text("def after(): pass\n")
    asked: list[list[str]] = []
    heads_at = FrameStore.heads_at

    def noted(store: FrameStore, places: Sequence[str]) -> dict[HeadKey, Head]:
        asked.append(sorted(places))
        return heads_at(store, places)

    monkeypatch.setattr(FrameStore, "heads_at", noted)
    with Workspace.open(tmp_path) as workspace:
        workspace.scan()
        with workspace.as_scanned():
            made = workspace.regenerate()
    assert made["regenerated"]
    below = ["one/beside.py", "one/two", "one/two/three", "one/two/three/edited.py"]
    assert asked == [["", "one", *below]]
