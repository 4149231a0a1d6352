"""Notes by agents: bound to what was read, stale with a reason, carried, never lost."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from indexer.core.clock import ManualClock
from indexer.engine.frames.agents import AgentError
from indexer.engine.frames.notes import MAX_BODY, FrameRefusedError
from indexer.engine.tree.resolve import UnknownNodeError
from indexer.errors import UsageError
from tests.support.space import Space, python

KEY = "AKIA" + "IOSFODNN7EXAMPLX"
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow" * 20 + "\n-----END RSA PRIVATE KEY-----\n"


def test_a_note_goes_stale_when_the_content_it_is_bound_to_changes(project: Space) -> None:
    assert project.note("src/one/a.py")["freshness"] == "fresh"
    project.write("src/one/a.py", python("a", value=9))
    found = project.frame("src/one/a.py", "note")
    assert found["freshness"] == "stale"
    assert found["because"] == "the content it was written about changed"
    status = project.engine.status()
    assert status["types"]["note"]["stale"] == 1
    (told,) = [one for one in status["not_fresh"] if one["type"] == "note"]
    assert (told["path"], told["agent"], told["freshness"]) == ("src/one/a.py", "ann", "stale")
    assert told["because"] == found["because"]
    explained = project.engine.explain("src/one/a.py", frame_type="note")
    (link,) = explained["chain"]
    assert link["input"] == "content"
    assert link["old"] != link["new"]


def test_a_note_is_fresh_again_when_the_content_comes_back(project: Space) -> None:
    project.note("src/one/a.py")
    project.write("src/one/a.py", python("a", value=9))
    project.engine.scan()
    project.write("src/one/a.py", python("a"))
    assert project.freshness("src/one/a.py", "note") == "fresh"


def test_a_note_on_a_folder_is_bound_to_its_listing(project: Space) -> None:
    assert project.note("src/one")["freshness"] == "fresh"
    project.write("src/one/a.py", python("a", value=9))
    assert project.freshness("src/one", "note") == "fresh"
    project.write("src/one/new.py", "")
    found = project.frame("src/one", "note")
    assert (found["freshness"], found["because"]) == ("stale", "the folder's entries changed")


def test_a_note_on_a_folder_is_bound_to_what_is_on_disk_and_not_to_the_last_scan(
    project: Space,
) -> None:
    project.write("src/one/unscanned.py", "")
    assert project.note("src/one")["freshness"] == "fresh"
    assert project.freshness("src/one", "note") == "fresh"


def test_a_note_on_an_outline_outlives_edits_that_leave_the_outline(project: Space) -> None:
    assert project.note("src/one/a.py", on="outline")["freshness"] == "fresh"
    project.write("src/one/a.py", python("a", value=9))
    assert project.freshness("src/one/a.py", "note") == "unknown"
    project.events()
    assert project.freshness("src/one/a.py", "note") == "fresh"
    project.write("src/one/a.py", python("a", args="b"))
    project.events()
    found = project.frame("src/one/a.py", "note")
    assert (found["freshness"], found["because"]) == (
        "stale", "the outline it was written about changed",
    )  # fmt: skip


def test_a_note_is_born_stale_when_its_author_read_an_older_version(project: Space) -> None:
    read = project.engine.get_node("src/one/a.py")["node_id"]
    project.write("src/one/a.py", python("a", value=9))
    project.engine.scan()
    written = project.note("src/one/a.py", seen=read)
    assert written["freshness"] == "stale"
    assert project.freshness("src/one/a.py", "note") == "stale"
    now = project.engine.get_node("src/one/a.py")["node_id"]
    assert project.note("src/one/a.py", "again", seen=now[:12])["freshness"] == "fresh"


def test_seen_with_an_unscanned_edit_is_born_stale(project: Space) -> None:
    read = project.engine.get_node("src/one/a.py")["node_id"]
    project.write("src/one/a.py", python("a", value=9))
    assert project.note("src/one/a.py", seen=read)["freshness"] == "stale"


def test_seen_of_an_older_version_binds_to_the_outline_of_then(project: Space) -> None:
    read = project.engine.get_node("src/one/a.py")["node_id"]
    project.write("src/one/a.py", python("a", value=9))
    project.events()
    # The outline is the same, so what the author read still holds.
    assert project.note("src/one/a.py", on="outline", seen=read)["freshness"] == "fresh"
    project.write("src/one/a.py", python("a", args="b"))
    project.events()
    assert project.note("src/one/a.py", "2", on="outline", seen=read)["freshness"] == "stale"


def test_seen_that_was_never_an_id_of_the_node_is_refused(project: Space) -> None:
    for seen in ("", "a", "zzzzzzzz", "0123456789abcdef"):
        with pytest.raises(FrameRefusedError):
            project.note("src/one/a.py", seen=seen)
    assert project.engine.list_frames("src/one/a.py", frame_type="note")["frames"] == []


def test_a_note_is_carried_when_its_file_is_renamed(project: Space) -> None:
    first = project.note("src/one/a.py", "keep me", meta={"k": "v"})
    carried = []
    project.engine.frame_subscribers.append(carried.extend)
    project.move("src/one/a.py", "src/two/moved.py")
    project.engine.scan()
    found = project.frame("src/two/moved.py", "note")
    assert (found["content"], found["freshness"], found["action"]) == (
        "keep me", "fresh", "carried",
    )  # fmt: skip
    assert found["meta"] == {"carried_from": first["frame_id"], "k": "v"}
    assert [(event.action, event.path) for event in carried] == [
        ("orphaned", "src/one/a.py"), ("carried", "src/two/moved.py")
    ]  # fmt: skip
    (left,) = project.engine.get_head("src/one/a.py", frame_type="note")["heads"]
    assert left["freshness"] == "orphaned"
    project.valid()


def test_notes_are_carried_when_a_folder_is_renamed(project: Space) -> None:
    project.note("src/one", "of the folder")
    project.note("src/one/a.py", "of the file")
    project.note("src/one/b.py", "of another", agent="bob", frame_type="todo")
    project.move("src/one", "uno")
    project.engine.scan()
    assert project.frame("uno", "note")["content"] == "of the folder"
    assert project.frame("uno/a.py", "note")["content"] == "of the file"
    assert project.frame("uno/b.py", "todo")["content"] == "of another"
    assert {project.freshness("uno", "note"), project.freshness("uno/a.py", "note")} == {"fresh"}
    project.valid()


def test_a_stale_note_stays_stale_when_it_is_carried(project: Space) -> None:
    project.note("src/one/a.py")
    project.write("src/one/a.py", python("a", value=9))
    project.engine.scan()
    project.move("src/one", "uno")
    project.engine.scan()
    assert project.freshness("uno/a.py", "note") == "stale"


def test_a_note_renamed_there_and_back_is_where_it_was(project: Space) -> None:
    first = project.note("src/one/a.py")
    for old, new in (("src/one/a.py", "x.py"), ("x.py", "src/one/a.py")):
        project.move(old, new)
        project.engine.scan()
    found = project.frame("src/one/a.py", "note")
    assert (found["frame_id"], found["freshness"]) == (first["frame_id"], "fresh")
    project.valid()


def test_a_carry_that_was_cut_off_is_made_up_for_at_the_next_scan(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.note("src/one/a.py", "keep me")
    project.move("src/one/a.py", "moved.py")

    def fails(*_: object) -> None:
        raise RuntimeError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(project.engine.trees, "record", fails)
        with pytest.raises(RuntimeError):
            project.engine.scan()
    project.reopen()
    project.engine.scan()
    assert project.frame("moved.py", "note")["content"] == "keep me"
    assert len(project.engine.list_frames("moved.py", frame_type="note")["frames"]) == 1
    project.valid()


def test_a_note_is_orphaned_with_its_path_and_revived_with_it(project: Space) -> None:
    project.note("src/one/a.py", "still here")
    content = (project.root / "src/one/a.py").read_bytes()
    os.unlink(project.root / "src/one/a.py")
    project.engine.scan()
    (head,) = project.engine.get_head("src/one/a.py", frame_type="note")["heads"]
    assert (head["freshness"], head["because"]) == (
        "orphaned", "the path is gone or ignored now",
    )  # fmt: skip
    (told,) = project.engine.list_frames("src/one/a.py", frame_type="note")["frames"]
    assert told["freshness"] == "orphaned"
    assert project.engine.explain("src/one/a.py", frame_type="note")["freshness"] == "orphaned"
    project.write("src/one/a.py", content)
    project.engine.scan()
    assert project.freshness("src/one/a.py", "note") == "fresh"


def test_a_note_is_orphaned_when_its_path_is_newly_ignored(project: Space) -> None:
    project.note("src/one/a.py")
    project.write(".gitignore", "a.py\n")
    project.engine.scan()
    (head,) = project.engine.get_head("src/one/a.py", frame_type="note")["heads"]
    assert head["freshness"] == "orphaned"


def test_put_twice_is_one_frame(project: Space) -> None:
    first = project.note("src/one/a.py", "same")
    again = project.note("src/one/a.py", "same")
    assert (first["created"], again["created"]) == (True, False)
    assert first["frame_id"] == again["frame_id"]
    assert len(project.engine.list_frames("src/one/a.py", frame_type="note")["frames"]) == 1
    last = project.engine.records.journal.last
    project.note("src/one/a.py", "same")
    assert project.engine.records.journal.last == last


def test_an_older_note_said_again_is_the_head_and_no_new_frame(project: Space) -> None:
    first = project.note("src/one/a.py", "one")
    project.note("src/one/a.py", "two")
    again = project.note("src/one/a.py", "one")
    assert (again["created"], again["frame_id"]) == (False, first["frame_id"])
    for _ in range(2):
        (head,) = project.engine.get_head("src/one/a.py", frame_type="note")["heads"]
        assert head["frame_id"] == first["frame_id"]
        project.reopen()
    assert len(project.engine.list_frames("src/one/a.py", frame_type="note")["frames"]) == 2


def test_a_reader_is_refused(project: Space) -> None:
    project.engine.add_agent("rex", "reader")
    with pytest.raises(AgentError, match="cannot write"):
        project.engine.put_frame("src", "x", frame_type="note", agent="rex")


def test_an_unknown_agent_is_refused(project: Space) -> None:
    with pytest.raises(AgentError, match="no agent"):
        project.engine.put_frame("src", "x", frame_type="note", agent="nobody")


def test_an_agent_id_that_cannot_be_is_refused(project: Space) -> None:
    for agent in ("merkle:outline", "", "a b", "\ud800", "x" * 200):
        with pytest.raises(UsageError, match="letters, digits"):
            project.engine.add_agent(agent, "writer")


def test_a_type_that_a_generator_keeps_is_refused(project: Space) -> None:
    with pytest.raises(FrameRefusedError, match="kept by a generator"):
        project.note("src/one/a.py", frame_type="outline")


def test_a_frame_type_that_cannot_be_is_refused(project: Space) -> None:
    for kind in ("", "Note", "a b", "a/b", "x" * 70, "é"):
        with pytest.raises(FrameRefusedError):
            project.note("src/one/a.py", frame_type=kind)


def test_a_note_above_the_size_limit_is_refused_and_the_engine_goes_on(project: Space) -> None:
    with pytest.raises(FrameRefusedError, match="at most"):
        project.note("src/one/a.py", "é" * (MAX_BODY // 2 + 1))
    assert project.note("src/one/a.py", "x" * MAX_BODY)["created"]
    project.valid()


def test_a_note_that_holds_a_secret_is_refused_unless_told_otherwise(project: Space) -> None:
    project.note("src/one/a.py", "before")
    for text in (f"key: {KEY}", PRIVATE):
        last = project.engine.records.journal.last
        with pytest.raises(FrameRefusedError, match="secret") as refused:
            project.note("src/one/a.py", text)
        assert text not in refused.value.message
        assert project.engine.records.journal.last == last
        assert project.note("src/one/a.py", text, allow_secrets=True)["created"]


def test_invalid_unicode_is_refused_before_anything_is_written(project: Space) -> None:
    project.note("src/one/a.py", "before")
    last = project.engine.records.journal.last
    for text in ("\ud800", "a\udfffb"):
        with pytest.raises(FrameRefusedError, match="Unicode"):
            project.note("src/one/a.py", text)
        with pytest.raises(FrameRefusedError, match="Unicode"):
            project.note("src/one/a.py", "x", meta={"k": text})
        assert project.engine.records.journal.last == last


def test_any_valid_text_comes_back_as_it_was(project: Space) -> None:
    texts = ["\x00 nul \x1b[31m", "x\r\n\u2028", "\U0001d518 é \uff21"]
    for number, text in enumerate(texts):
        project.note("src/one/a.py", text, frame_type=f"kind-{number}")
    project.reopen()
    for number, text in enumerate(texts):
        assert project.frame("src/one/a.py", f"kind-{number}")["content"] == text
    project.valid()


def test_metadata_that_cannot_be_is_refused(project: Space) -> None:
    for meta in ({"carried_from": "x"}, {"k": "v" * 20_000}):
        with pytest.raises(FrameRefusedError):
            project.note("src/one/a.py", meta=meta)


def test_a_note_on_nothing_is_refused(project: Space) -> None:
    with pytest.raises(UnknownNodeError):
        project.note("no/such.py")
    with pytest.raises(FrameRefusedError):
        project.note("src/one/a.py", on="listing")
    with pytest.raises(FrameRefusedError):
        project.note("src/one/a.py", on="nothing-declared")


def test_many_threads_hand_notes_to_one_writer_while_others_read(project: Space) -> None:
    """As the service does it: one thread writes, any number of others read."""
    project.note("src/one/a.py", "first")
    project.reopen()
    project.engine.serve()
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for path in ("", "src/one/a.py", "src/one/b.py"):
                    for frame in project.engine.get_node(path)["frames"]:
                        assert frame["content"] is not None
                    project.engine.get_head(path)
                    project.engine.list_frames(path)
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    project.engine.add_agent("bob", "writer")
    with ThreadPoolExecutor(1) as writer, ThreadPoolExecutor(6) as clients:

        def write(number: int) -> str:
            agent = ("ann", "bob")[number % 2]
            path = ("src/one/a.py", "src/one/b.py")[number % 3 % 2]
            kind = f"kind-{number % 5}"
            done_by_writer = writer.submit(
                project.engine.put_frame, path, f"note {number}", frame_type=kind, agent=agent
            )
            return str(done_by_writer.result()["frame_id"])

        ids = list(clients.map(write, range(40)))
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []
    stored = {
        frame["frame_id"]
        for path in ("src/one/a.py", "src/one/b.py")
        for frame in project.engine.list_frames(path)["frames"]
    }
    assert set(ids) <= stored
    project.valid()


def test_recency_is_by_sequence_and_never_by_clock() -> None:
    clock = ManualClock(10**18)
    space = Space(clock=clock)
    try:
        space.write("a.py", python())
        space.engine.scan()
        space.note("a.py", "first", frame_type="one")
        clock.advance(-3600)
        space.note("a.py", "second", frame_type="two")
        shown = [frame["content"] for frame in space.engine.get_node("a.py")["frames"]]
        assert shown == ["second", "first"]
    finally:
        space.close()


def test_a_note_on_an_empty_file_does_not_move_to_another(project: Space) -> None:
    project.write("src/one/__init__.py", "")
    project.settle()
    project.note("src/one/__init__.py", "why this package is one")
    (project.root / "src/one/__init__.py").unlink()
    project.write("src/two/__init__.py", "")
    assert project.engine.scan()["renamed"] == 0
    assert project.engine.get_head("src/two/__init__.py", frame_type="note")["heads"] == []
    (head,) = project.engine.get_head("src/one/__init__.py", frame_type="note")["heads"]
    assert head["freshness"] == "orphaned"
