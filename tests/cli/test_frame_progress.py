"""Long work on frames tells how it goes on, where somebody looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.engine.frames import heads as shelf
from indexer.engine.team import exchange as sharing
from indexer.service.workspace import Workspace
from indexer.store import postings


def test_regenerate_tells_how_many_frames_are_done(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    for number in range(5):
        (root / f"m{number}.py").write_text(f"def f{number}(): ...\n")
    done: list[int] = []
    with Workspace.open(root) as workspace:
        workspace.scan()
        made = workspace.regenerate(progress=done.append)
        assert sum(done) == made["regenerated"] + made["reused"] == 6
        (root / "m0.py").write_text("def g(): ...\n")
        done.clear()
        workspace.synthesize("", frame_type="outline", progress=done.append)
        assert sum(done) == 2


def test_in_a_team_it_tells_of_every_portion_and_of_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", f"sqlite:///{tmp_path}/team.sqlite")
    monkeypatch.setattr(sharing, "PORTION", 2)
    told = {}
    for clone in ("first", "second"):
        root = tmp_path / clone
        root.mkdir()
        for number in range(5):
            (root / f"m{number}.py").write_text(f"def f{number}(): ...\n")
        done: list[int] = []
        with Workspace.open(root) as workspace:
            workspace.scan()
            workspace.regenerate(progress=done.append)
        told[clone] = done
    assert sum(told["first"]) == sum(told["second"]) == 6
    assert len(told["first"]) > len(told["second"]) == 1


def test_the_first_question_tells_how_many_texts_it_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "AT_ONCE", 3)
    monkeypatch.setattr(postings, "TOGETHER", 4)
    for number in range(5):
        (tmp_path / f"m{number}.py").write_text(f"def f{number}(): ...\n")
    done: list[int] = []
    with Workspace.open(tmp_path) as workspace:
        workspace.scan()
        # What generators make is indexed by those who make it; notes that come together are not.
        workspace.regenerate()
        workspace.agent_add("ann", "writer")
        workspace.put_frames(
            [
                {"node": "m0.py", "content": f"word{n}", "type": "note", "agent": "ann"}
                for n in range(6)
            ]
        )
        # Without a question nothing needs to be indexed.
        assert workspace.compose(progress=done.append)["items"]
        assert done == []
        assert workspace.compose(query="f3", progress=done.append)["items"][0]["path"] == "m3.py"
        assert done == [4, 2]
        workspace.compose(query="f3", progress=done.append)
        assert done == [4, 2]


def test_a_scan_tells_how_many_notes_it_carried_along(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "old.txt").write_text("what the note is about\n")
    with Workspace.open(root) as workspace:
        assert workspace.scan()["carried"] == 0
        workspace.agent_add("reviewer", "writer")
        workspace.put_frame("old.txt", "worth reading", frame_type="note", agent="reviewer")
        (root / "old.txt").rename(root / "new.txt")
        assert workspace.scan()["carried"] == 1
        assert workspace.get_node("new.txt")["frames"][0]["content"] == "worth reading"
