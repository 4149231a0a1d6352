"""A session read as messages: edits, skips, roles, merging, moments and stages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from indexer.compiler import Plugins
from indexer.core.tokens import TiktokenCounter
from indexer.sessions import CompileOptions, Placement, Session, import_session, make_content
from indexer.sessions.compile import CompileError, moment_us
from indexer.sessions.log import CommitNotFoundError


def messages(session: Session, *args, **moment) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in session.compile(*args, **moment).messages]


def dialogue(text: str, role: str = "user", name: str | None = None) -> dict:
    return make_content("dialogue", text=text, role=role, name=name)


def test_nothing_compiles_to_nothing(session):
    compiled = session.compile()
    assert compiled.to_json() == {
        "messages": [],
        "token_count": 0,
        "commit_count": 0,
        "token_source": "",
    }


def test_uncommitted_work_is_compiled(session):
    session.append(dialogue("hi"))
    assert messages(session) == [("user", "hi")]


def test_edits_take_the_place_of_their_target(session):
    law = session.append(make_content("instruction", text="be helpful"))
    session.append(dialogue("hi"))
    session.edit(law.commit_hash, make_content("instruction", text="be concise"))
    assert messages(session) == [("system", "be concise"), ("user", "hi")]
    assert session.compile().commit_count == 2
    session.commit()
    assert messages(session) == [("system", "be concise"), ("user", "hi")]


def test_the_latest_edit_wins(session):
    first = session.append(dialogue("1"))
    for text in ("2", "3"):
        session.edit(first.commit_hash, dialogue(text))
    assert messages(session) == [("user", "3")]


def test_edits_can_be_shown(session):
    first = session.append(dialogue("1"))
    session.append(dialogue("untouched", "assistant"))
    session.edit(first.commit_hash, dialogue("2"))
    assert messages(session, CompileOptions(show_edits=True)) == [
        ("user", "2 [edited]"),
        ("assistant", "untouched"),
    ]


def test_a_removed_edit_gives_the_original_back(session):
    first = session.append(dialogue("1"))
    edit = session.edit(first.commit_hash, dialogue("2"))
    session.apply(session.plan_remove(edit.node_id))
    assert messages(session) == [("user", "1")]


def test_skipped_blocks_are_left_out_until_they_are_not(session):
    first = session.append(dialogue("1"))
    session.append(dialogue("2", "assistant"))
    session.annotate(first.commit_hash, "skip")
    assert messages(session) == [("assistant", "2")]
    session.annotate(first.commit_hash, "normal")
    assert messages(session) == [("user", "1"), ("assistant", "2")]


def test_expired_blocks_are_left_out(session):
    session.append(dialogue("context"), Placement(ttl=1, offset=-1))
    session.append(dialogue("hi", "assistant"))
    session.commit()
    session.commit()
    assert messages(session) == [("assistant", "hi")]


def test_blocks_are_read_in_the_order_of_the_thread(session):
    session.append(dialogue("hi"))
    session.append(dialogue("context", "assistant"), Placement(offset=-1))
    session.append(make_content("instruction", text="law"))
    assert messages(session) == [("system", "law"), ("assistant", "context"), ("user", "hi")]


def test_roles_by_type_and_by_override(session):
    session.append(make_content("instruction", text="i"))
    session.append(dialogue("d"))
    session.append(make_content("tool_io", payload={"r": 1}))
    session.append(make_content("output", text="o"))
    assert messages(session) == [
        ("system", "i"),
        ("user", "d"),
        ("tool", '{"r": 1}'),
        ("assistant", "o"),
    ]
    changed = messages(session, CompileOptions(roles={"tool_io": "user", "dialogue": "assistant"}))
    assert [role for role, _ in changed] == ["system", "assistant", "user", "assistant"]


def test_neighbours_of_one_role_are_merged(session):
    for text, role in [("A", "user"), ("B", "user"), ("C", "assistant"), ("D", "user")]:
        session.append(dialogue(text, role))
    assert messages(session) == [("user", "A\n\nB"), ("assistant", "C"), ("user", "D")]
    assert session.compile().commit_count == 4


def test_names_are_passed_on(session):
    session.append(dialogue("A", name="Ann"))
    session.append(dialogue("B", name="Bob"))
    session.append(make_content("output", text="o"))
    first, second = session.compile().messages
    assert first.to_json() == {"role": "user", "content": "A\n\nB", "name": "Ann"}
    assert "name" not in second.to_json()


def test_tokens_of_messages_include_their_framing(clock):
    counter = TiktokenCounter()
    session = Session.new("s", clock=clock, counter=counter)
    session.append(make_content("instruction", text="System prompt."))
    session.append(dialogue("Hello!"))
    compiled = session.compile()
    raw = counter.count_text("System prompt.") + counter.count_text("Hello!")
    assert compiled.token_count == raw + 2 + 3 * 2 + 3
    assert compiled.token_source == "o200k_base"


def test_as_of_resolves_edits_annotations_and_expiry(clock, session):
    first = session.append(dialogue("1"), Placement(ttl=1))
    moments = {"appended": clock.now_ns()}

    def later(name: str, act) -> None:
        clock.advance(10)
        act()
        moments[name] = clock.now_ns()

    later("pinned", lambda: session.annotate(first.commit_hash, "pinned"))
    later("edited", lambda: session.edit(first.commit_hash, dialogue("2")))
    later("skipped", lambda: session.annotate(first.commit_hash, "skip"))
    later("normal", lambda: session.annotate(first.commit_hash, "normal"))
    later("sealed", session.commit)
    later("expired", session.commit)
    told = {
        name: [text for _, text in messages(session, as_of=at + 5_000_000_000)]
        for name, at in moments.items()
    }
    assert told == {
        "appended": ["1"],
        "pinned": ["1"],
        "edited": ["2"],
        "skipped": [],
        "normal": ["2"],
        "sealed": ["2"],
        "expired": [],
    }
    assert messages(session, as_of=0) == []


def test_as_of_the_time_of_a_commit_includes_it(session):
    records = [session.append(dialogue(text)) for text in "abc"]
    texts = [messages(session, as_of=r.timestamp_iso)[0][1] for r in records]
    assert texts == ["a", "a\n\nb", "a\n\nb\n\nc"]


def test_moments_can_be_written_in_many_ways():
    aware = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    expected = round(aware.timestamp() * 1_000_000)
    assert moment_us(aware) == expected
    assert moment_us(aware.replace(tzinfo=None)) == expected
    assert moment_us("2026-01-02T03:04:05.678901Z") == expected
    assert moment_us("2026-01-02T03:04:05.678901234Z") == expected
    assert moment_us("2026-01-02 04:04:05.678901+01:00") == expected
    assert moment_us(expected * 1000) == expected
    assert moment_us("1969-12-31") == -int(timedelta(days=1).total_seconds()) * 1_000_000
    with pytest.raises(CompileError):
        moment_us("yesterday")


def test_up_to_a_commit(session):
    first = session.append(dialogue("1"))
    session.edit(first.commit_hash, dialogue("2"))
    last = session.append(dialogue("3"))
    assert messages(session, up_to=first.commit_hash) == [("user", "1")]
    assert messages(session, up_to=last.node_id) == [("user", "2\n\n3")]
    session.annotate(first.commit_hash, "skip")
    assert messages(session, up_to=first.commit_hash) == []


def test_an_unknown_up_to_is_an_error(session):
    with pytest.raises(CommitNotFoundError):
        session.compile(up_to="0" * 64)
    first = session.append(dialogue("1"))
    with pytest.raises(CompileError):
        session.compile(as_of=1, up_to=first.commit_hash)


def test_the_staged_compiler_drops_and_collapses(session):
    for text in "abcd":
        session.append(dialogue(text, "user" if text in "ac" else "assistant"))
        session.commit()
    policy = {"collapse": {"target": 2, "mode": "all_but_last"}}
    compiled = session.compile(CompileOptions(policy=policy))
    collapsed, last = compiled.messages
    assert collapsed.content.startswith("[collapsed dialogue ")
    assert last.content == "d"
    assert compiled.commit_count == 2
    spec = compiled.stages.to_json()["stages"]["SPEC"]
    kept = [compiled.ids[node_id] for node_id in spec["selected_ids"]]
    assert kept == [c.node_id for c in session.state.log.commits[2:]]
    assert messages(session, CompileOptions(policy={"selection": {"max_nodes": 0}})) == []


def test_compiling_an_imported_tree():
    blocks = [
        {"id": "a", "role": "user", "content": "hi"},
        {"id": "b", "role": "tool", "content": "ok"},
        {"id": "c", "role": "wizard", "content": "puff"},
        {"id": "d", "role": "user", "content": {"url": "x"}},
    ]
    system = {"nodeType": "^sys", "children": [{"id": "s", "content": "law"}]}
    tree = {"root": {"children": [system, {"nodeType": "^ah", "children": blocks}]}}
    assert messages(import_session(tree, "s")) == [
        ("system", "law"),
        ("user", "hi"),
        ("tool", "ok"),
        ("other", "puff"),
        ("user", '{"content": {"url": "x"}}'),
    ]


def test_compiling_has_no_side_effect(session):
    first = session.append(dialogue("1"))
    before = session.export()
    session.compile(CompileOptions(show_edits=True), up_to=first.commit_hash)
    session.compile(as_of=0)
    assert session.export() == before


# What is pinned stays


@pytest.mark.parametrize(
    "policy",
    [
        {"selection": {"max_turns": 1}},
        {"selection": {"max_nodes": 1}},
        {"selection": {"max_chars": 0}},
        {"selection": {"kind_allowlist": ["output"]}},
        {"collapse": {"target": 0}},
        {"collapse": {"target": 1, "mode": "all_but_last"}},
    ],
)
def test_a_policy_leaves_what_is_pinned(session, policy):
    session.append(make_content("instruction", text="be brief"))
    kept = session.append(dialogue("remember this"))
    session.commit()
    for text in "abc":
        session.append(dialogue(text))
        session.append(dialogue(text, "assistant"))
        session.commit()
    # By default for an instruction, and by word for the rest.
    session.annotate(kept.commit_hash, "pinned")
    found = messages(session, CompileOptions(policy=policy))
    assert found[0] == ("system", "be brief")
    assert found[1][1].split("\n\n")[0] == "remember this"
    session.annotate(kept.commit_hash, "normal")
    assert "remember this" not in str(messages(session, CompileOptions(policy=policy)))


def test_the_policy_can_pin_the_first_system_message(session):
    law = session.append(make_content("instruction", text="be brief"))
    session.annotate(law.commit_hash, "normal")
    session.commit()
    session.append(dialogue("a"))
    session.commit()
    one = {"max_turns": 1}
    assert messages(session, CompileOptions(policy={"selection": one})) == [("user", "a")]
    pinned = {"selection": {**one, "pin_first_system": True}}
    assert messages(session, CompileOptions(policy=pinned))[0] == ("system", "be brief")


def test_a_collapsed_message_reads_as_the_summary_says(session):
    for text in ("first\nand more", "second"):
        session.append(dialogue(text))
        session.append(dialogue("ok", "assistant"))
    policy = {"collapse": {"mode": "all_but_last", "summary": "first_line"}}
    compiled = session.compile(CompileOptions(policy=policy))
    assert compiled.messages[0].content.endswith("] first")
    loud = Plugins(summarizers={"loud": lambda node: node.payload["content"].upper()})
    policy["collapse"]["summary"] = "loud"
    compiled = session.compile(CompileOptions(policy=policy, plugins=loud))
    assert compiled.messages[0].content == "FIRST\nAND MORE"
