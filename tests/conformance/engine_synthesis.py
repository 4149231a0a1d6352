"""Component 3, branch context synthesis: one test for each criterion, and one more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.errors import UsageError
from tests.support.space import Space, python

CONCATENATE = '[types.outline]\nfile = "outline"\nfolder = "concatenate"\n'


def test_same_child_frames_give_the_same_branch_frame(project: Space) -> None:
    other = project.clone()
    try:
        # Another order of creation, other times, other places.
        os.utime(other.root / "src/one/a.py", (1, 1))
        other.engine.scan()
        for path in ("src/two", "src/one", "src", ""):
            other.engine.synthesize(path, frame_type="outline")
        for path in ("", "src", "src/one", "src/two"):
            assert other.frame(path)["frame_id"] == project.frame(path)["frame_id"]
            assert other.frame(path)["content"] == project.frame(path)["content"]
    finally:
        other.close()


SCRIPT = """
import sys
from pathlib import Path
from tests.support.engines import Engine
with Engine.create(Path(sys.argv[1])) as engine:
    engine.scan()
    engine.regenerate()
    for path in ("", "src", "src/one"):
        print(engine.get_head(path)["heads"][0]["frame_id"])
"""


@pytest.mark.parametrize("seed", ["0", "4242"])
def test_same_child_frames_give_the_same_branch_frame_in_another_process_and_place(
    project: Space, tmp_path: Path, seed: str
) -> None:
    place = tmp_path / "a rather different place" / "deeper"
    shutil.copytree(project.root, place, ignore=shutil.ignore_patterns(".merkle"))
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, os.fspath(place)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd(), "TZ": "Asia/Tokyo"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = [
        project.engine.get_head(path)["heads"][0]["frame_id"] for path in ("", "src", "src/one")
    ]
    assert ran.stdout.split() == expected


def test_child_change_invalidates_parent_basis(space: Space) -> None:
    space.declare(CONCATENATE)
    space.fill({"src/a.py": python("a"), "src/b.py": python("b")})
    space.settle()
    (before,) = space.engine.get_head("src")["heads"]
    space.write("src/a.py", python("a", value=2))
    assert space.freshness("src") == "stale"
    space.events()
    (after,) = space.engine.get_head("src")["heads"]
    # The outline is the same, yet the child's frame is another one.
    assert before["basis"] != after["basis"]
    assert before["frame_id"] != after["frame_id"]


def test_synthesis_is_limited_to_the_subtree(project: Space) -> None:
    other = project.clone()
    try:
        other.write("README.md", "# Something else\n")
        other.write("src/two/c.py", python("entirely_other"))
        other.write("more/of/it.py", python("it"))
        other.engine.scan()
        made = other.engine.synthesize("src/one", frame_type="outline")
        assert {event["path"] for event in made["events"]} == {
            "src/one", "src/one/a.py", "src/one/b.py",
        }  # fmt: skip
        assert made["frame_id"] == project.frame("src/one")["frame_id"]
        for path in ("", "src", "src/two", "README.md"):
            assert other.engine.get_head(path)["heads"] == []
    finally:
        other.close()


def test_no_synthesis_without_a_declared_trigger(space: Space) -> None:
    space.fill({"src/a.py": python("a")})
    space.engine.scan()
    space.write("src/a.py", python("b"))
    space.engine.reconcile([("src/a.py", False)])
    space.engine.get_node("src")
    space.engine.status()
    assert space.engine.sql("SELECT count(*) FROM frames")["rows"] == [[0]]
    with pytest.raises(UsageError, match="not declared"):
        space.engine.regenerate("src", frame_type="undeclared")
    space.engine.synthesize("src", frame_type="outline")
    assert space.engine.sql("SELECT count(*) FROM frames")["rows"] == [[2]]


def test_an_empty_directory_produces_a_stable_empty_frame(space: Space) -> None:
    (space.root / "one/empty").mkdir(parents=True)
    (space.root / "two").mkdir()
    space.write("x.py", "")
    space.settle()
    first, second = space.frame("one/empty"), space.frame("two")
    assert first["content"] == second["content"] == "[folder] empty\n"
    assert first["freshness"] == "fresh"
    again = space.engine.synthesize("two", frame_type="outline")
    assert (again["frame_id"], again["frames"]) == (second["frame_id"], 0)


def test_synthesis_preserves_frame_ordering(space: Space) -> None:
    space.declare(CONCATENATE)
    names = ["b.py", "B.py", "a.py", "é.py", "z/y.py", "0.py"]
    for name in names:
        space.write(f"src/{name}", python("f"))
    space.settle()
    content = space.frame("src")["content"]
    order = [line[3:] for line in content.splitlines() if line.startswith("## ")]
    top = [name for name in order if name != "y.py"]
    assert top == ["0.py", "B.py", "a.py", "b.py", "z/", "é.py"]
    other = Space()
    try:
        other.declare(CONCATENATE)
        for name in reversed(names):
            other.write(f"src/{name}", python("f"))
        other.settle()
        assert other.frame("src")["frame_id"] == space.frame("src")["frame_id"]
    finally:
        other.close()


def test_another_policy_on_request_leaves_what_is_declared_as_it_was(project: Space) -> None:
    made = project.engine.synthesize("src", frame_type="outline", policy="concatenate")
    assert made["frame_id"] != project.frame("src", agent="merkle:summarize")["frame_id"]
    for path in ("", "src", "src/one", "src/one/a.py"):
        labels = {
            head["agent"]: head["freshness"] for head in project.engine.get_head(path)["heads"]
        }
        labels.pop("merkle:concatenate", None)
        assert set(labels.values()) == {"fresh"}
    assert project.events() == []
    # Asking for the declared one by name is the declared one, options included.
    same = project.engine.synthesize("src", frame_type="outline", policy="summarize")
    assert same["frames"] == 0
    project.valid()
