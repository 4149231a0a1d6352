"""Context that went stale, edits of calls, budgets, policies and C-Trees, in a real workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.compiler import PluginError
from indexer.core.clock import ManualClock
from indexer.core.fence import unfenced
from indexer.engine.settings import trust
from indexer.errors import UsageError
from tests.support.space import Space, python


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space(clock=ManualClock(1_700_000_000_000_000_000))
    made.write("src/tide.py", python("tide", doc="Computes tides."))
    made.settle()
    made.engine.session_new("talk")
    yield made
    made.close()


def context(space: Space, path: str = "src/tide.py") -> list[dict[str, Any]]:
    notes = space.engine.session_compile("talk")["context"]
    return [note for note in notes if note["path"] == path]


def shown(space: Space, **options: Any) -> list[str]:
    messages = space.engine.session_compile("talk", **options)["messages"]
    return [one["content"] for one in messages if "tide.py (" in one["content"]]


def test_context_in_a_session_goes_stale_like_everything_else(space: Space) -> None:
    engine = space.engine
    engine.session_pull("talk", ["src/tide.py"], ttl=9)
    engine.session_append("talk", type="dialogue", text="What is it?")
    engine.session_commit("talk")
    assert [note["action"] for note in context(space)] == ["kept"]

    # Edited and not yet made anew: proved when it is read.
    space.write("src/tide.py", python("ebb"))
    (note,) = context(space)
    assert (note["action"], note["freshness"]) == ("labelled", "stale")
    (text,) = shown(space)
    assert "no longer true, stale" in text.splitlines()[0]
    assert "def tide(a)" in text

    # Edited in a way that leaves the outline alone: what it says still holds.
    space.write("src/tide.py", python("tide", value=2, doc="Computes tides."))
    space.settle()
    assert [note["action"] for note in context(space)] == ["kept"]

    space.write("src/tide.py", python("ebb"))
    space.settle()
    assert [note["action"] for note in context(space)] == ["labelled"]
    engine.session_pull("talk", ["src/tide.py"], ttl=9)
    old, new = context(space)
    assert (old["action"], old["replaced_by"]) == ("replaced", new["id"])
    assert new["action"] == "kept"
    (text,) = shown(space)
    assert "def ebb(a)" in text
    assert "no longer" not in text

    # The past is told as it was; what goes out in another form is labelled as well.
    first = engine.session_select("talk", "@w .cb[kind='text']")["ids"][0]
    (before,) = shown(space, up_to=first)
    assert "def tide(a)" in before
    space.write("src/tide.py", "")
    for form in ("openai", "anthropic"):
        (text,) = shown(space, form=form)
        assert "no longer true" in text.splitlines()[0]
        assert unfenced(text) != text


def test_an_outline_whose_symbols_moved_says_so(space: Space) -> None:
    long = python("tide", doc="Computes tides.") + "\n# of many words" * 900 + "\n"
    space.write("src/tide.py", long)
    space.settle()
    space.engine.session_pull("talk", ["src/tide.py"], ttl=9)
    (text,) = shown(space)
    assert "1: def tide(a)" in text
    assert [note["action"] for note in context(space)] == ["kept"]
    space.write("src/tide.py", "\n\n" + long)
    space.settle()
    (note,) = context(space)
    assert (note["action"], note["freshness"]) == ("labelled", "stale")
    assert note["because"] == "its symbols begin at other lines"
    (text,) = shown(space)
    assert "no longer true, stale" in text.splitlines()[0]
    # What an author made of it has no lines to be judged by.
    block = note["id"]
    space.engine.session_edit("talk", block, text="It has tide.")
    assert [note["action"] for note in context(space)] == ["kept"]
    space.engine.session_edit("talk", block, text=unfenced(text).split("\n\n", 1)[1])
    assert [note["action"] for note in context(space)] == ["labelled"]
    # Below them nothing moved, and above them as little as when it was pulled.
    space.write("src/tide.py", long + "# More.\n")
    space.settle()
    assert [note["action"] for note in context(space)] == ["kept"]
    # One that was pulled while it was stale shows no lines, and none that are wrong.
    space.write("src/tide.py", "\n\n" + long)
    space.engine.session_pull("talk", ["src/tide.py"], ttl=9)
    space.settle()
    assert [note["action"] for note in context(space)] == ["replaced", "kept"]


def test_every_note_of_an_agent_is_pulled_and_each_is_judged_alone(space: Space) -> None:
    def judged() -> list[tuple[str, str]]:
        notes = [one for one in context(space) if one["type"] == "note"]
        return sorted((one["freshness"], one["action"]) for one in notes)

    space.note("src/tide.py", "It rises twice a day.")
    space.note("src/tide.py", "It falls as often.", on="outline")
    space.engine.session_pull("talk", ["src/tide.py"])
    assert judged() == [("fresh", "kept"), ("fresh", "kept")]
    space.write("src/tide.py", python("tide", value=2, doc="Computes tides."))
    space.settle()
    assert judged() == [("fresh", "kept"), ("stale", "labelled")]


def test_lines_of_a_file_hold_as_long_as_the_file_has_them(space: Space) -> None:
    others = "\n\n".join(python(f"moon{n}", doc="Computes moons.") for n in range(40))
    two = python("tide", doc="Computes tides.") + "\n\n" + others
    space.write("src/tide.py", two)
    space.settle()
    pulled = space.engine.session_pull("talk", [], query="computes tides", budget=300, ttl=9)
    assert any(item["type"] == "source" and item["symbol"] == "tide" for item in pulled["items"])

    def tide() -> dict[str, Any]:
        own = {item["id"] for item in pulled["items"] if item["symbol"] == "tide"}
        notes = space.engine.session_compile("talk")["context"]
        return next(note for note in notes if note["id"] in own)

    assert tide()["action"] == "kept"
    # Another symbol of the file changed, and this one moved.
    space.write("src/tide.py", "# A comment.\n" + two.replace("def moon0(a)", "def moon0(a, b)"))
    assert tide()["action"] == "kept"
    space.write("src/tide.py", two.replace("return 1", "return 2", 1))
    assert (tide()["action"], tide()["because"]) == ("labelled", "src/tide.py::tide has changed")
    (space.root / "src" / "tide.py").unlink()
    assert tide()["action"] == "labelled"


def test_context_of_a_file_that_is_gone_or_of_another_workspace(space: Space) -> None:
    space.engine.session_pull("talk", ["src/tide.py"])
    data = space.engine.session_export("talk")["data"]
    (space.root / "src" / "tide.py").unlink()
    space.settle()
    assert [note["freshness"] for note in context(space)] == ["orphaned"]
    other = Space(clock=ManualClock(10**18))
    other.write("a.py", python())
    other.settle()
    other.engine.session_import(name="talk", data=data)
    assert {note["freshness"] for note in context(other)} == {"unknown"}
    other.close()


def test_an_edit_by_payload_keeps_kind_and_direction(space: Space) -> None:
    engine = space.engine
    asked = engine.session_append(
        "talk", type="tool_io", role="assistant", label="w", payload={"q": 1}, call_id="c"
    )
    failed = engine.session_append(
        "talk", type="tool_io", label="w", payload={"e": 1}, call_id="c", status="error"
    )
    engine.session_edit("talk", asked["id"], payload={"q": 2})
    engine.session_edit("talk", failed["id"], text="no station")
    first, second = engine.session_compile("talk")["messages"]
    assert first == {
        "role": "tool", "content": '{"q": 2}', "name": "w", "direction": "call", "call_id": "c",
    }  # fmt: skip
    assert (second["direction"], second["status"]) == ("result", "error")
    whole = {"tool_name": "w", "direction": "result", "payload": {}}
    with pytest.raises(UsageError, match="cannot turn a call into a result"):
        engine.session_edit("talk", asked["id"], payload=whole)


def test_a_budget_is_shown_and_changed(space: Space) -> None:
    engine = space.engine
    engine.session_new("small", budget=1, on_budget="reject")
    with pytest.raises(UsageError, match="its budget is 1"):
        engine.session_append("small", type="dialogue", text="more than one token")
    length = engine.records.journal.last
    told = engine.session_budget("small")
    assert engine.records.journal.last == length
    assert told == {
        "name": "small", "max_tokens": 1, "action": "reject", "live_tokens": 0, "left": 1,
        "total_tokens": 0,
    }  # fmt: skip
    engine.session_budget("small", limit=100, on_budget="warn")
    added = engine.session_append("small", type="dialogue", text="more than one token", ttl=0)
    assert added["live_tokens"] == added["total_tokens"] == 4
    engine.session_commit("small")
    space.reopen()
    told = space.engine.session_budget("small")
    assert (told["left"], told["live_tokens"], told["total_tokens"]) == (100, 0, 4)
    assert space.engine.session_budget("small", unlimited=True)["max_tokens"] is None
    for wrong in ({"on_budget": "reject"}, {"limit": 1, "unlimited": True}, {"on_budget": "cry"}):
        with pytest.raises(UsageError):
            space.engine.session_budget("small", **wrong)
    assert space.engine.validate()["errors"] == []


def test_code_of_ones_own_runs_only_where_the_user_agrees(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "my_collapse.py").write_text(
        "def every(nodes, policy):\n    return [n.id for n in nodes]\n"
    )
    about = tmp_path / "my_collapse-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-collapse\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[indexer.collapse]\nevery = my_collapse:every\n")
    monkeypatch.syspath_prepend(tmp_path)
    engine, policy = space.engine, {"collapse": {"mode": "every"}}
    engine.session_append("talk", type="dialogue", text="hi")
    events = [{"kind": "user", "turn": 1, "payload": "hi"}]
    runs = [
        lambda: engine.session_compile("talk", policy=policy)["messages"][0]["content"],
        lambda: engine.session_tree("talk", policy=policy)["nodes"][0]["collapsed"],
        lambda: engine.compile(events, policy)["stages"]["HEADER"]["collapsed_ids"][0],
        lambda: engine.session_attempt(
            "talk", "a", status="running", provider="p", model="m", form="messages", policy=policy
        )["attempt"]["sent"]["policy"],
        lambda: engine.session_render("talk", "attempt:a")["thread"],
    ]  # fmt: skip
    length = engine.records.journal.last
    for run in runs[:-1]:
        with pytest.raises(PluginError, match="would run code"):
            run()
    assert engine.records.journal.last == length
    trust(space.root)
    found = [run() for run in runs]
    assert "[collapsed dialogue" in found[0]
    assert found[1] is True
    assert found[3] == policy
    assert "[collapsed dialogue" in found[4]
    with pytest.raises(PluginError, match="no policy 'nowhere'"):
        engine.session_compile("talk", policy={"collapse": {"mode": "nowhere"}})


def test_one_document_has_the_stages_the_tree_and_a_row_for_each_block(space: Space) -> None:
    engine = space.engine
    engine.session_append("talk", type="instruction", text="Be brief.", id="law")
    engine.session_pull("talk", ["src/tide.py"])
    engine.session_append("talk", type="dialogue", text="What is it?\nTell me.", id="q")
    engine.session_append(
        "talk", type="tool_io", label="grep", payload={"content": "3 hits"}, id="hits"
    )
    document = engine.session_tree("talk", stages=True, policy={"selection": {"max_nodes": 3}})
    assert sorted(document["compiler"]["stages"]) == ["FROZEN", "HEADER", "RAW", "SPEC"]
    assert document["compiler"]["hashes"] == document["hashes"]
    rows = {row["id"]: row for row in document["nodes"]}
    assert [row["type"] for row in document["nodes"]] == [
        "instruction", "context", "context", "context", "dialogue", "tool_io",
    ]  # fmt: skip
    # Previews are of texts, without fences and not of JSON.
    assert rows["q"]["preview"] == "What is it?\\nTell me."
    assert rows["hits"]["preview"] == "3 hits"
    assert document["nodes"][1]["preview"].startswith(". (outline")
    assert rows["law"]["pinned"]
    assert [row["dropped"] for row in document["nodes"]] == [
        None, "max_nodes", "max_nodes", "max_nodes", None, None,
    ]  # fmt: skip
    spec = document["compiler"]["stages"]["SPEC"]
    assert [row["stage_id"] for row in document["nodes"] if row["selected"]] == spec["selected_ids"]
    assert document["last_node"] == "hits"
    found, pending = [], [document["tree"]]
    while pending:
        node = pending.pop(0)
        pending = [*node.get("children", ()), *pending]
        found.append(node["id"])
    assert [node for node in found if node in rows] == list(rows)
    plain = engine.session_tree("talk")
    assert plain["compiler"] is None
    assert plain["selection"]["dropped"] == 0
    # The same at another time.
    copy = Space(clock=ManualClock(10**18))
    copy.write("src/tide.py", python("tide", doc="Computes tides."))
    copy.settle()
    copy.engine.session_new("another")
    copy.engine.session_append("another", type="instruction", text="Be brief.")
    copy.engine.session_pull("another", ["src/tide.py"])
    copy.engine.session_append("another", type="dialogue", text="What is it?\nTell me.")
    copy.engine.session_append(
        "another", type="tool_io", label="grep", payload={"content": "3 hits"}
    )
    assert copy.engine.session_tree("another")["hashes"] == plain["hashes"]
    copy.close()
