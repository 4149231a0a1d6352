"""Chat logs of providers: in as turns, and out as they came."""

from __future__ import annotations

import pytest

from indexer.sessions import import_session, make_content
from indexer.sessions.chat import ChatError, import_chat, is_chat

OPENAI = [
    {"role": "developer", "content": "You are helpful."},
    {"role": "user", "content": "What is the weather?", "name": "Ann"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{ "city":"Rome" }'},
            },
            {
                "id": "call_2",
                "type": "function",
                "function": {"name": "weather", "arguments": "not json"},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "call_2", "content": "error"},
    {"role": "assistant", "content": "Sunny.", "refusal": None},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
        ],
    },
    {"role": "assistant", "content": "A cat."},
    {"role": "assistant", "content": "Or a dog."},
]
ANTHROPIC = {
    "system": "You are helpful.",
    "messages": [
        {"role": "user", "content": "What is the weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
                {"type": "text", "text": "There it is."},
            ],
        },
        {"role": "assistant", "content": "Sunny."},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
                {"type": "image", "source": {"type": "url", "url": "x"}},
            ],
        },
    ],
}


def test_the_minimal_flat_log_becomes_system_block_and_turn():
    log = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi!"},
    ]
    session = import_chat({"flat_log": log}, "s")
    assert [m["content"] for m in session.thread()] == ["You are helpful.", "Hello", "Hi!"]
    assert len(session.select("^sys .cb[role='system']")) == 1
    assert len(session.select("^seq .mt")) == 1
    assert len(session.select("^seq .mt:depth(1) .mc > .cb")) == 2
    assert [m.role for m in session.compile().messages] == ["system", "user", "assistant"]


def test_each_exchange_is_a_turn():
    session = import_chat(OPENAI, "s")
    assert len(session.select("^seq .mt")) == 2
    assert len(session.select("^seq .mt:depth(2) .cb")) == 6
    assert len(session.select(".cb[kind='call']")) == 2
    assert len(session.select(".cb[kind='result'][role='tool']")) == 2
    assert len(session.select(".cb[kind='image_url'][role='user']")) == 1


def test_openai_logs_come_back_as_they_were():
    assert import_chat(OPENAI, "s").chat("openai") == OPENAI


def test_anthropic_logs_come_back_as_they_were():
    assert import_chat(ANTHROPIC, "s").chat("anthropic") == ANTHROPIC


@pytest.mark.parametrize(("log", "form"), [(OPENAI, "openai"), (ANTHROPIC, "anthropic")])
def test_chat_logs_survive_a_session_export(log, form):
    session = import_chat(log, "s")
    again = import_session(session.export(), "t")
    assert again.chat(form) == log


def test_a_log_of_one_provider_can_go_to_the_other():
    other = import_chat(OPENAI, "s").chat("anthropic")
    assert other["system"] == "You are helpful."
    assert other["messages"][1]["content"][0] == {
        "type": "tool_use",
        "id": "call_1",
        "name": "weather",
        "input": {"city": "Rome"},
    }
    back = import_chat(ANTHROPIC, "s").chat("openai")
    call = next(m["tool_calls"][0] for m in back if "tool_calls" in m)
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert {"role": "tool", "tool_call_id": "t1", "content": "sunny"} in back


def test_edits_and_skips_show_in_the_export(session):
    first = session.append(make_content("dialogue", text="a"))
    second = session.append(make_content("dialogue", text="b", role="assistant"))
    session.edit(first.commit_hash, make_content("dialogue", text="c"))
    session.annotate(second.commit_hash, "skip")
    assert session.chat("openai") == [{"role": "user", "content": "c"}]


def test_calls_made_in_a_session_are_exported(session):
    session.append(make_content("dialogue", text="look", role="assistant"))
    session.append(make_content("tool_io", payload={"q": 1}, name="search", role="assistant"))
    session.append(make_content("tool_io", payload={"hits": []}, name="search"))
    first, second = session.chat("openai")
    assert first["content"] == "look"
    assert first["tool_calls"][0]["function"]["name"] == "search"
    assert (second["role"], second["content"]) == ("tool", '{"hits": []}')


def test_import_session_takes_chat_logs():
    assert is_chat(OPENAI)
    assert is_chat(ANTHROPIC)
    assert not is_chat({"root": {}})
    assert len(import_session(OPENAI, "s").select("^seq .mt")) == 2
    assert len(import_session(ANTHROPIC, "s").select("^sys .cb")) == 1


@pytest.mark.parametrize(
    "log",
    [
        {"messages": "x"},
        [{"content": "x"}],
        [{"role": "user", "content": ["x"]}],
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}],
        ["x"],
    ],
)
def test_what_is_no_chat_log_is_refused(log):
    with pytest.raises(ChatError):
        import_chat(log, "s")


def test_unknown_formats_are_refused(session):
    with pytest.raises(ChatError):
        session.chat("smoke-signals")


FUNCTIONS = [
    {"role": "user", "content": "What is the weather?"},
    {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "weather", "arguments": '{"city": "Rome"}'},
    },
    {"role": "function", "name": "weather", "content": "sunny"},
    {"role": "assistant", "content": "Sunny."},
]


def test_calls_and_results_from_before_calls_had_ids():
    session = import_session(FUNCTIONS, "s")
    assert session.chat("openai") == FUNCTIONS
    used, result = session.chat("anthropic")["messages"][1:3]
    assert used["content"][0]["id"] == result["content"][0]["tool_use_id"]
    kinds = [m["kind"] for m in session.thread() if m["kind"] != "text"]
    assert kinds == ["call", "result"]
