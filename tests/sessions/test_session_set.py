"""Changing what is live in its place; what is sealed stays as it is, byte for byte."""

from __future__ import annotations

import pytest

from indexer.sessions import Placement, SelectOptions, Session, import_session, make_content
from indexer.sessions.log import EditTargetError
from indexer.sessions.node import AttributeNameError, HeaderError
from indexer.sessions.operations import UnchangedError
from indexer.sessions.placement import NodeNotFoundError, PlacementError, SealedError


def text(said: str, **more: str) -> dict[str, str]:
    return make_content("dialogue", text=said, **more)


@pytest.fixture
def standing(session, say):
    """A system block through three snapshots, which change one thing each."""
    say(session, "one\ntwo\nthree\nfour\nfive\n", region="sys", id="law")
    session.commit()
    session.replace("law", text("one\ntwo\nthree!\nfour\nfive\n"))
    session.commit()
    session.set("law", ttl=7, priority=4, attributes={"data_source": "web"})
    session.commit()
    return session


def test_what_was_sealed_keeps_its_bytes(standing):
    again = Session.replay(standing.records)
    for cycle in ("@c0", "@c1", "@c2", "@c3"):
        assert again.export_snapshot(cycle) == standing.export_snapshot(cycle)
        assert again.render(cycle) == standing.render(cycle)
    contents = [standing.view(at).node("law").content for at in ("@c1", "@c2", "@c3")]
    assert contents[0] != contents[1] == contents[2]
    assert standing.export() == again.export()


def test_a_diff_tells_each_change_apart(standing):
    first, second = standing.select("@c1..@c3 ^sys .cb")["diffs"][::-1]
    assert [c["fields"] for c in first["changed"]] == [["content_hash"]]
    assert [c["fields"] for c in second["changed"]] == [
        ["ttl", "priority", "content_hash", "data_source"]
    ]
    assert second["changed"][0]["delta"]["ttl"] == {"from": 9, "to": None}


def test_a_content_diff_in_every_mode(standing):
    def shown(**options):
        asked = SelectOptions(include_content=True, **options)
        return standing.select("@c1..@c2 ^sys .cb", asked)["diffs"][0]["changed"][0]["content_diff"]

    unified = shown()
    assert unified["mode"] == "unified"
    assert unified["summary"]["identical"] is False
    assert "-three\n" in unified["diff"]
    assert "+three!\n" in unified["diff"]
    assert " one\n" in unified["diff"]
    assert " two\n" not in shown(context_lines=0)["diff"]
    assert shown(content_mode="tokens")["hunks"]
    assert shown(content_mode="jsonpatch")["patch"]
    plain = standing.select("@c1..@c2 ^sys .cb")["diffs"][0]["changed"][0]
    assert "content_diff" not in plain


def test_what_is_materialized_is_there(standing):
    asked = SelectOptions(materialize=("content", "content_hash"))
    changed = standing.select("@c1..@c2 ^sys .cb", asked)["diffs"][0]["changed"][0]
    shown = str(changed)
    assert "three!" in shown
    assert standing.view("@c2").node("law").content_hash in shown


def test_replaced_content_is_what_is_read(session, say):
    target = say(session, "draft", id="q")
    say(session, "answer", role="assistant")
    session.replace(target, text("final"))
    session.replace("q", text("final, twice"))
    assert [m["content"] for m in session.thread("@w")] == ["final, twice", "answer"]
    assert [m.content for m in session.compile().messages] == ["final, twice", "answer"]
    assert session.select("@w .cb:edit") == []
    session.commit()
    assert session.view().node("q").content == "final, twice"
    with pytest.raises(SealedError, match="sealed"):
        session.replace("q", text("too late"))
    session.edit("q", text("a correction"))
    assert session.compile().messages[0].content == "a correction"
    assert session.compile(up_to="q").messages[0].content == "draft"


def test_a_replacement_is_a_link_of_the_chain(session, say):
    say(session, "draft", id="q")
    record = session.replace("q", text("final"))
    assert record.operation == "edit"
    assert record.parent_hash == record.reply_to == session.state.log.of_node("q").commit_hash
    assert session.head == record.commit_hash


def test_role_kind_and_type_stay(session, say):
    say(session, "draft", id="q")
    call = make_content("tool_io", payload={"q": 1}, role="assistant", name="grep")
    session.append(call, Placement(id="c"))
    for target, content in (
        ("q", text("x", role="assistant")),
        ("q", make_content("output", text="x")),
        ("c", make_content("tool_io", payload={"q": 2}, name="grep")),
    ):
        with pytest.raises(EditTargetError, match="stays what it is"):
            session.replace(target, content)


def test_ttl_is_kept_from_then_on(session, say):
    say(session, "x", region="sys", id="x", ttl=1)
    session.set("x", ttl=None)
    session.commit()
    session.commit()
    assert session.select("^sys .cb") == ["x"]
    session.set("x", ttl=1)
    assert session.view("@w").node("x").ttl == 3
    session.commit()
    assert session.select("^sys .cb") == ["x"]
    session.commit()
    assert session.select("^sys .cb") == []


def test_attributes_go_with_null(session, say):
    say(session, "x", id="x", attributes={"data_a": 1, "data_b": 2})
    session.set("x", attributes={"data_a": None, "cb:c": "new"})
    assert session.view("@w").node("x").attributes == {"data_b": 2, "cb:c": "new"}


def test_what_is_made_in_this_cycle_is_live_wherever_it_stands(session, say):
    core = say(session, "x")
    session.commit()
    turn = session.seals[0].turn
    say(session, "beside", parent=turn, offset=1, id="post")
    session.set("post", priority=3)
    session.replace("post", text("beside it"))
    session.commit()
    for node in ("post", core):
        with pytest.raises(SealedError):
            session.set(node, priority=1)


def test_refusals_change_nothing(session, say):
    say(session, "x", id="x")
    before = session.export()
    core = session.view("@w").parent("x")
    for error, target, changes in (
        (PlacementError, core, {"priority": 1}),
        (PlacementError, "^sys", {"ttl": 1}),
        (NodeNotFoundError, "nobody", {"ttl": 1}),
        (HeaderError, "x", {"ttl": -1}),
        (HeaderError, "x", {"priority": "high"}),
        (AttributeNameError, "x", {"attributes": {"role": "user"}}),
        (UnchangedError, "x", {}),
        (UnchangedError, "x", {"priority": 0}),
    ):
        with pytest.raises(error):
            session.set(target, **changes)
    assert session.export() == before


def test_an_imported_head_is_live():
    tree = {"root": {"children": [{"nodeType": "^ah", "children": [{"id": "u", "content": "a"}]}]}}
    session = import_session(tree, "s")
    session.replace("u", make_content("dialogue", text="b"))
    session.commit()
    asked = SelectOptions(include_content=True)
    block = session.select("@c0..@c1 ^root .cb", asked)["diffs"][0]
    assert block["changed"][0]["content_diff"]["diff"]
