"""`diff` of two roots: which generated frames belong to the one and which to the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.space import Space, python


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space()
    made.write("src/a.py", python("a"))
    made.write("b.md", "# B\n")
    made.settle()
    yield made
    made.close()


def moved(space: Space, old: str = "@-1", new: str = "@-0") -> dict[str, tuple[Any, Any, Any]]:
    """By path: what happened to its outline, from which frame to which."""
    found = space.engine.diff(old, new)["frames"]
    assert {frame["type"] for frame in found} <= {"outline"}
    assert [frame["path"] for frame in found] == sorted(frame["path"] for frame in found)
    return {frame["path"]: (frame["change"], frame["old"], frame["new"]) for frame in found}


def heads(space: Space, *paths: str) -> dict[str, str]:
    return {path: space.frame(path)["frame_id"] for path in paths}


def test_an_edit_replaces_the_frames_on_its_path(space: Space) -> None:
    touched = ("", "src", "src/a.py")
    before = heads(space, *touched)
    space.write("src/a.py", python("other"))
    space.settle()
    after = heads(space, *touched)
    wanted = {path: ("modified", before[path], after[path]) for path in touched}
    assert moved(space) == wanted
    backwards = {path: ("modified", after[path], before[path]) for path in touched}
    assert moved(space, "@-0", "@-1") == backwards
    assert moved(space, "@-0", "@-0") == {}


def test_what_has_not_been_made_yet_is_missing(space: Space) -> None:
    before = heads(space, "", "src", "src/a.py")
    space.write("src/a.py", python("other"))
    space.engine.scan()
    assert moved(space) == {path: ("missing", frame, None) for path, frame in before.items()}
    # A frame counts for the content that it is about, however late it comes.
    space.engine.regenerate()
    assert {change for change, _, _ in moved(space).values()} == {"modified"}


def test_content_that_comes_back_has_its_frames_back(space: Space) -> None:
    first = heads(space, "", "src", "src/a.py")
    for name in ("other", "a"):
        space.write("src/a.py", python(name))
        space.settle()
    assert {path: new for path, (_, _, new) in moved(space).items()} == first
    assert moved(space, "@-2", "@-0") == {}


def test_what_came_and_what_went(space: Space) -> None:
    gone = heads(space, "b.md")["b.md"]
    (space.root / "b.md").unlink()
    space.write("c.md", "# C\n")
    space.settle()
    found = moved(space)
    assert found["b.md"] == ("removed", gone, None)
    assert found["c.md"] == ("added", None, space.frame("c.md")["frame_id"])
    assert found[""][0] == "modified"
    assert set(found) == {"", "b.md", "c.md"}


def test_notes_are_not_said_to_move(space: Space) -> None:
    """A note may outlive the content it was written about, so a root cannot tell."""
    space.note("src", "about the folder", on="listing")
    space.write("src/a.py", python("other"))
    space.settle()
    assert space.frame("src", "note")["freshness"] == "fresh"
    assert set(moved(space)) == {"", "src", "src/a.py"}


def test_the_frame_that_was_the_head_last_stands_for_the_content(space: Space) -> None:
    space.declare('[types.outline]\nfile = "outline"\nfolder = "concatenate"\n')
    space.settle()
    space.declare('[types.outline]\nfile = "outline"\nfolder = { use = "summarize" }\n')
    space.settle()
    (head,) = space.engine.get_head("")["heads"][-1:]
    by_agent = {
        frame["agent"]: frame
        for frame in space.engine.diff("@-1", "@-0")["frames"]
        if frame["path"] == ""
    }
    assert by_agent["merkle:summarize"]["new"] == head["frame_id"]
    assert by_agent["merkle:concatenate"]["change"] == "missing"
