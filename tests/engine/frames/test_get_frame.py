"""`get-frame`: one frame whole, whatever became of it since."""

from __future__ import annotations

import pytest

from indexer.engine.frames.find import UnknownFrameError
from tests.support.space import Space, python


def made(space: Space) -> Space:
    space.fill({"src/a.py": python(), "src/b.py": python("b")})
    space.settle()
    space.engine.add_agent("alice", "writer")
    return space


def test_a_note_says_what_it_is_bound_to_and_what_took_its_place(space: Space) -> None:
    engine = made(space).engine
    node = engine.get_node("src/a.py")
    note = {"frame_type": "note", "agent": "alice"}
    first = engine.put_frame("src/a.py", "first", **note)["frame_id"]
    assert engine.get_frame(first)["freshness"] == "fresh"
    better = {"meta": {"why": "better"}, "replaces": [first[:12]]}
    second = engine.put_frame("src/a.py", "second", **better, **note)["frame_id"]
    old, new = engine.get_frame(first), engine.get_frame(second[:12])
    assert (old["content"], old["freshness"]) == ("first", "stale")
    assert (old["because"], old["inputs"]) == (f"superseded by {second[:12]}", new["inputs"])
    assert (old["supersedes"], old["superseded_by"]) == ([], second)
    assert (new["supersedes"], new["superseded_by"]) == ([first], None)
    assert new["inputs"] == [{"input": "content", "id": node["content_id"]}]
    assert new["meta"] == {"why": "better"}
    assert new["tokens"] == 1
    space.write("src/a.py", python("changed"))
    assert engine.get_frame(second)["freshness"] == "stale"
    assert "changed" in engine.get_frame(second)["because"]


def test_a_folders_frame_names_the_frames_of_its_children(space: Space) -> None:
    engine = made(space).engine
    heads = {path: engine.get_head(path)["heads"][0]["frame_id"] for path in ("src", "src/a.py")}
    found = engine.get_frame(heads["src"])
    named = {one["input"]: one["id"] for one in found["inputs"]}
    assert named["src/a.py"] == heads["src/a.py"]
    assert named.keys() == {"configuration", "src/a.py", "src/b.py"}
    assert found["content"] == engine.get_node("src")["frames"][0]["content"]
    of_file = engine.get_frame(heads["src/a.py"])
    assert of_file["inputs"] == [{"input": "content", "id": of_file["node_id"]}]


def test_a_dropped_body_is_said_to_be_gone(space: Space) -> None:
    engine = made(space).engine
    old = engine.get_head("src/a.py")["heads"][0]["frame_id"]
    space.write("src/a.py", python("other"))
    space.settle()
    engine.compact(0)
    found = engine.get_frame(old)
    assert (found["content"], found["tokens"]) == (None, 0)
    assert found["superseded_by"] == engine.get_head("src/a.py")["heads"][0]["frame_id"]


@pytest.mark.parametrize(
    ("text", "said"), [("no id", "no FrameID"), ("ffff", "no FrameID"), ("0" * 64, "no frame has")]
)
def test_what_is_no_frame_is_refused(space: Space, text: str, said: str) -> None:
    with pytest.raises(UnknownFrameError, match=said) as caught:
        made(space).engine.get_frame(text)
    assert caught.value.hint
