"""What could make a label lie, a memo collide or a failure leave something half done."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from indexer.core.frames import FrameId
from indexer.engine.make import one_pass as regeneration
from indexer.engine.make import workers
from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import one_pass
from indexer.errors import CorruptError, UsageError
from tests.support.space import Space, python


def test_a_folder_above_an_edited_not_yet_regenerated_file_is_never_shown_as_fresh(
    project: Space,
) -> None:
    project.write("src/one/a.py", python("a", value=3))
    for path in ("src/one", "src", ""):
        found = project.frame(path)
        assert (found["freshness"], found["because"]) == ("stale", "src/one/a.py changed")
    assert project.freshness("src/two") == "fresh"
    project.engine.scan()
    assert project.freshness("") == "stale"
    assert project.engine.status()["types"]["outline"]["stale"] == 4
    project.events("src/one/a.py", recursive=False)
    for path in ("src/one", "src", ""):
        assert project.freshness(path) == "stale"
    project.events("src/one")
    assert [project.freshness(path) for path in ("src/one", "src", "")] == [
        "fresh", "stale", "stale",
    ]  # fmt: skip


def test_a_file_regenerated_alone_and_put_back_does_not_hide_below_a_fresh_folder(
    project: Space,
) -> None:
    old = (project.root / "src/one/a.py").read_bytes()
    project.write("src/one/a.py", python("a", args="other"))
    project.events("src/one/a.py", recursive=False)
    project.write("src/one/a.py", old)
    assert project.freshness("src/one/a.py") == "stale"
    assert project.freshness("src/one") == "stale"
    assert project.freshness("") == "stale"
    assert ("reused", "src/one/a.py") in project.events()
    assert set(project.labels().values()) == {"fresh"}
    project.valid()


def test_a_folder_with_a_child_that_failed_is_not_fresh(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = workers._generate

    def fails(generator: Any, source: Any, *wanted: Any) -> Any:
        if source.name == "a.py":
            return workers.Generated(None, "ValueError: no")
        return generate(generator, source, *wanted)

    project.write("src/one/a.py", python("a", args="x"))
    with monkeypatch.context() as patch:
        patch.setattr(workers, "_generate", fails)
        document = project.engine.regenerate()
        assert [(one["path"], one["message"]) for one in document["failed"]] == [
            ("src/one/a.py", "ValueError: no")
        ]
        assert project.freshness("src/one") == "stale"
        assert project.freshness("") == "stale"
        again = project.engine.regenerate()
        assert [event["action"] for event in again["events"]] == ["failed"]
    project.events()
    assert project.freshness("") == "fresh"
    project.valid()


def test_a_child_that_never_had_a_frame_is_named(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill({"src/a.py": python(), "src/b.py": python()})
    space.engine.scan()
    monkeypatch.setattr(workers, "_generate", lambda *_: workers.Generated(None, "ValueError: no"))
    space.events()
    found = space.frame("src")
    assert (found["freshness"], found["because"]) == ("stale", "src/a.py has no frame yet")
    (link,) = space.engine.explain("src")["chain"]
    assert (link["path"], link["input"], link["old"]) == ("src", "src/a.py", None)
    space.valid()


def test_a_file_above_the_size_limit_has_no_frame_and_its_folder_is_fresh(space: Space) -> None:
    space.declare("[scan]\nsize_limit = 100\n")
    space.fill({"src/a.py": python(), "src/big.py": "x" * 101})
    space.settle()
    assert space.engine.get_head("src/big.py")["heads"] == []
    assert space.freshness("src") == "fresh"
    space.write("src/big.py", "x" * 90)
    assert space.freshness("src") == "stale"
    space.events()
    assert space.freshness("src/big.py") == "fresh"
    space.write("src/big.py", "x" * 101)
    space.events()
    (head,) = space.engine.get_head("src/big.py")["heads"]
    assert head["freshness"] == "unmanaged"
    assert space.freshness("src") == "fresh"
    space.valid()


def test_a_file_that_changes_while_it_is_regenerated_is_not_fresh(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = workers.read_content

    def races(root: Any, path: str, size: int) -> bytes | None:
        content = read(root, path, size)
        project.write("src/one/a.py", python("a", args="later"))
        return content

    project.write("src/one/a.py", python("a", args="sooner"))
    with monkeypatch.context() as patch:
        patch.setattr(workers, "read_content", races)
        log = project.events()
    # The frame of what was read is right for what was read, and no longer for what is there.
    assert ("generated", "src/one/a.py") in log
    assert project.freshness("src/one/a.py") == "stale"
    assert project.freshness("") == "stale"
    project.events()
    assert "later" in project.frame("src/one/a.py")["content"]
    project.valid()


def test_a_file_that_changed_between_look_and_read_gets_no_frame_and_its_twin_does(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill({"a/m.py": python("m"), "b/m.py": python("m")})
    space.engine.scan()
    read = workers.read_content

    def gone(root: Any, path: str, size: int) -> bytes | None:
        return b"something else" if path == "a/m.py" else read(root, path, size)

    with monkeypatch.context() as patch:
        patch.setattr(workers, "read_content", gone)
        log = space.events()
    assert ("failed", "a/m.py") in log
    assert ("generated", "b/m.py") in log
    assert space.freshness("b") == "fresh"
    assert space.freshness("a") == "stale"


def test_a_path_that_goes_and_comes_back_has_its_frames_again(project: Space) -> None:
    content = (project.root / "src/one/a.py").read_bytes()
    os.unlink(project.root / "src/one/a.py")
    project.settle()
    (head,) = project.engine.get_head("src/one/a.py")["heads"]
    assert head["freshness"] == "orphaned"
    assert project.freshness("src/one") == "fresh"
    assert "a.py" not in project.frame("src/one")["content"]
    project.write("src/one/a.py", content)
    project.engine.scan()
    assert project.freshness("src/one/a.py") == "fresh"
    assert project.freshness("src/one") == "stale"
    assert {action for action, _ in project.events()} == {"reused"}
    assert "a.py" in project.frame("src/one")["content"]
    project.valid()


def test_a_file_whose_folder_went_is_not_shown_as_fresh(project: Space) -> None:
    project.note("src/one/a.py")
    project.move("src/one", "elsewhere")
    for kind in ("outline", "note"):
        (head,) = project.engine.get_head("src/one/a.py", frame_type=kind)["heads"]
        assert head["freshness"] == "orphaned"
    with pytest.raises(UsageError):
        project.engine.get_node("src/one/a.py")
    with pytest.raises(UsageError):
        project.note("src/one/a.py", "too late")


def test_file_folder_and_link_swapped_at_one_path(project: Space) -> None:
    target = project.root / "src/one/a.py"
    target.unlink()
    target.mkdir()
    (target / "inner.py").write_text(python())
    project.settle()
    labels = {
        head["agent"]: head["freshness"]
        for head in project.engine.get_head("src/one/a.py")["heads"]
    }
    assert labels == {"merkle:outline": "unmanaged", "merkle:summarize": "fresh"}
    (target / "inner.py").unlink()
    target.rmdir()
    target.symlink_to("b.py")
    project.settle()
    assert {head["freshness"] for head in project.engine.get_head("src/one/a.py")["heads"]} == {
        "unmanaged"
    }
    assert project.freshness("src/one") == "fresh"
    target.unlink()
    project.write("src/one/a.py", python("a"))
    project.settle()
    assert set(project.labels().values()) <= {"fresh", "unmanaged"}
    assert project.frame("src/one/a.py", agent="merkle:outline")["freshness"] == "fresh"
    project.valid()


def test_a_link_out_of_the_workspace_is_never_read(space: Space) -> None:
    (space.base / "secret.py").write_text(python("secret_name"))
    space.write("src/a.py", python())
    space.engine.scan()
    # Swapped after the look: the name is the same, the file is another.
    (space.root / "src/a.py").unlink()
    (space.root / "src/a.py").symlink_to(space.base / "secret.py")
    space.engine.served = True
    log = space.events()
    assert ("failed", "src/a.py") in log
    bodies = space.engine.sql("SELECT count(*) FROM frames WHERE path = 'src/a.py'")["rows"]
    assert bodies == [[0]]


def test_invalidate_runs_again_past_the_memo_and_gives_the_same_frames(project: Space) -> None:
    before = {path: project.frame(path)["frame_id"] for path in ("", "src", "src/one/a.py")}
    assert project.engine.invalidate("src/one")["invalidated"] == 3
    found = project.frame("src/one/a.py")
    assert (found["freshness"], found["because"]) == ("stale", "it was invalidated")
    assert project.frame("src")["because"] == "src/one/a.py was invalidated"
    assert project.freshness("src/two") == "fresh"
    assert project.engine.explain("src/one/a.py")["chain"][0]["input"] == "invalidated"
    assert project.events() == [
        ("generated", "src/one/a.py"),
        ("generated", "src/one/b.py"),
        ("generated", "src/one"),
    ]
    assert {path: project.frame(path)["frame_id"] for path in before} == before
    assert set(project.labels().values()) == {"fresh"}
    project.reopen()
    assert project.events() == []
    project.valid()


def test_invalidation_survives_a_lost_database(project: Space) -> None:
    project.engine.invalidate("src/one/a.py")
    project.engine.close()
    (project.root / ".merkle/index.duckdb").unlink()
    project.open()
    project.settle()
    assert set(project.labels().values()) == {"fresh"}
    project.valid()


def test_a_transaction_that_fails_leaves_nothing_behind_in_memory(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More children than a list of inputs that is stored whole every time.
    for number in range(80):
        space.write(f"src/m{number}.py", python(f"f{number}"))
    space.settle()
    space.write("src/m1.py", python("other"))
    with monkeypatch.context() as patch:
        patch.setattr(
            "indexer.store.frames.append_rows",
            lambda *_: (_ for _ in ()).throw(RuntimeError("no room")),
        )
        with pytest.raises(RuntimeError):
            space.engine.regenerate()
    assert space.freshness("src") == "stale"
    assert space.freshness("src/m1.py") == "stale"
    space.valid()
    assert [path for _, path in space.events()] == ["src/m1.py", "src", ""]
    space.write("src/m2.py", python("another"))
    space.events()
    # Every list of inputs can be put together, so the chain has no hole.
    for stored in space.engine.frames.store.history("src"):
        assert stored.frame.inputs is not None
        document = space.engine.frames.store.inputs(stored.frame.inputs)
        assert document is not None
        assert len(document) == 81
    space.reopen()
    assert set(space.labels().values()) == {"fresh"}
    space.valid()


def test_inputs_as_differences_give_back_every_list(space: Space) -> None:
    for number in range(70):
        space.write(f"src/m{number}.py", python(f"f{number}"))
    space.settle()
    for number in range(45):
        space.write(f"src/m{number % 7}.py", python(f"f{number}", args=f"x{number}"))
        space.events("src")
    for stored in space.engine.frames.store.history("src"):
        document = space.engine.frames.store.inputs(stored.frame.inputs or b"")
        assert document is not None
        assert len(document) == 71
    told = space.engine.explain("src")
    assert {link["input"] for link in told["chain"] if link["path"] == "src"} == {"src/m2.py"}


def test_a_write_that_reached_the_journal_only_is_made_up_for(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.note("src/one/a.py", "before")

    def not_committed(batch: Any, seq: int, before_commit: Any) -> None:
        before_commit()
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(project.engine.frames.store, "record", not_committed)
        with pytest.raises(RuntimeError):
            project.note("src/one/a.py", "in between", agent="ann")
    project.note("src/one/b.py", "after")
    contents = project.engine.list_frames("src/one/a.py", frame_type="note", content=True)
    assert [frame["content"] for frame in contents["frames"]] == ["in between", "before"]
    project.reopen()
    assert project.engine.records.redone == 0
    project.valid()


def test_a_missing_body_is_damage_and_not_an_empty_text(project: Space) -> None:
    content = project.engine.frames.heads.head("src/one/b.py", "outline", "merkle:outline")
    assert content is not None
    with project.engine.database.transaction() as connection:
        connection.execute("DELETE FROM bodies WHERE sha256 = ?", [content.content])
    project.reopen()
    assert not project.engine.validate()["valid"]
    project.write("src/one/a.py", python("a", args="x"))
    with pytest.raises(CorruptError):
        project.engine.regenerate()


def test_a_head_whose_frame_is_missing_is_damage(project: Space) -> None:
    with project.engine.database.transaction() as connection:
        connection.execute("DELETE FROM frame_log WHERE path = 'src/one/a.py'")
    project.reopen()
    with pytest.raises(CorruptError):
        project.engine.get_node("src/one/a.py")
    assert not project.engine.validate()["valid"]


def test_types_of_one_name_by_a_note_and_a_generator_are_apart(project: Space) -> None:
    project.note("src/one/a.py", "mine", frame_type="brief")
    project.declare('[types.brief]\nfile = "outline"\nfolder = "concatenate"\n')
    project.settle()
    shown = {
        frame["agent"]: frame["freshness"]
        for frame in project.engine.get_node("src/one/a.py", frame_type="brief")["frames"]
    }
    assert shown == {"ann": "fresh", "merkle:outline": "fresh"}
    assert "mine" not in project.frame("src/one", "brief")["content"]
    project.valid()


def test_a_first_regenerate_scans_by_itself(space: Space) -> None:
    space.write("src/a.py", python())
    assert ("generated", "src/a.py") in space.events()
    space.valid()


def test_reads_while_the_writer_works_see_whole_states(space: Space) -> None:
    for number in range(120):
        space.write(f"src/p{number % 6}/m{number}.py", python(f"f{number}"))
    space.engine.scan()
    space.engine.serve()
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for path in ("", "src", "src/p0", "src/p0/m0.py"):
                    for frame in space.engine.get_node(path)["frames"]:
                        assert frame["content"]
                space.engine.frames.states.of(space.engine.tree, None)
                if space.engine.get_head("src/p0/m0.py")["heads"]:
                    space.engine.explain("src/p0/m0.py")
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        running = one_pass(space.engine, space.engine.frames.types["outline"], Outcome())
        while running.run_some(space.engine.tree, 10):
            pass
        space.engine.compact(0)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert problems == []
    space.valid()


def test_a_cache_loaded_while_something_is_stored_misses_nothing(project: Space) -> None:
    """Each reader starts with nothing loaded, in the middle of writes."""
    found: list[bool] = []

    def load() -> None:
        head = project.engine.frames.heads.head("src/one/a.py", "note", "ann")
        found.append(head is not None)

    project.note("src/one/a.py", "there")
    for number in range(5):
        project.engine.frames.heads.forget()
        reader = threading.Thread(target=load)
        reader.start()
        written = project.note("src/one/a.py", f"note {number}")
        reader.join()
        head = project.engine.frames.heads.head("src/one/a.py", "note", "ann")
        assert head is not None
        assert head.frame_id == FrameId(bytes.fromhex(written["frame_id"]))
    assert all(found)


def test_run_some_ends_with_a_file_that_cannot_be_made(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.fill({"src/a.py": python(), "src/b.py": python("b"), "c.py": python("c")})
    space.engine.scan()
    monkeypatch.setattr(workers, "_generate", lambda *_: workers.Generated(None, "no"))
    running = one_pass(space.engine, space.engine.frames.types["outline"], Outcome())
    rounds = 0
    while running.run_some(space.engine.tree, 2):
        rounds += 1
        assert rounds < 10
    assert running.outcome.count("failed") == 3


def test_a_kill_between_chunks_leaves_what_was_stored_and_nothing_false(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regeneration, "CHUNK", 3)
    for number in range(12):
        space.write(f"src/p{number % 3}/m{number}.py", python(f"f{number}"))
    space.engine.scan()
    keep = space.engine.frames.heads.add
    calls = 0

    def dies(batch: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return keep(batch)

    with monkeypatch.context() as patch:
        patch.setattr(space.engine.frames.heads, "add", dies)
        with pytest.raises(KeyboardInterrupt):
            space.engine.regenerate()
    space.reopen()
    assert space.engine.status()["frames"]["total"] == 6
    space.valid()
    log = space.events()
    assert len(log) == 17 - 6
    assert set(space.labels().values()) == {"fresh"}
    space.valid()


def test_names_of_any_bytes_have_frames_and_notes_that_travel(space: Space) -> None:
    names = [b"\xff.py", b"new\nline.py", "é\u202e.py".encode(), b"back\\slash.py", b" "]
    for name in names:
        folder = os.fsencode(space.root) + b"/odd\xfe"
        os.makedirs(folder, exist_ok=True)
        with open(folder + b"/" + name, "wb") as file:
            file.write(python().encode())
    space.settle()
    texts = [path for path, entry in space.engine.tree.walk() if entry.folder is None]
    assert len(texts) == len(names)
    for number, path in enumerate(texts):
        assert space.freshness(path) == "fresh"
        space.note(path, f"note {number}")
    pack = space.base / "odd.pack"
    space.engine.export_pack(pack)
    clone = space.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        assert {action for action, _ in clone.events()} == {"reused"}
        for number, path in enumerate(texts):
            assert clone.frame(path, "note")["content"] == f"note {number}"
            assert clone.freshness(path, "note") == "fresh"
    finally:
        clone.close()
    os.rename(os.fsencode(space.root) + b"/odd\xfe", os.fsencode(space.root) + b"/even")
    space.engine.scan()
    assert {space.freshness(f"even/{path.split('/')[1]}", "note") for path in texts} == {"fresh"}
    space.valid()


def test_frames_under_sha256_hold_as_well() -> None:
    space = Space(hash_name="sha256")
    try:
        space.fill({"src/a.py": python("a"), "src/b.py": python("b")})
        space.settle()
        space.note("src/a.py", "said")
        space.write("src/a.py", python("a", value=2))
        assert space.freshness("src/a.py", "note") == "stale"
        assert [action for action, _ in space.events()] == ["generated", "reused", "reused"]
        space.move("src", "lib")
        space.engine.scan()
        assert space.frame("lib/a.py", "note")["content"] == "said"
        space.valid()
    finally:
        space.close()
