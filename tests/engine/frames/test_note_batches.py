"""Several notes at once, and what a difference between two roots tells of notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.frames.agents import AgentError
from indexer.engine.frames.notes import FrameRefusedError
from indexer.errors import MerkleError
from tests.support.space import Space, python

FILE = "src/one/a.py"
NOTE = {"type": "note", "agent": "ann"}


def test_several_notes_are_stored_together_or_not_at_all(project: Space) -> None:
    engine = project.engine
    old = project.note(FILE, "old")["frame_id"]
    last = engine.records.journal.last
    for wrong, said in (
        ({"node": FILE, "content": "", **NOTE}, "frame 2: the content is empty"),
        ({"node": "nowhere", "content": "x", **NOTE}, "frame 2: nowhere is not in the index"),
        ({"node": FILE, "content": "x", "type": "note"}, "frame 2: agent is required"),
        ({"node": FILE, "content": "x", **NOTE, "odd": 1}, "frame 2: 'odd' is not an argument"),
        ({"node": FILE, "content": "x", **NOTE, "agent": "no"}, "frame 2: there is no agent"),
        ("text", "frame 2: it is no object"),
    ):
        with pytest.raises(MerkleError, match=said) as caught:
            engine.put_frames([{"node": FILE, "content": "fine", **NOTE}, wrong])
        assert caught.value.hint or said.endswith("required")
    assert engine.records.journal.last == last
    assert engine.get_node(FILE, frame_type="note")["frame_count"] == 1
    with pytest.raises(FrameRefusedError, match="more than are stored together"):
        engine.put_frames([{}] * 1001)
    done = engine.put_frames(
        [
            {"node": FILE, "content": "one", **NOTE, "replaces": [old]},
            {"node": FILE, "content": "two", **NOTE, "meta": {"why": "batch"}},
            {"node": "src", "content": "three", **NOTE, "on": "listing"},
        ]
    )["frames"]
    assert [one["path"] for one in done] == [FILE, FILE, "src"]
    assert done[0]["replaced"] == [old]
    assert all(one["created"] and one["freshness"] == "fresh" for one in done)
    found = engine.get_node(FILE, frame_type="note")["frames"]
    # In the order in which they were given, the newest first.
    assert [frame["content"] for frame in found] == ["two", "one"]
    project.valid()
    assert issubclass(AgentError, MerkleError)


def changes(found: Any) -> list[tuple[str, str, str | None]]:
    return [(one["change"], one["path"], one["from"]) for one in found["notes"]]


def test_a_difference_tells_which_notes_a_change_made_stale_and_which_it_carried(
    project: Space, tmp_path: Path
) -> None:
    engine = project.engine
    project.note(FILE, "on content")
    kept = project.note(FILE, "on outline", on="outline")
    project.note("src/one", "on listing")
    project.note("src/two/c.py", "comes along")
    project.note("README.md", "stays")
    start = engine.status()["root"]
    content = (project.root / FILE).read_text()
    project.write(FILE, python("a", value=9))
    project.move("src/two/c.py", "src/three/c.py")
    project.settle()
    found = engine.diff(start, "@-0")
    assert changes(found) == [("stale", FILE, None), ("carried", "src/three/c.py", "src/two/c.py")]
    assert found["notes"][0]["frame_id"] != kept["frame_id"]
    assert engine.report(base=start)["since_base"]["notes"] == found["notes"]
    middle = engine.status()["root"]
    project.write(FILE, content)
    project.write("src/one/new.py", python("new"))
    (project.root / "README.md").unlink()
    project.settle()
    assert changes(engine.diff(middle, "@-0")) == [
        ("orphaned", "README.md", None), ("stale", "src/one", None), ("fresh", FILE, None)
    ]  # fmt: skip
    project.write(FILE, python("a", args="x"))
    project.settle()
    both = changes(engine.diff("@-1", "@-0"))
    assert both == [("stale", FILE, None)] * 2
    assert json.dumps(engine.diff("@-0", "@-0")["notes"]) == "[]"


def test_a_priority_leaves_nothing_out_unless_asked(project: Space) -> None:
    project.note(FILE, "a note")
    project.note(FILE, "a review", frame_type="review", agent="bob")
    engine, asked = project.engine, {"nodes": [FILE], "sources": ["node"]}
    found = engine.compose(**asked, order="type", types=["review", "outline"])
    assert [item["type"] for item in found["items"]] == ["review", "outline", "note"]
    found = engine.compose(**asked, order="type", types=["review", "outline"], only=True)
    assert [item["type"] for item in found["items"]] == ["review", "outline"]
    found = engine.compose(**asked, order="agent", agents=["bob"])
    assert [item["agent"] for item in found["items"]] == ["bob", "ann", "merkle:outline"]
    # What does not give the order leaves out, as before.
    found = engine.compose(**asked, order="agent", agents=["bob"], types=["note"])
    assert [item["type"] for item in found["items"]] == ["note"]
    recorded = engine.compose(**asked, order="agent", agents=["bob"], only=True, record=True)
    assert engine.replay(recorded["manifest_id"])["request"]["only"] is True
    project.valid()
