"""How often a model is asked: once for what it has to see, and never again for the same."""

from __future__ import annotations

import os

import pytest

from indexer.engine.durable.repair import repair
from indexer.engine.models.model_pass import ModelPass
from tests.support.asking import OUTLINED, Asking, declaration, lose_database
from tests.support.model_server import ModelServer, says
from tests.support.space import Space, python
from tests.support.waiting import wait_until

EVERYTHING = 8


def settled(asking: Asking, **options: str) -> Space:
    """A workspace with every frame made, of which the server knows nothing."""
    return asking(is_written=True, **options)


def test_a_first_run_asks_once_for_every_node(asking: Asking, server: ModelServer) -> None:
    space = asking()
    document = space.engine.regenerate()
    assert document["failed"] == []
    assert server.calls == document["calls"] == document["regenerated"] == EVERYTHING
    assert set(space.labels("summary").values()) == {"fresh"}
    assert len(space.labels("summary")) == EVERYTHING
    again = space.engine.regenerate()
    assert (again["calls"], again["unchanged"], server.calls) == (0, True, EVERYTHING)
    space.valid()


def test_children_are_described_before_the_folder_that_holds_them(
    asking: Asking, server: ModelServer
) -> None:
    asking().engine.regenerate()
    last = server.bodies[-1]["messages"][-1]["content"]
    assert "## src/\nAnswer" in last
    assert "## README.md\nAnswer" in last


def test_one_edited_file_costs_its_path_to_the_root(asking: Asking, server: ModelServer) -> None:
    space = settled(asking)
    space.write("src/one/a.py", python("a", value=2))
    document = space.engine.regenerate()
    assert server.asked_about() == ["File: a.py", "Entries: 2", "Entries: 2", "Entries: 2"]
    assert document["regenerated"] == 4
    assert set(space.labels("summary").values()) == {"fresh"}


def test_a_folder_alone_above_stale_frames_asks_nothing_and_says_why(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    space.write("src/one/a.py", python("a", value=2))
    document = space.engine.regenerate("src", recursive=False)
    assert [(one["path"], one["stale"]) for one in document["failed"]] == [("src", ["src/one"])]
    assert (document["calls"], document["waiting"], server.calls) == (0, 0, 0)
    plan = space.engine.regenerate("src", recursive=False, plan=True)
    assert (plan["failed"], plan["plan"]) == (document["failed"], [])


def test_an_answer_that_stays_the_same_ends_the_way_up(asking: Asking, server: ModelServer) -> None:
    space = settled(asking)
    body = space.frame("src/one/a.py", "summary")["content"]
    space.write("src/one/a.py", python("a", value=2))
    server.then(says(body))
    document = space.engine.regenerate()
    assert server.asked_about() == ["File: a.py"]
    assert (document["regenerated"], document["reused"]) == (1, 3)


def test_a_renamed_folder_costs_the_folders_that_name_it(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    space.move("src/one", "src/uno")
    document = space.engine.regenerate()
    # The files and the folder itself are reused; src lists another name, and so the root differs.
    assert server.asked_about() == ["Entries: 2", "Entries: 2"]
    assert (document["regenerated"], document["reused"]) == (2, 3)


def test_a_file_moved_to_another_folder_is_not_described_again(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    space.move("src/one/b.py", "src/two/b.py")
    space.engine.regenerate()
    # Both folders (at once), src and the root.
    assert sorted(server.asked_about()) == ["Entries: 1", "Entries: 2", "Entries: 2", "Entries: 2"]
    assert space.frame("src/two/b.py", "summary")["action"] == "reused"
    assert space.frame("src/two/b.py", "summary")["meta"]["model"]["model"] == "gpt-4o-mini"


def test_a_renamed_file_is_described_again_because_the_model_saw_its_name(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    space.move("src/one/b.py", "src/one/z.py")
    space.engine.regenerate()
    assert server.asked_about()[0] == "File: z.py"
    assert server.calls == 4
    # And back again: everything is known.
    space.move("src/one/z.py", "src/one/b.py")
    assert space.engine.regenerate()["calls"] == 0


def test_a_branch_switch_and_back_costs_the_other_branch_once(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    one, other = python("a"), python("a", value=9)
    for round_number in range(3):
        space.write("src/one/a.py", other)
        (space.root / "src/two/c.py").unlink()
        space.write("src/new.py", python("n"))
        space.engine.regenerate()
        if round_number == 0:
            # a.py and new.py, one, two (now empty: no call), src, and the root.
            assert server.calls == 5
        space.write("src/one/a.py", one)
        space.write("src/two/c.py", python("c"))
        (space.root / "src/new.py").unlink()
        assert space.engine.regenerate()["calls"] == 0
    assert server.calls == 5
    assert set(space.labels("summary").values()) <= {"fresh", "orphaned"}


def test_a_changed_prompt_asks_for_everything_it_is_used_for(server: ModelServer) -> None:
    made = Space()
    try:
        made.write(".merkleignore", "merkle.toml\n.merkleignore\nprompts/\n")
        made.write("prompts/mine.md", "Say what it is.")
        made.declare(declaration(server.url, OUTLINED, options=', prompt = "prompts/mine.md"'))
        made.fill({"a.py": python("a"), "b.py": python("b")})
        made.engine.scan()
        made.engine.regenerate()
        assert server.calls == 2
        assert server.bodies[0]["messages"][0]["content"] == "Say what it is.\n"
        made.write("prompts/mine.md", "Say what it is, briefly.")
        assert made.engine.explain("a.py", frame_type="summary")["freshness"] == "stale"
        assert made.engine.regenerate()["calls"] == 2
        # Back to the old one: its answers are still there.
        made.write("prompts/mine.md", "Say what it is.")
        assert made.engine.regenerate()["calls"] == 0
    finally:
        made.close()


def test_a_changed_model_asks_for_everything_and_back_for_nothing(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    space.declare(declaration(server.url, model="gpt-4o"))
    assert space.engine.regenerate()["calls"] == EVERYTHING
    assert {body["model"] for body in server.bodies} == {"gpt-4o"}
    space.declare(declaration(server.url))
    assert space.engine.regenerate()["calls"] == 0


def test_another_address_of_the_same_model_costs_nothing(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    url = server.url.replace("127.0.0.1", "localhost")
    space.declare(declaration(url))
    assert space.engine.regenerate()["unchanged"]
    assert server.calls == 0


def test_edits_below_the_outline_cost_no_call(asking: Asking, server: ModelServer) -> None:
    space = settled(asking, types=OUTLINED)
    before = space.frame("src/one/a.py", "summary")
    space.write("src/one/a.py", "# a comment\n" + python("a", value=77))
    document = space.engine.regenerate()
    assert (document["calls"], server.calls) == (0, 0)
    after = space.frame("src/one/a.py", "summary")
    assert after["freshness"] == "fresh"
    assert after["frame_id"] != before["frame_id"]
    assert after["content"] == before["content"]
    # What the outline shows does cost one.
    space.write("src/one/a.py", python("a", args="a, b"))
    assert space.engine.regenerate()["calls"] == 1
    assert "def a(a, b)" in server.bodies[0]["messages"][-1]["content"]
    assert "return" not in server.bodies[0]["messages"][-1]["content"]


def test_a_fresh_clone_with_a_pack_asks_nothing(asking: Asking, server: ModelServer) -> None:
    space = settled(asking)
    pack = space.base / "pack"
    space.engine.export_pack(pack)
    clone = space.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        assert clone.engine.regenerate()["calls"] == 0
        assert set(clone.labels("summary").values()) == {"fresh"}
        # What came in a pack was paid for too: it survives the loss of the database.
        clone.engine.close()
        lose_database(clone.root)
        clone.open()
        clone.engine.scan()
        assert clone.engine.regenerate()["calls"] == 0
        assert server.calls == 0
    finally:
        clone.close()


def test_a_lost_database_costs_nothing(asking: Asking, server: ModelServer) -> None:
    space = settled(asking)
    bodies = {path: space.frame(path, "summary")["content"] for path in ("", "src/one/a.py")}
    space.engine.close()
    lose_database(space.root)
    repair(space.root)
    space.open()
    document = space.engine.regenerate()
    assert (document["calls"], document["regenerated"], server.calls) == (0, 0, 0)
    for path, body in bodies.items():
        assert space.frame(path, "summary")["content"] == body
    space.valid()


def test_a_lost_journal_takes_the_answers_from_the_database(
    asking: Asking, server: ModelServer
) -> None:
    space = settled(asking)
    space.engine.close()
    for name in os.listdir(space.root / ".merkle/journal"):
        (space.root / ".merkle/journal" / name).unlink()
    repair(space.root)
    space.open()
    assert space.engine.regenerate()["calls"] == 0
    assert server.calls == 0


def test_compaction_never_drops_what_a_model_wrote(asking: Asking, server: ModelServer) -> None:
    space = settled(asking)
    old = python("a")
    space.write("src/one/a.py", python("a", value=5))
    space.engine.regenerate()
    asked = server.calls
    space.engine.compact(0)
    space.write("src/one/a.py", old)
    assert space.engine.regenerate()["calls"] == 0
    assert server.calls == asked
    space.valid()


def test_an_invalidated_frame_is_asked_for_again(asking: Asking, server: ModelServer) -> None:
    space = settled(asking)
    space.engine.invalidate("src/one/a.py")
    assert space.engine.regenerate()["calls"] == 1
    assert server.asked_about() == ["File: a.py"]


def test_what_needs_no_model_asks_none(asking: Asking, server: ModelServer) -> None:
    space = asking({"a.bin": "\x00\x01", "b.py": "", "empty/x.txt": " \n"})
    document = space.engine.regenerate()
    # Two folders with entries.
    assert (document["calls"], document["failed"]) == (2, [])
    assert space.frame("b.py", "summary")["content"] == "[file] empty\n"


def test_the_same_file_twice_is_asked_for_once(asking: Asking, server: ModelServer) -> None:
    space = asking({"p/a.py": python("a"), "q/a.py": python("a")}, types=OUTLINED)
    document = space.engine.regenerate()
    assert server.calls == 1
    assert document["failed"] == []
    assert (
        space.frame("p/a.py", "summary")["content"] == space.frame("q/a.py", "summary")["content"]
    )


def test_answers_that_come_while_the_plan_is_still_worked_through(
    asking: Asking, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A step each: answers for the first folders arrive long before the last file is looked at.
    monkeypatch.setattr("indexer.engine.models.model_pass.CHUNK", 1)
    files = {f"a{n}/b/m{n}.py": python(f"f{n}") for n in range(12)}
    space = asking(files, llm="ask_above_calls = 1000\nconcurrency = 8")
    real = ModelPass.step

    def step_and_wait(self: ModelPass) -> bool:
        done = real(self)
        self._ask()
        calls = self._calls
        wait_until(lambda: len(calls._came) == calls.under_way, "every answer has come")
        return done

    monkeypatch.setattr(ModelPass, "step", step_and_wait)
    document = space.engine.regenerate()
    assert (document["failed"], document["waiting"], document["calls"]) == ([], 0, 37)
    assert set(space.labels("summary").values()) == {"fresh"}
    space.valid()
