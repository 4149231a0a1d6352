"""What subscribers are told of notes, in which order, without a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer import Workspace
from tests.support.space import Space, python

FILE = "src/one/a.py"


@pytest.fixture
def told(template: Path) -> Iterator[tuple[Space, Workspace, list[dict[str, Any]]]]:
    """A project that nobody serves, its workspace, and what its subscriber was told."""
    space, events = Space(copy_of=template), list[dict[str, Any]]()
    space.engine.close()
    with Workspace.open(space.root) as workspace, workspace.subscribe(events.append):
        workspace.agent_add("ann", "writer")
        yield space, workspace, events
    space.open()
    space.close()


def frames(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What happened to which frames; what was told is forgotten then."""
    found = [(one["action"], one["path"]) for one in events if one["event"] == "frame"]
    events.clear()
    return found


def test_a_note_is_told_of_from_writing_to_carrying(told: Any) -> None:
    space, workspace, events = told
    first = workspace.put_frame(FILE, "one", frame_type="note", agent="ann")["frame_id"]
    (event,) = events
    assert event == {
        "event": "frame", "action": "written", "path": FILE, "type": "note", "frame_id": first,
        "because": "",
    }  # fmt: skip
    assert frames(events) == [("written", FILE)]
    workspace.put_frame(FILE, "one", frame_type="note", agent="ann")
    assert events == []
    two = workspace.put_frame(FILE, "two", frame_type="note", agent="ann", replaces=[first])
    assert [one["because"] for one in events] == ["", f"superseded by {two['frame_id'][:12]}"]
    assert frames(events) == [("written", FILE), ("superseded", FILE)]
    workspace.put_frame("src", "listing", frame_type="note", agent="ann")
    events.clear()

    content = (space.root / FILE).read_text()
    space.write(FILE, "other\n")
    workspace.scan()
    assert [one["event"] for one in events] == ["node", "root", "frame"]
    assert frames(events) == [("stale", FILE)]
    space.write(FILE, content)
    workspace.scan()
    assert frames(events) == [("fresh", FILE)]
    space.write("src/new.py", python("new"))
    workspace.scan()
    assert frames(events) == [("stale", "src")]
    space.move(FILE, "moved.py")
    space.write("README.md", "changed\n")
    workspace.scan()
    nodes = [one["path"] for one in events if one["event"] == "node"]
    assert nodes == sorted(nodes) == ["README.md", "moved.py", FILE]
    assert frames(events) == [("carried", "moved.py"), ("orphaned", FILE)]


def test_a_note_on_an_outline_is_told_of_after_the_outline(told: Any) -> None:
    space, workspace, events = told
    workspace.put_frame(FILE, "on outline", frame_type="note", agent="ann", on="outline")
    events.clear()
    space.write(FILE, python("a", value=9))
    workspace.scan()
    assert frames(events) == []
    workspace.regenerate()
    # The outline says what it said.
    assert ("stale", FILE) not in frames(events)
    space.write(FILE, python("a", args="other"))
    workspace.scan()
    workspace.regenerate()
    happened = frames(events)
    assert happened.index(("generated", FILE)) < happened.index(("stale", FILE))
    space.write(FILE, python("a", value=9))
    workspace.scan()
    workspace.regenerate()
    happened = frames(events)
    assert happened.index(("reused", FILE)) < happened.index(("fresh", FILE))


def test_invalidations_and_sessions_are_told_of_and_agents_are_recorded(told: Any) -> None:
    _, workspace, events = told
    workspace.invalidate("src/one", frame_type="outline", agent="ann")
    assert [one["because"] for one in events] == ["ann invalidated it"] * 3
    assert frames(events) == [
        ("invalidated", "src/one"), ("invalidated", FILE), ("invalidated", "src/one/b.py")
    ]  # fmt: skip
    events.clear()
    workspace.session_new("talk")
    workspace.session_append("talk", type="dialogue", text="hello", role="user")
    workspace.session_show("talk")
    assert events == [{"event": "session", "name": "talk"}] * 2
    with pytest.raises(Exception, match="no agent"):
        workspace.invalidate("src", agent="nobody")


def test_a_callback_that_fails_stops_nothing_and_one_that_is_closed_hears_nothing(
    told: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, workspace, events = told

    def failing(event: dict[str, Any]) -> None:
        raise RuntimeError("no")

    with workspace.subscribe(failing), workspace.subscribe(events.append):
        workspace.put_frame(FILE, "one", frame_type="note", agent="ann")
    assert len(events) == 2
    assert "a callback failed on frame" in caplog.text
    workspace.put_frame(FILE, "two", frame_type="note", agent="ann")
    assert len(events) == 3
