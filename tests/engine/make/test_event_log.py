"""What runs and what does not, by event log: equal output would not prove minimality."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from indexer.core.clock import ManualClock
from indexer.core.code import FactsKey
from indexer.core.frames import Head
from indexer.core.kinds import Kind
from indexer.core.listing import ListedFolder
from indexer.core.tree import Entry, Folder
from indexer.engine.make import one_pass as regeneration
from indexer.engine.make import workers
from indexer.engine.make.processes import HelperProcesses
from indexer.engine.make.workers import FileSource
from indexer.engine.tree.scan import scan
from indexer.generators.facts import facts_key
from indexer.regenerate.plan import Rules
from indexer.store.code import CodeStore
from indexer.store.frames import FrameBatch, FrameStore
from tests.support.space import Space, python

CONCATENATE = '[types.outline]\nfile = "outline"\nfolder = "concatenate"\n'


def test_edited_body_with_the_same_outline_runs_one_generator_and_no_policy(
    project: Space,
) -> None:
    project.write("src/one/a.py", python("a", value=2))
    assert project.events() == [
        ("generated", "src/one/a.py"),
        ("reused", "src/one"),
        ("reused", "src"),
        ("reused", ""),
    ]
    assert project.events() == []
    project.valid()


def test_edited_signature_runs_the_leaf_and_its_ancestors_each_once(space: Space) -> None:
    space.declare(CONCATENATE)
    space.fill({"src/one/a.py": python("a"), "src/one/b.py": python("b"), "x/c.py": python("c")})
    space.settle()
    space.write("src/one/a.py", python("a", args="a, b"))
    assert space.events() == [
        ("generated", "src/one/a.py"),
        ("generated", "src/one"),
        ("generated", "src"),
        ("generated", ""),
    ]
    assert space.events() == []
    space.valid()


def test_edited_signature_with_summaries_stops_where_a_summary_stays_the_same(
    project: Space,
) -> None:
    project.write("src/one/a.py", python("a", args="a, b"))
    log = project.events()
    assert [path for _, path in log] == ["src/one/a.py", "src/one", "src", ""]
    assert log[0][0] == "generated"


def test_two_edits_in_one_folder_make_it_once(project: Space) -> None:
    project.write("src/one/a.py", python("a", args="x"))
    project.write("src/one/b.py", python("b", args="x"))
    assert [path for _, path in project.events()] == [
        "src/one/a.py", "src/one/b.py", "src/one", "src", "",
    ]  # fmt: skip


def test_the_same_name_and_content_in_two_places_is_computed_once(space: Space) -> None:
    space.fill({"a/__init__.py": python("f"), "b/__init__.py": python("f")})
    space.engine.scan()
    log = space.events()
    assert ("generated", "a/__init__.py") in log
    assert ("reused", "b/__init__.py") in log
    assert ("generated", "a") in log
    assert ("reused", "b") in log
    assert space.frame("a/__init__.py")["frame_id"] != space.frame("b/__init__.py")["frame_id"]


def test_switching_branch_and_back_runs_no_generator(project: Space) -> None:
    one = {
        "src/one/a.py": python("a"), "src/two/c.py": python("c"), "README.md": "# Project\n",
    }  # fmt: skip
    two = {
        "src/one/a.py": python("other", args="x"), "src/two/c.py": python("c2"),
        "README.md": "# Another\n",
    }  # fmt: skip
    project.fill(one)
    project.settle()
    project.fill(two)
    project.write("src/three/d.py", python("d"))
    assert any(action == "generated" for action, _ in project.events())
    project.fill(one)
    os.unlink(project.root / "src/three/d.py")
    (project.root / "src/three").rmdir()
    back = project.events()
    assert back
    assert {action for action, _ in back} == {"reused"}
    project.fill(two)
    project.write("src/three/d.py", python("d"))
    assert {action for action, _ in project.events()} == {"reused"}
    project.valid()


def test_a_fresh_clone_with_an_imported_pack_runs_no_generator(project: Space) -> None:
    pack = project.base / "frames.pack"
    project.engine.export_pack(pack)
    clone = project.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        log = clone.events()
        assert len(log) == 8
        assert {action for action, _ in log} == {"reused"}
        for path in ("", "src", "src/one/a.py"):
            assert clone.frame(path)["frame_id"] == project.frame(path)["frame_id"]
        clone.valid()
    finally:
        clone.close()


def test_a_renamed_folder_runs_no_file_generator_and_only_policies_of_changed_listings(
    space: Space,
) -> None:
    space.declare(CONCATENATE)
    space.fill(
        {
            "src/one/deep/a.py": python("a"),
            "src/one/b.py": python("b"),
            "src/two/c.py": python("c"),
            "other/d.py": python("d"),
        }
    )
    space.settle()
    space.move("src/one", "src/uno")
    log = space.events()
    assert [path for action, path in log if action == "generated"] == ["src", ""]
    assert [path for action, path in log if action == "reused"] == [
        "src/uno/b.py", "src/uno/deep/a.py", "src/uno/deep", "src/uno",
    ]  # fmt: skip
    assert space.events() == []
    space.valid()


def test_txt_renamed_to_py_gets_the_other_languages_outline(space: Space) -> None:
    space.write("a.txt", python("spoken"))
    space.settle()
    before = space.frame("a.txt")["content"]
    space.move("a.txt", "a.py")
    assert ("generated", "a.py") in space.events()
    after = space.frame("a.py")
    assert after["freshness"] == "fresh"
    assert after["content"] != before
    assert "[python]" in after["content"]


def test_chunks_of_any_size_give_the_same_frames(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {path: project.frame(path)["frame_id"] for path in ("", "src", "src/one")}
    monkeypatch.setattr(regeneration, "CHUNK", 1)
    other = project.clone()
    try:
        other.settle()
        assert {path: other.frame(path)["frame_id"] for path in whole} == whole
        other.valid()
    finally:
        other.close()


def test_worker_processes_give_the_frames_that_this_process_gives(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MANY", 1)
    other = project.clone()
    try:
        other.settle()
        for path in ("", "src", "src/one/a.py", "README.md"):
            assert other.frame(path)["frame_id"] == project.frame(path)["frame_id"]
    finally:
        other.close()


@pytest.mark.parametrize("lacking", ["interpreter", "room"])
def test_without_worker_processes_this_process_makes_the_same_frames(
    project: Space, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    tried: list[object] = []

    def refused(*_: object, **__: object) -> None:
        tried.append(lacking)
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(workers, "MANY", 1)
    monkeypatch.setattr(regeneration, "CHUNK", 2)
    if lacking == "interpreter":
        monkeypatch.setattr(sys, "executable", "")
    else:
        monkeypatch.setattr(subprocess, "Popen", refused)
    other = project.clone()
    try:
        other.settle()
        for path in ("", "src", "src/one/a.py", "README.md"):
            assert other.frame(path)["frame_id"] == project.frame(path)["frame_id"]
        # It is not tried again for every two frames.
        assert len(tried) <= 4
    finally:
        other.close()


def test_what_workers_make_ahead_of_its_turn_is_asked_for_once(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MANY", 1)
    monkeypatch.setattr(regeneration, "CHUNK", 2)
    log: list[str] = []
    begin, store = HelperProcesses.begin, regeneration.OnePass._store

    def asked(self: HelperProcesses, question: list[FileSource]) -> Future[object]:
        log.extend(one.path for one in question)
        return begin(self, question)

    def stored(self: regeneration.OnePass, batch: FrameBatch) -> None:
        log.append("stored")
        store(self, batch)

    monkeypatch.setattr(HelperProcesses, "begin", asked)
    monkeypatch.setattr(regeneration.OnePass, "_store", stored)
    other = project.clone()
    try:
        other.settle()
        assert log[: log.index("stored")] == [
            "README.md", "src/one/a.py", "src/one/b.py", "src/two/c.py",
        ]  # fmt: skip
        assert set(log[4:]) == {"stored"}
        for path in ("", "src", "src/one/a.py", "README.md"):
            assert other.frame(path)["frame_id"] == project.frame(path)["frame_id"]
        other.valid()
    finally:
        other.close()


def test_memo_survives_a_restart(project: Space) -> None:
    project.write("src/one/a.py", python("a", args="other"))
    project.events()
    project.reopen()
    project.write("src/one/a.py", python("a"))
    assert {action for action, _ in project.events()} == {"reused"}


def many_files(root: Path, count: int) -> list[str]:
    """Small sources, ten to a folder, ten folders to a folder."""
    made = []
    for number in range(count):
        path = f"p{number // 1000}/q{number // 100 % 10}/r{number // 10 % 10}/m{number}.py"
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(python(f"f{number}"))
        made.append(path)
    return made


def check_nothing_else_is_touched(space: Space, count: int) -> None:
    made = many_files(space.root, count)
    space.declare(CONCATENATE.replace('"concatenate"', '{ use = "concatenate", max_tokens = 200 }'))
    space.settle()
    edited = made[count // 2]
    folders = [edited.rsplit("/", up)[0] for up in range(1, 4)] + [""]
    before = space.engine.sql("SELECT count(*) FROM frames")["rows"][0][0]
    heads = space.engine.sql("SELECT max(seq) FROM heads")["rows"][0][0]
    space.write(edited, python(f"f{count // 2}", value=7))
    assert space.events() == [("generated", edited), *(("reused", path) for path in folders)]
    space.write(edited, python("renamed"))
    log = space.events()
    assert [path for _, path in log] == [edited, *folders]
    assert log[:2] == [("generated", edited), ("generated", folders[0])]
    after = space.engine.sql("SELECT count(*) FROM frames")["rows"][0][0]
    assert after - before == 10
    moved = space.engine.sql(f"SELECT path FROM heads WHERE seq > {heads} ORDER BY path")["rows"]
    assert sorted(row[0] for row in moved) == sorted([edited, *folders])
    assert space.events() == []


def test_nothing_else_is_touched_on_a_workspace_of_many_files(space: Space) -> None:
    check_nothing_else_is_touched(space, 1_100)


@pytest.mark.soak
def test_nothing_else_is_touched_on_a_10000_file_workspace(space: Space) -> None:
    check_nothing_else_is_touched(space, 10_000)


def test_time_takes_no_part_in_what_is_made() -> None:
    made = []
    for start in (10**18, 10**18 + 10**16):
        space = Space(clock=ManualClock(start))
        try:
            space.write("a.py", python())
            space.settle()
            made.append(space.frame("")["frame_id"])
        finally:
            space.close()
    assert made[0] == made[1]


FILES_ONLY = (
    '[types.outline]\nfile = "outline"\n[types.brief]\ninput = "outline"\nfile = "outline"\n'
)


def test_types_without_folder_frames_look_only_where_something_changed(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.declare(FILES_ONLY)
    space.fill(
        {f"p{k}/q{m}/f{n}.py": python("f") for k in range(6) for m in range(6) for n in (1, 2)}
    )
    space.settle()
    space.settle()
    looked: list[str] = []
    is_current = Rules.is_current

    def counted(rules: Rules, head: Head | None, entry: Entry) -> bool:
        looked.append(rules.type)
        return is_current(rules, head, entry)

    monkeypatch.setattr(Rules, "is_current", counted)
    space.write("p3/q4/f1.py", python("g"))
    assert space.typed_events() == [
        ("generated", "outline", "p3/q4/f1.py"),
        ("generated", "brief", "p3/q4/f1.py"),
    ]
    # The two files of the folder, for planning and for storing, and what the input asks.
    assert len(looked) < 20
    looked.clear()
    assert space.typed_events() == []
    assert len(looked) < 20
    space.valid()


def test_an_invalidated_file_of_such_a_type_is_found_again(space: Space) -> None:
    space.declare(FILES_ONLY)
    space.fill({"a/b/c.py": python("f"), "a/d.py": python("g")})
    space.settle()
    assert space.events() == []
    space.engine.invalidate("a/b/c.py", frame_type="brief")
    assert space.typed_events() == [("generated", "brief", "a/b/c.py")]
    assert space.events() == []


def test_one_edit_in_a_new_process_loads_nothing_whole(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill({f"src/p{number % 5}/m{number}.py": python(f"f{number}") for number in range(40)})
    # Files as young as a scan are read again by the next one, which decodes their folders.
    time.sleep(0.025)
    space.settle()
    space.reopen()

    def refused(*_: object) -> None:
        raise AssertionError("one edit needs little of what is stored")

    with monkeypatch.context() as patched:
        patched.setattr(FrameStore, "each_head", refused)
        patched.setattr(FrameStore, "memo", refused)
        patched.setattr(CodeStore, "known", refused)
        space.write("src/p1/m1.py", python("f1", value=2))
        space.settle()
        assert list(_decoded(space.engine.tree.root)) == ["", "src", "src/p1"]
    assert space.labels() == dict.fromkeys(space.labels(), "fresh")
    assert space.engine.frames.code.lacking(_keys(space)) == set()
    space.valid()


def test_facts_that_an_edit_left_out_are_found_in_the_next_process(space: Space) -> None:
    space.fill({f"src/p{number % 5}/m{number}.py": python(f"f{number}") for number in range(20)})
    space.settle()
    space.reopen()
    space.write("src/p1/m1.py", python("f1", value=2))
    space.write("new/far/m.py", python("far"))
    # Only recorded: what makes facts comes later, in another process.
    scan(space.engine)
    space.reopen()
    missing = {one.path for one in space.engine.frames.code.missing(space.engine.tree, 1 << 20)}
    assert missing == {"src/p1/m1.py", "new/far/m.py"}
    space.settle()
    assert space.engine.frames.code.lacking(_keys(space)) == set()


def _keys(space: Space) -> set[FactsKey]:
    return {
        facts_key(path, entry.content_id)
        for path, entry in space.engine.tree.walk()
        if entry.kind is Kind.FILE
    }


def _decoded(folder: Folder, path: str = "") -> Iterator[str]:
    """The folders that somebody has looked into."""
    if not isinstance(folder, ListedFolder) or folder.listing() is None:
        yield path
        for name, entry in folder.entries.items():
            if entry.folder is not None:
                yield from _decoded(entry.folder, f"{path}/{name}".lstrip("/"))
