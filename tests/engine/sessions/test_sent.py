"""What is given out of a session, and given again: providers' forms and what attempts sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from indexer.core.canonical import canonical_json
from indexer.core.clock import ManualClock
from indexer.engine.durable.repair import repair
from indexer.errors import MerkleError
from indexer.sessions.chat import import_chat
from indexer.sessions.documents import log_checksum
from indexer.sessions.sent import Sending, SentError, is_sent_data, sent_bytes, sent_data
from tests.engine.sessions.test_sessions import after
from tests.support.chats import CHATS, called_and_answered, ends_exchange, messages_of
from tests.support.space import Space, python

FORMS = ("openai", "anthropic")


@pytest.fixture
def space() -> Iterator[Space]:
    with after(begin) as made:
        yield made


def begin(space: Space) -> None:
    space.write("tide.py", python("tide"))
    space.settle()
    space.engine.session_new("talk")


def chat_of(document: dict[str, Any], form: str) -> Any:
    """What is sent of a compiled session."""
    if form == "openai":
        return document["messages"]
    return {key: document[key] for key in ("system", "messages") if key in document}


def compiled(space: Space, form: str) -> Any:
    return chat_of(space.engine.session_compile("talk", form=form), form)


def started(space: Space, attempt_id: str, **options: Any) -> Any:
    told = space.engine.session_attempt(
        "talk", attempt_id, status="running", provider="p", model="m", **options
    )
    return told["attempt"]


def rendered(space: Space, attempt_id: str) -> bytes:
    return str(space.engine.session_render("talk", f"attempt:{attempt_id}")["thread"]).encode()


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_with_tools_goes_in_and_out_and_what_was_sent_is_given_again(
    space: Space, form: str
) -> None:
    engine, chat = space.engine, CHATS[form]
    sent: dict[str, bytes] = {}
    said: list[Any] = []
    for number, message in enumerate(messages_of(form)):
        engine.session_append_message("talk", message, form=form)
        said.append(message)
        if message["role"] in ("user", "tool"):
            # Gone with the commit, and never in a snapshot: sent all the same.
            gone = engine.session_append(
                "talk", type="dialogue", text=f"hint {number}", ttl=0, offset=1
            )
            attempt = started(space, f"a{number}", form=form)
            sent[f"a{number}"] = canonical_json(compiled(space, form))
            digest = hashlib.sha256(sent[f"a{number}"]).hexdigest()
            assert attempt["sent"]["sha256"] == digest
            assert b"hint" in sent[f"a{number}"]
            engine.session_remove("talk", gone["id"])
        if ends_exchange(message):
            engine.session_commit("talk")
    assert compiled(space, form) == chat
    calls, answers = called_and_answered(form, compiled(space, form))
    assert calls == answers
    assert len(calls) == 3
    thread = started(space, "thread")
    sent["thread"] = str(engine.session_render("talk", "@w")["thread"]).encode()
    assert thread["sent"]["sha256"] == hashlib.sha256(sent["thread"]).hexdigest()

    for turn in range(10):
        engine.session_append("talk", type="dialogue", text=f"question {turn}")
        engine.session_append("talk", type="dialogue", role="assistant", text=f"answer {turn}")
        engine.session_commit("talk")
    assert {one: rendered(space, one) for one in sent} == sent
    engine.compact(keep_seconds=0)
    assert {one: rendered(space, one) for one in sent} == sent
    engine.close()
    engine.layout.database.write_bytes(b"no database")
    assert repair(space.root)["repaired"]
    space.open()
    assert {one: rendered(space, one) for one in sent} == sent
    again = compiled(space, form)
    before = again if form == "openai" else again["messages"]
    expected = chat if form == "openai" else chat["messages"]
    assert before[: len(expected)] == expected
    assert len(before) == len(expected) + 20


@pytest.mark.parametrize("form", FORMS)
def test_the_same_conversation_imported_whole_compiles_to_the_same(space: Space, form: str) -> None:
    data = json.dumps(CHATS[form])
    space.engine.session_import(name="whole", data=data, form=form)
    assert chat_of(space.engine.session_compile("whole", form=form), form) == CHATS[form]
    assert json.loads(space.engine.session_export("whole", form=form)["data"]) == CHATS[form]


@pytest.mark.parametrize(("given", "wanted"), [FORMS, FORMS[::-1]])
def test_a_conversation_of_one_provider_goes_to_the_other_with_ids_paired(
    space: Space, given: str, wanted: str
) -> None:
    for message in messages_of(given):
        space.engine.session_append_message("talk", message, form=given)
    calls, answers = called_and_answered(wanted, compiled(space, wanted))
    assert calls == answers == called_and_answered(given, CHATS[given])[0]


PARALLEL = [
    {"role": "user", "content": "Rome or Oslo?"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": one, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        for one in ("c1", "c2")
    ]},
    {"role": "tool", "tool_call_id": "c2", "content": "grey"},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
]  # fmt: skip


def test_results_that_came_one_by_one_are_one_message_where_a_provider_wants_that(
    space: Space,
) -> None:
    for message in PARALLEL:
        space.engine.session_append_message("talk", message, form="openai")
        space.engine.session_commit("talk")
    assert compiled(space, "openai") == PARALLEL
    messages = compiled(space, "anthropic")["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "user"]
    assert [one["tool_use_id"] for one in messages[2]["content"]] == ["c2", "c1"]


def test_what_was_sent_by_older_rules_is_given_again_by_them() -> None:
    found = import_chat(PARALLEL, "talk", clock=ManualClock(10**18)).effective()
    sizes = {}
    for rules in (1, 2):
        sending = Sending("anthropic", rules=rules)
        data = sent_bytes(found, sending)
        told = sent_data(data, sending, 4)
        assert is_sent_data(told, 9)
        assert sent_bytes(found, Sending.from_json(told)) == data
        sizes[rules] = len(json.loads(data)["messages"])
    assert sizes == {1: 4, 2: 3}
    assert not is_sent_data({**told, "rules": 3}, 9)


def test_render_compile_and_snapshot_keep_all_of_a_tools_call(space: Space) -> None:
    for message in messages_of("anthropic"):
        space.engine.session_append_message("talk", message, form="anthropic")
    space.engine.session_commit("talk")
    wanted = [
        ("get_weather", "call", "toolu_01A09q90qw90lq917835lq9", None),
        ("get_weather", "call", "toolu_01B22", None),
        ("get_weather", "result", "toolu_01A09q90qw90lq917835lq9", None),
        ("get_weather", "result", "toolu_01B22", "error"),
        ("find_place", "call", "toolu_01C", None),
        ("find_place", "result", "toolu_01C", None),
    ]
    tools = [
        (each["name"], each["direction"], each["call_id"], each.get("status"))
        for each in space.engine.session_compile("talk")["messages"]
        if "direction" in each
    ]
    assert tools == wanted
    thread = json.loads(space.engine.session_render("talk")["thread"])
    keys = ("tool_name", "direction", "call_id", "status")
    blocks = [one["content"] for one in thread if one["kind"] in ("call", "result")]
    assert [tuple(block[key] for key in keys) for block in blocks] == wanted
    snapshot = space.engine.session_export("talk", "@t0")["data"]
    space.engine.session_import(name="copy", data=snapshot)
    copied = space.engine.session_compile("copy", form="anthropic")
    calls, answers = called_and_answered("anthropic", chat_of(copied, "anthropic"))
    assert calls == answers == ["toolu_01A09q90qw90lq917835lq9", "toolu_01B22", "toolu_01C"]


def test_calls_and_results_never_merge_and_pair_without_ids(space: Space) -> None:
    engine = space.engine
    for city in ("Rome", "Oslo"):
        engine.session_append(
            "talk", type="tool_io", direction="call", label="weather", payload={"city": city}
        )
    for text in ("sunny", "grey"):
        engine.session_append("talk", type="tool_io", label="weather", text=text, status="success")
    own = engine.session_compile("talk")["messages"]
    assert [each["direction"] for each in own] == ["call", "call", "result", "result"]
    assert own[0]["call_id"] == own[2]["call_id"] != own[1]["call_id"] == own[3]["call_id"]
    for form in FORMS:
        calls, answers = called_and_answered(form, compiled(space, form))
        assert calls == answers
        assert len(set(calls)) == 2


def test_what_no_provider_would_take_is_left_out_and_told(space: Space) -> None:
    engine = space.engine
    call = engine.session_append(
        "talk", type="tool_io", direction="call", label="w", payload={}, call_id="c1"
    )
    result = engine.session_append(
        "talk", type="tool_io", label="w", payload={"content": "x"}, call_id="c1"
    )
    engine.session_append("talk", type="dialogue", text="and?")
    engine.session_annotate("talk", call["id"], "skip")
    for form in FORMS:
        document = engine.session_compile("talk", form=form)
        assert document["messages"] == [{"role": "user", "content": "and?"}]
        assert document["unpaired"] == [result["id"]]
    # A call that is still to be answered is no mistake.
    engine.session_append("talk", type="tool_io", direction="call", label="w", payload={})
    assert engine.session_compile("talk", form="openai")["unpaired"] == [result["id"]]
    assert "tool_calls" in engine.session_compile("talk", form="openai")["messages"][-1]


def test_half_a_pair_is_not_left_by_a_policy(space: Space) -> None:
    for message in messages_of("openai"):
        space.engine.session_append_message("talk", message, form="openai")
    total = space.engine.session_compile("talk")["commit_count"]
    for most in range(1, total + 1):
        policy = {"selection": {"max_nodes": most}}
        document = space.engine.session_compile("talk", form="openai", policy=policy)
        calls, answers = called_and_answered("openai", document["messages"])
        assert (calls, document["unpaired"]) == (answers, [])
        assert document["messages"][0]["role"] == "system"
    collapse = {"collapse": {"mode": "all_but_last"}}
    document = space.engine.session_compile("talk", form="openai", policy=collapse)
    calls, answers = called_and_answered("openai", document["messages"])
    assert calls == answers
    assert len(calls) == 3
    assert "21" not in json.dumps(document["messages"])


@pytest.mark.parametrize("form", ["thread", "messages", *FORMS])
def test_an_attempt_keeps_its_form_and_policy(space: Space, form: str) -> None:
    engine = space.engine
    for message in messages_of("openai"):
        engine.session_append_message("talk", message, form="openai")
    engine.session_pull("talk", ["tide.py"])
    policy = None if form == "thread" else {"collapse": {"mode": "all_but_last"}}
    told = started(space, "a", form=form, policy=policy)
    engine.session_attempt("talk", "a", status="completed", provider="p", model="m")
    sent = rendered(space, "a")
    assert hashlib.sha256(sent).hexdigest() == told["sent"]["sha256"]
    assert len(sent) == told["sent"]["bytes"]
    if form != "thread":
        document = engine.session_compile(
            "talk", form=None if form == "messages" else form, policy=policy
        )
        assert document["sha256"] == told["sent"]["sha256"]
    # What a file says now changes the next compile, and not what was sent.
    space.write("tide.py", python("ebb"))
    space.settle()
    engine.session_edit("talk", json.loads(exported_ids(space))[1], text="another question")
    assert rendered(space, "a") == sent
    data = engine.session_export("talk")["data"]
    engine.session_import(name="copy", data=data)
    engine.session_fork("talk", "branch", at="@w")
    for name in ("copy", "branch"):
        assert engine.session_render(name, "attempt:a")["thread"].encode() == sent


def exported_ids(space: Space) -> str:
    return json.dumps(space.engine.session_select("talk", "@w .cb")["ids"])


def test_a_hash_that_the_client_has_is_compared(space: Space) -> None:
    engine = space.engine
    engine.session_append("talk", type="dialogue", text="hi")
    right = engine.session_compile("talk", form="openai")["sha256"]
    length = engine.records.journal.last
    with pytest.raises(MerkleError, match="not what was sent"):
        started(space, "a", form="openai", sent_sha256="0" * 64)
    assert engine.records.journal.last == length
    assert started(space, "a", form="openai", sent_sha256=right)["sent"]["sha256"] == right


def test_what_cannot_be_given_again_is_said_so(space: Space) -> None:
    engine = space.engine
    engine.session_append("talk", type="dialogue", text="hi")
    started(space, "a")
    with pytest.raises(MerkleError, match="no attempt 'b'"):
        rendered(space, "b")
    # A log whose attempt tells of other bytes, which only its reader can find out.
    document = json.loads(engine.session_export("talk")["data"])
    record = document["records"][-1]
    record["sent"]["sha256"] = "0" * 64
    del record["sent"]["form"]
    document["records_sha256"] = log_checksum(document["records"])
    with pytest.raises(MerkleError, match="record 2"):
        engine.session_import(name="forged", data=json.dumps(document))
    record["sent"]["form"] = "thread"
    document["records_sha256"] = log_checksum(document["records"])
    engine.session_import(name="forged", data=json.dumps(document))
    with pytest.raises(MerkleError, match="no longer give"):
        engine.session_render("forged", "attempt:a")


def test_an_attempt_that_is_recorded_after_its_answer_says_before_what_it_was_sent(
    space: Space,
) -> None:
    engine = space.engine
    engine.session_append("talk", type="dialogue", role="user", text="what is a tide?")
    early = {form: started(space, f"e-{form}", form=form)["sent"] for form in ("thread", *FORMS)}
    answer = engine.session_append("talk", type="dialogue", role="assistant", text="water")
    ended = {"status": "completed", "provider": "p", "model": "m"}
    with pytest.raises(SentError, match="ends with an answer") as refused:
        engine.session_attempt("talk", "late", **ended)
    assert answer["id"] in str(refused.value.hint)
    for form, sent in early.items():
        told = engine.session_attempt("talk", form, form=form, before=answer["id"], **ended)
        assert told["attempt"]["sent"]["sha256"] == sent["sha256"]
    engine.session_commit("talk")
    for form in early:
        assert rendered(space, form) == rendered(space, f"e-{form}")
        assert b"water" not in rendered(space, form)
    with pytest.raises(SentError, match="no block"):
        engine.session_attempt("talk", "other", before="nobody", **ended)
    # A log that says so is taken elsewhere, and gives the same.
    engine.session_import(data=engine.session_export("talk")["data"], name="copy")
    again = engine.session_render("copy", "attempt:thread")["thread"]
    assert str(again).encode() == rendered(space, "thread")
