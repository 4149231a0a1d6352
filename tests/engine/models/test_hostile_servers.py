"""Servers that do not keep to the protocol: what they cost is bounded, and nothing leaks."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from indexer.generators.llm.client import MAX_BYTES
from tests.support.asking import KEY, KEY_NAME, OUTLINED, Asking
from tests.support.model_server import Handler, ModelServer, Reply, answer, fails, says
from tests.support.space import python

ONE = {"a.py": python("a")}
STRICT = "concurrency = 1\nretries = 0\n"


def failure_of(document: dict[str, Any]) -> str:
    (failed,) = document["failed"]
    return str(failed["message"])


def moved(status: int, location: str) -> Reply:
    """Sends whoever asks elsewhere."""
    return lambda handler, body: handler.send_json(status, {"moved": "yes"}, {"location": location})


def test_nothing_is_sent_to_where_a_server_points(asking: Asking, server: ModelServer) -> None:
    other = ModelServer()
    try:
        space = asking(ONE, types=OUTLINED, llm="concurrency = 1")
        for calls, status in enumerate((301, 302, 303, 307, 308), 1):
            server.always = moved(status, f"{other.url}/chat/completions")
            document = space.engine.regenerate()
            assert f"HTTP {status}" in failure_of(document)
            assert "llm.base_url" in failure_of(document)
            # Every other call would be sent away as well.
            assert document["stopped"] == "refused"
            assert (server.calls, other.calls) == (calls, 0)
    finally:
        other.stop()


class Dripping:
    """Sends one byte after the other, each well within the timeout, and an answer in the end."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.sent = 0
        self.last = 120

    def __call__(self, handler: Handler, body: dict[str, Any]) -> None:
        choice = {"index": 0, "finish_reason": "stop", "message": {"content": "At last."}}
        document = json.dumps({"choices": [choice]}).encode()
        handler.send_response(self.status)
        handler.send_header("content-length", str(self.last + len(document)))
        handler.end_headers()
        pause = threading.Event()
        try:
            while self.sent < self.last:
                handler.wfile.write(b" ")
                self.sent += 1
                pause.wait(0.025)
            handler.wfile.write(document)
        except OSError:
            handler.close_connection = True


@pytest.mark.parametrize(("status", "said"), [(200, "no answer within 0.5 s"), (400, "HTTP 400")])
def test_an_answer_that_drips_is_given_up_on_in_time(
    asking: Asking, server: ModelServer, status: int, said: str
) -> None:
    space = asking(ONE, types=OUTLINED, llm=STRICT + "timeout = 0.5")
    dripping = Dripping(status)
    server.then(dripping)
    assert said in failure_of(space.engine.regenerate())
    assert dripping.sent < dripping.last


def flood(handler: Handler, body: dict[str, Any]) -> None:
    """An answer behind far more white space than anybody reads."""
    handler.send_response(200)
    handler.send_header("content-length", str(8 * MAX_BYTES))
    handler.end_headers()
    try:
        for _ in range(8):
            handler.wfile.write(b" " * MAX_BYTES)
    except OSError:
        handler.close_connection = True


def bomb(handler: Handler, body: dict[str, Any]) -> None:
    """A few kilobytes that unpack to far more than anybody reads."""
    packed = gzip.compress(b" " * (2 * MAX_BYTES) + b"{}")
    handler.send_response(200)
    handler.send_header("content-encoding", "gzip")
    handler.send_header("content-length", str(len(packed)))
    handler.end_headers()
    handler.wfile.write(packed)


@pytest.mark.parametrize("reply", [flood, bomb])
def test_no_more_is_read_than_an_answer_can_have(
    asking: Asking, server: ModelServer, reply: Reply
) -> None:
    space = asking(ONE, types=OUTLINED, llm=STRICT)
    server.then(reply)
    assert f"more than {MAX_BYTES} bytes" in failure_of(space.engine.regenerate())


def page(handler: Handler, body: dict[str, Any]) -> None:
    """What a gateway shows where nothing is."""
    handler.send_text(200, "<!doctype html><title>Welcome</title>", {"x-kind": "text/html"})


def raw(document: Any) -> Reply:
    return lambda handler, body: handler.send_json(200, document)


ODD: dict[str, tuple[Reply, str]] = {
    "a page": (page, "cannot be read"),
    "nothing": (lambda handler, body: handler.send_text(200, ""), "cannot be read"),
    "a list": (raw([1, 2]), "no chat completion"),
    "another object": (raw({"ok": True}), "no chat completion"),
    "choices of text": (raw({"choices": "none"}), "no chat completion"),
    "a choice of nothing": (raw({"choices": [None]}), "empty"),
    "a message of text": (raw({"choices": [{"message": "hello"}]}), "empty"),
    "content in parts": (raw({"choices": [{"message": {"content": [{"text": "x"}]}}]}), "empty"),
    "nothing but control characters": (says("\0\ud800\x1b\n"), "empty"),
    "deep": (lambda handler, body: handler.send_text(200, "[" * 100_000), "cannot be read"),
    "a long number": (
        lambda handler, body: handler.send_text(200, '{"usage": 1' + "0" * 5000 + "}"),
        "cannot be read",
    ),
}
TYPICAL = {"a list", "a choice of nothing", "deep"}
"""One of each way in which an answer is none."""


def check_odd(asking: Asking, server: ModelServer, names: Iterable[str]) -> None:
    """Each of these fails one of two files that the model is asked about anew."""
    space = asking({}, types=OUTLINED, llm=STRICT)
    for name in names:
        reply, said = ODD[name]
        space.fill({f"{one}.py": python(f"{one}_{name.replace(' ', '_')}") for one in "ab"})
        space.engine.scan()
        server.then(reply)
        document = space.engine.regenerate()
        assert said in failure_of(document), name
        assert document["calls"] == 2, name
    space.valid()


def test_what_is_no_answer_fails_one_node(asking: Asking, server: ModelServer) -> None:
    check_odd(asking, server, sorted(TYPICAL))


@pytest.mark.soak
def test_whatever_is_no_answer_fails_one_node(asking: Asking, server: ModelServer) -> None:
    check_odd(asking, server, sorted(ODD.keys() - TYPICAL))


PRICES = '[llm.prices."gpt-4o-mini"]\ninput = 1000\noutput = 1000\n'


IMPOSSIBLE: list[Any] = [
    {"prompt_tokens": -1, "completion_tokens": -1},
    {"prompt_tokens": True, "completion_tokens": True},
    {"prompt_tokens": "0", "completion_tokens": "0"},
    {"prompt_tokens": 0.0, "completion_tokens": None},
    {"prompt_tokens": 0},
    {"total_tokens": 0},
    [0, 0],
    0,
]


def test_a_usage_that_cannot_be_counts_as_the_worst_case(
    asking: Asking, server: ModelServer
) -> None:
    space = asking(ONE, types=OUTLINED, llm=STRICT + PRICES, options=", max_output_tokens = 100")
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": "Fine."}}
    for number, usage in enumerate(IMPOSSIBLE):
        space.write("a.py", python(f"a{number}"))
        space.engine.scan()
        server.then(raw({"choices": [choice], "usage": usage}))
        document = space.engine.regenerate()
        assert document["calls"] == 1, usage
        assert document["failed"] == [], usage
        assert document["tokens_out"] == 100, usage
        assert document["cost"] > 0.1, usage


def test_a_key_that_a_server_repeats_gets_into_no_frame(
    asking: Asking, server: ModelServer
) -> None:
    space = asking(ONE, types=OUTLINED, llm=STRICT)
    server.then(says(f"Your headers: Bearer {KEY}."))
    assert space.engine.regenerate()["failed"] == []
    (frame,) = space.engine.get_node("a.py", frame_type="summary")["frames"]
    assert frame["content"] == "Your headers: Bearer [key].\n"
    for path in (space.root / ".merkle").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_a_key_is_hidden_also_where_json_spells_it_otherwise(
    asking: Asking, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = 'k3y"with\\signs'
    monkeypatch.setenv(KEY_NAME, odd)
    space = asking(ONE, types=OUTLINED, llm=STRICT)
    server.then(
        lambda handler, body: handler.send_json(400, {"seen": handler.headers["authorization"]})
    )
    message = failure_of(space.engine.regenerate())
    assert "signs" not in message
    assert "HTTP 400" in message


def test_a_short_longest_wait_still_allows_another_attempt(
    asking: Asking, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The pause before the second attempt is longer than the longest that is allowed.
    monkeypatch.setattr("indexer.generators.llm.calling.FIRST_PAUSE", 0.5)
    monkeypatch.setenv("MERKLE_LLM_MAX_WAIT", "0.02")
    space = asking(ONE, types=OUTLINED, llm="concurrency = 1\nretries = 1")
    server.then(fails(500), answer)
    document = space.engine.regenerate()
    assert document["failed"] == []
    assert document["calls"] == 2


def test_a_failure_after_short_pauses_says_why(
    asking: Asking, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.generators.llm.calling.FIRST_PAUSE", 0.5)
    monkeypatch.setenv("MERKLE_LLM_MAX_WAIT", "0.02")
    space = asking(ONE, types=OUTLINED, llm="concurrency = 1\nretries = 1")
    server.always = fails(503, "busy")
    assert failure_of(space.engine.regenerate()) == "HTTP 503: busy (2 attempts)"
