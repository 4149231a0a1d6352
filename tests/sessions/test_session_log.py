"""The log: content types, hashes, blobs, edits, annotations and token budgets."""

from __future__ import annotations

import pytest

from indexer.core.canonical import commit_hash, content_hash
from indexer.sessions import (
    CommitRecord,
    Placement,
    Session,
    TokenBudget,
    make_content,
)
from indexer.sessions.budget import BudgetError, BudgetExceededError
from indexer.sessions.content import (
    CONTENT_TYPES,
    ContentError,
    checked_content,
    kind_of,
    role_of,
    text_of,
)
from indexer.sessions.log import CommitNotFoundError, EditTargetError
from indexer.sessions.operations import AnnotationError
from indexer.sessions.plan import Note


class Letters:
    """A token for every letter."""

    def count_text(self, text: str) -> int:
        return len(text)

    def count_messages(self, messages) -> int:
        return sum(len(m["content"]) for m in messages)


VALID = {
    "instruction": {"text": "x"},
    "dialogue": {"role": "user", "text": "x"},
    "tool_io": {"tool_name": "t", "direction": "call", "payload": {"q": "x"}},
    "reasoning": {"text": "x"},
    "artifact": {"artifact_type": "code", "content": "x"},
    "output": {"text": "x", "format": "markdown"},
    "freeform": {"payload": {"x": 1}},
}


@pytest.mark.parametrize("name", CONTENT_TYPES)
def test_content_types(session, name):
    content = {"content_type": name, **VALID[name]}
    record = session.append(content)
    assert record.content_type == name
    options = dict.fromkeys(CONTENT_TYPES[name].optional)
    assert record.content == {**options, **content}
    assert record.content_hash == content_hash({**options, **content})


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"content_type": "poem", "text": "x"},
        {"content_type": ["dialogue"], "text": "x"},
        {"content_type": "instruction"},
        {"content_type": "instruction", "text": None},
        {"content_type": "instruction", "text": 3},
        {"content_type": "instruction", "text": "x", "mood": "y"},
        {"content_type": "dialogue", "text": "x"},
        {"content_type": "dialogue", "role": "ghost", "text": "x"},
        {"content_type": "dialogue", "role": "user", "text": "x", "name": 3},
        {"content_type": "tool_io", "tool_name": "t", "direction": "up", "payload": {}},
        {"content_type": "tool_io", "tool_name": "t", "direction": "call", "payload": "x"},
        {"content_type": "artifact", "content": "x"},
        {"content_type": "output", "text": "x", "format": "pdf"},
        {"content_type": "freeform", "payload": []},
    ],
)
def test_invalid_content_is_refused_before_anything_is_written(session, content):
    before = session.export()
    with pytest.raises(ContentError) as caught:
        session.append(content)
    assert caught.value.code == "E_CONTENT_INVALID"
    assert session.export() == before


def test_absent_options_are_hashed_as_null_and_by_the_first_version_not_at_all():
    plain = {"content_type": "dialogue", "role": "user", "text": "x"}
    for given in (plain, {**plain, "name": None}):
        assert checked_content(given) == {**plain, "name": None}
        assert checked_content(given, version=1) == plain
    told = checked_content({"content_type": "output", "text": "x"})
    assert told == {"content_type": "output", "text": "x", "format": "text"}


def test_content_from_a_command_line():
    assert make_content("dialogue", text="x") == {
        "content_type": "dialogue",
        "role": "user",
        "text": "x",
    }
    assert make_content("dialogue", text="x", role="assistant", name="N")["name"] == "N"
    assert make_content("artifact", text="x", name="code")["artifact_type"] == "code"
    call = make_content("tool_io", payload={"q": 1}, name="search", role="assistant")
    assert (call["tool_name"], call["direction"], call["payload"]) == ("search", "call", {"q": 1})
    full = {"tool_name": "t", "direction": "result", "payload": {}, "status": "error"}
    assert make_content("tool_io", payload=full) == {"content_type": "tool_io", **full}
    assert make_content("freeform", text="x")["payload"] == {"text": "x"}
    for wrong in ({}, {"text": "x", "payload": {}}):
        with pytest.raises(ContentError):
            make_content("dialogue", **wrong)
    with pytest.raises(ContentError):
        make_content("poem", text="x")


def test_texts_roles_and_kinds():
    texts = {name: text_of({"content_type": name, **VALID[name]}) for name in VALID}
    assert texts["tool_io"] == '{"q": "x"}'
    assert texts["freeform"] == '{"x": 1}'
    assert all(texts[n] == "x" for n in ("instruction", "dialogue", "artifact", "output"))
    roles = {name: role_of({"content_type": name, **VALID[name]}) for name in VALID}
    assert roles == {
        "instruction": "system",
        "dialogue": "user",
        "tool_io": "tool",
        "reasoning": "assistant",
        "artifact": "assistant",
        "output": "assistant",
        "freeform": "assistant",
    }
    assert role_of({"content_type": "instruction"}, {"instruction": "user"}) == "user"
    assert role_of({"content_type": "unheard"}) == "assistant"
    assert kind_of({"content_type": "tool_io", "direction": "result"}) == "result"


def test_the_chain_of_hashes(session):
    records = [session.append(make_content("dialogue", text=text)) for text in "abc"]
    parents = [record.parent_hash for record in records]
    assert parents == [None, records[0].commit_hash, records[1].commit_hash]
    for record in records:
        assert record.commit_hash == commit_hash(
            record.content_hash,
            record.parent_hash,
            "dialogue",
            "append",
            record.timestamp_iso,
        )
    assert session.head == records[-1].commit_hash


def test_message_and_metadata_take_no_part_in_the_hash(clock):
    def made(note: Note) -> CommitRecord:
        session = Session.new("s", clock=clock)
        return session.append(make_content("dialogue", text="x"), None, note)

    plain, told = made(Note()), made(Note("why", {"k": 1}))
    assert plain.commit_hash == told.commit_hash
    assert (told.message, told.metadata) == ("why", {"k": 1})


def test_each_content_is_stored_once(session):
    first = session.append(make_content("dialogue", text="same"))
    second = session.append(make_content("dialogue", text="same"))
    assert first.content_hash == second.content_hash
    assert first.commit_hash != second.commit_hash
    assert second.content is None
    assert len(session.state.log.blobs) == 1
    assert [m["content"] for m in session.thread("@w")] == ["same", "same"]


def test_content_is_copied_on_the_way_in(session):
    payload = {"x": [1]}
    record = session.append({"content_type": "freeform", "payload": payload})
    payload["x"].append(2)
    assert record.content["payload"] == {"x": [1]}


def test_an_edit_is_a_commit_that_names_its_target(session):
    first = session.append(make_content("dialogue", text="a"))
    edit = session.edit(first.commit_hash, make_content("dialogue", text="b"))
    assert (edit.operation, edit.reply_to) == ("edit", first.commit_hash)
    assert edit.commit_hash == commit_hash(
        edit.content_hash,
        first.commit_hash,
        "dialogue",
        "edit",
        edit.timestamp_iso,
        first.commit_hash,
    )


def test_an_edit_stands_in_the_post_context_of_its_target(session):
    first = session.append(make_content("dialogue", text="a"), Placement(id="a", priority=4))
    session.commit()
    sealed = session.export_snapshot()
    session.edit("a", make_content("dialogue", text="b"), Placement(id="b"))
    session.commit()
    node = session.view().node("b")
    assert (node.node_type, node.offset, node.references) == ("cb:edit", 1, ("a",))
    assert node.priority == 4
    assert session.select("^seq .mt:depth(2) > .cb:post") == ["b"]
    assert session.export_snapshot("@c1") == sealed
    assert first.node_id == "a"


def test_an_edit_of_post_context_follows_it(session, say):
    target = say(session, "note", offset=5)
    edit = session.edit(target, make_content("dialogue", text="better"))
    session.commit()
    assert session.select("^seq .cb") == [target, edit.node_id]


def test_an_edit_of_a_system_block_is_a_sibling_behind_it(session, say):
    for name in ("a", "b", "c"):
        say(session, name, region="sys", id=name)
    session.commit()
    first = session.edit("a", make_content("dialogue", text="a1")).node_id
    second = session.edit("a", make_content("dialogue", text="a2")).node_id
    other = session.edit("b", make_content("dialogue", text="b1")).node_id
    session.commit()
    assert session.select("^sys > .cb") == ["a", "b", "c", first, second, other]
    assert [m.content for m in session.compile().messages] == ["a2\n\nb1\n\nc"]


def test_times_never_go_back(session, say):
    """Whatever is edited, what is made later has the later time."""
    made = [say(session, name, region="sys") for name in ("a", "b")]
    made.append(say(session, "c"))
    for target in tuple(made):
        session.commit()
        made.append(session.edit(target, make_content("dialogue", text="x")).node_id)
    times = [session.view("@w").node(node_id).created_at_ns for node_id in made]
    assert times == sorted(set(times))
    written = [record.at_ns for record in session.records]
    assert written == sorted(set(written))


def test_an_edit_expires_with_its_target(session, say):
    target = say(session, "x", ttl=3)
    session.commit()
    edit = session.edit(target, make_content("dialogue", text="y")).node_id
    session.commit()
    session.commit()
    assert session.select(".cb") == [target, edit]
    session.commit()
    assert session.select(".cb") == []


def test_edits_need_a_target_that_can_be_edited(session, say):
    first = session.append(make_content("dialogue", text="a"))
    edit = session.edit(first.commit_hash, make_content("dialogue", text="b"))
    before = session.export()
    for target in (edit.commit_hash, edit.node_id, "f" * 64, "short"):
        with pytest.raises(EditTargetError) as caught:
            session.edit(target, make_content("dialogue", text="c"))
        assert caught.value.code == "E_EDIT_TARGET"
    assert session.export() == before
    gone = say(session, "x", offset=1)
    session.apply(session.plan_remove(gone))
    with pytest.raises(EditTargetError):
        session.edit(gone, make_content("dialogue", text="c"))


def test_commits_can_be_named_by_a_unique_prefix(session):
    first = session.append(make_content("dialogue", text="a"))
    assert session.state.log.resolve(first.commit_hash[:8]) is first
    with pytest.raises(CommitNotFoundError):
        session.state.log.resolve(first.commit_hash[:5])


def test_default_priorities_and_annotations(session):
    law = session.append(make_content("instruction", text="a"))
    talk = session.append(make_content("dialogue", text="b"))
    log = session.state.log
    assert (log.priority(law), log.priority(talk)) == ("pinned", "normal")
    session.annotate(law.node_id, "normal", "outdated")
    session.annotate(talk.commit_hash, "skip")
    assert (log.priority(law), log.priority(talk)) == ("normal", "skip")
    session.annotate(talk.commit_hash, "pinned")
    assert log.priority(talk) == "pinned"
    said = [record.data for record in session.records if getattr(record, "op", "") == "annotate"]
    of_talk = [data["priority"] for data in said if data["target"] == talk.commit_hash]
    assert of_talk == ["skip", "pinned"]
    assert log.priorities == {law.commit_hash: "normal", talk.commit_hash: "pinned"}
    with pytest.raises(CommitNotFoundError):
        session.annotate("0" * 64, "skip")
    with pytest.raises(AnnotationError):
        session.annotate(talk.commit_hash, "urgent")


def test_annotations_leave_the_tree_and_the_chain_alone(session):
    first = session.append(make_content("dialogue", text="a"))
    before = session.export_snapshot("@w"), session.head
    session.annotate(first.commit_hash, "skip")
    assert (session.export_snapshot("@w"), session.head) == before


def test_token_counts_are_recorded(clock):
    session = Session.new("s", clock=clock, counter=Letters())
    assert session.append(make_content("dialogue", text="four")).token_count == 4
    assert session.state.log.total_tokens == 4


def test_a_budget_can_reject(clock):
    budget = TokenBudget(5, "reject")
    session = Session.new("s", clock=clock, counter=Letters(), budget=budget)
    session.append(make_content("dialogue", text="12345"))
    before = session.export()
    with pytest.raises(BudgetExceededError) as caught:
        session.append(make_content("dialogue", text="6"))
    assert (caught.value.current_tokens, caught.value.max_tokens) == (6, 5)
    assert session.export() == before


def test_a_budget_can_warn(clock):
    session = Session.new("s", clock=clock, counter=Letters(), budget=TokenBudget(2, "warn"))
    plan = session.plan_append(make_content("dialogue", text="123"))
    assert plan.warnings
    session.apply(plan)
    assert not session.plan_annotate(plan.record.commit_hash, "skip").warnings


def test_a_budget_can_call_back(clock):
    calls = []
    budget = TokenBudget(2, "callback", lambda total, limit: calls.append((total, limit)))
    session = Session.new("s", clock=clock, counter=Letters(), budget=budget)
    session.append(make_content("dialogue", text="12"))
    session.append(make_content("dialogue", text="3"))
    assert calls == [(3, 2)]


def test_a_budget_of_0_is_a_budget(clock):
    session = Session.new("s", clock=clock, counter=Letters(), budget=TokenBudget(0, "reject"))
    with pytest.raises(BudgetExceededError):
        session.append(make_content("dialogue", text="1"))
    with pytest.raises(BudgetError):
        TokenBudget(-1)
    with pytest.raises(BudgetError):
        TokenBudget(1, "panic")


def test_a_budget_is_remembered_by_the_log(clock):
    session = Session.new("s", clock=clock, counter=Letters(), budget=TokenBudget(1, "reject"))
    again = Session.replay(session.records, counter=Letters())
    with pytest.raises(BudgetExceededError):
        again.append(make_content("dialogue", text="12"))


def test_commits_carry_increasing_times_of_their_own(session):
    times = [session.append(make_content("dialogue", text=t)).timestamp_iso for t in "abc"]
    assert times == sorted(set(times))
