"""Component 4, incremental regeneration: one test for each criterion."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.processes import Forked
from tests.support.space import Space, python

CONCATENATE = '[types.outline]\nfile = "outline"\nfolder = "concatenate"\n'


def test_file_change_triggers_minimal_regeneration(project: Space) -> None:
    project.write("src/two/c.py", python("c", args="x, y"))
    planned = project.engine.regenerate("", plan=True)["plan"]
    assert [(step["path"], step["because"]) for step in planned] == [
        ("src/two/c.py", "its content changed"),
        ("src/two", "src/two/c.py changed"),
        ("src", "src/two/c.py changed"),
        ("", "src/two/c.py changed"),
    ]
    assert [path for _, path in project.events()] == [step["path"] for step in planned]


def test_unchanged_nodes_are_not_touched(project: Space) -> None:
    untouched = ("README.md", "src/one", "src/one/a.py", "src/one/b.py")
    before = {path: project.engine.list_frames(path) for path in untouched}
    seqs = project.engine.sql("SELECT path, seq FROM heads ORDER BY path")["rows"]
    project.write("src/two/c.py", python("c", args="x, y"))
    project.events()
    assert {path: project.engine.list_frames(path) for path in untouched} == before
    after = dict(project.engine.sql("SELECT path, seq FROM heads ORDER BY path")["rows"])
    assert [path for path, seq in seqs if after[path] != seq] == ["", "src", "src/two",
                                                                 "src/two/c.py"]  # fmt: skip


def test_regenerated_frame_ids_differ_predictably(project: Space) -> None:
    other = project.clone()
    try:
        before = project.frame("src/one/a.py")["frame_id"]
        for one in (project, other):
            one.write("src/one/a.py", python("a", value=3))
            one.settle()
        for path in ("src/one/a.py", "src/one", "src", ""):
            assert project.frame(path)["frame_id"] == other.frame(path)["frame_id"]
        assert project.frame("src/one/a.py")["frame_id"] != before
        project.write("src/one/a.py", python("a"))
        project.events()
        assert project.frame("src/one/a.py")["frame_id"] == before
    finally:
        other.close()


def test_no_cascading_beyond_the_declared_scope(space: Space) -> None:
    space.declare(CONCATENATE.replace("\nfile", '\nscope = ["src/one", "docs"]\nfile'))
    space.fill({"src/one/a.py": python(), "src/two/b.py": python(), "docs/c.md": "# C\n"})
    space.engine.scan()
    assert {path for _, path in space.events()} == {"src/one/a.py", "src/one", "docs/c.md", "docs"}
    space.write("src/one/a.py", python("a", args="x"))
    space.write("src/two/b.py", python("a", args="x"))
    assert [path for _, path in space.events()] == ["src/one/a.py", "src/one"]
    space.write("src/one/a.py", python("a", args="y"))
    space.write("docs/c.md", "# D\n")
    # Asked for a part, it makes that part.
    assert [path for _, path in space.events("docs")] == ["docs/c.md", "docs"]
    assert space.freshness("src/one") == "stale"
    assert space.events("src/two") == []
    assert [path for _, path in space.events("src/one/a.py", recursive=False)] == ["src/one/a.py"]
    assert space.freshness("src/one") == "stale"
    assert [path for _, path in space.events("src")] == ["src/one"]
    space.valid()


def test_old_frames_remain_accessible(project: Space) -> None:
    contents = [project.frame("src/one/a.py")["content"]]
    for args in ("x", "x, y", "x, y, z"):
        project.write("src/one/a.py", python("a", args=args))
        project.events()
        contents.append(project.frame("src/one/a.py")["content"])
    kept = project.engine.list_frames("src/one/a.py", content=True)["frames"]
    assert [frame["content"] for frame in kept] == contents[::-1]
    assert [frame["head"] for frame in kept] == [True, False, False, False]
    assert {frame["freshness"] for frame in kept[1:]} == {"stale"}
    assert kept[1]["because"] == "a later frame took its place"


def test_regeneration_is_idempotent(project: Space) -> None:
    project.write("src/one/a.py", python("a", args="x"))
    assert project.events()

    def everything() -> object:
        rows = project.engine.sql("SELECT * FROM frames ORDER BY frame_id")["rows"]
        return rows, project.engine.sql("SELECT * FROM heads ORDER BY path, type, agent")["rows"]

    before = everything()
    for _ in range(3):
        document = project.engine.regenerate()
        assert document["unchanged"]
        assert (document["regenerated"], document["reused"], document["events"]) == (0, 0, [])
    project.reopen()
    assert project.events() == []
    assert everything() == before


RIVAL = """
import sys
from pathlib import Path
from tests.support.engines import Engine
with Engine(Path(sys.argv[1]), wait=60) as engine:
    engine.scan()
    engine.regenerate()
    assert engine.validate()["valid"]
"""


def test_concurrent_regeneration_is_handled_safely(space: Space) -> None:
    """Three processes at once: the lock lets one work at a time, the others wait."""
    for number in range(40):
        space.write(f"src/p{number % 4}/m{number}.py", python(f"f{number}"))
    space.engine.scan()
    rivals = [
        Forked(
            [sys.executable, "-c", RIVAL, os.fspath(space.root)],
            env={**os.environ, "PYTHONPATH": os.getcwd()}, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    space.engine.regenerate()
    space.engine.close()
    for rival in rivals:
        _, said = rival.communicate(timeout=60)
        assert rival.returncode == 0, said.decode()
    space.open()
    assert space.events() == []
    rows = space.engine.sql("SELECT count(*), count(DISTINCT frame_id) FROM frames")["rows"]
    assert rows == [[46, 46]]
    space.valid()
