"""A service and slow models: everybody else goes on, and nobody pays twice."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from indexer import Workspace
from indexer.core.frames import MemoKey
from indexer.engine.models.calls import ModelCalls
from indexer.engine.models.settings import load_llm_settings
from indexer.generators.llm.budget import Caps
from tests.support.asking import FILES, Asking, Serving, declaration
from tests.support.model_server import Handler, ModelServer, answer, fails, held
from tests.support.paid import has_answers
from tests.support.service import Service
from tests.support.space import python
from tests.support.waiting import wait_until


def fresh(service: Service, kind: str = "summary") -> int:
    return int(service.status()["types"].get(kind, {"fresh": 0})["fresh"])


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    return thread, found


def test_a_watcher_asks_no_model_unless_it_may(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    space = asking()
    service = serving(space)
    (space.root / "src/one/a.py").write_text(python("a", value=3))
    service.converges()
    service.goes_idle()
    assert server.calls == 0
    document = service.client.post("/v1/regenerate", {"node": ""})
    assert (document["calls"], server.calls) == (8, 8)
    assert fresh(service) == 8
    # What is known is used without asking anybody: another branch and back.
    (space.root / "src/one/a.py").write_text(python("a", value=4))
    service.converges()
    assert fresh(service) == 4
    (space.root / "src/one/a.py").write_text(python("a", value=3))
    wait_until(lambda: fresh(service) == 8, "the known answers are used")
    assert server.calls == 8


def test_a_slow_model_holds_up_nobody(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gate = threading.Event()
    space = asking()
    service = serving(space)
    server.always = held(gate)
    client = service.client
    running, found = in_background(lambda: client.post("/v1/regenerate", {"node": ""}))
    server.wait_for(4)
    # While four calls hang: status, an edit, another writer, a read.
    assert service.status()["state"] == "current"
    (space.root / "src/two/c.py").write_text(python("c", value=9))
    service.converges()
    client.post("/v1/agent-add", {"agent_id": "ann", "role": "writer"})
    note = {"node": "README.md", "content": "seen", "frame_type": "note", "agent": "ann"}
    assert client.post("/v1/put-frame", note)["freshness"] == "fresh"
    assert client.post("/v1/get-head", {"node": "src"})["heads"] == []
    assert running.is_alive()
    assert server.answered == 0
    gate.set()
    running.join(60)
    assert found[0]["failed"] == []
    assert fresh(service) == 8
    # The edit came while c.py may have been asked for: at most that one answer was for nothing.
    assert server.calls <= 9


def test_two_who_ask_for_the_same_pay_once(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gate = threading.Event()
    service = serving(asking())
    server.always = held(gate)
    client = service.client
    runs = [in_background(lambda: client.post("/v1/regenerate", {"node": ""})) for _ in range(3)]
    server.wait_for(4)
    gate.set()
    for thread, found in runs:
        thread.join(60)
        assert found[0]["failed"] == []
    assert server.calls == 8
    assert sum(found[0]["calls"] for _, found in runs) == 8
    assert fresh(service) == 8


def test_a_watcher_that_may_follows_small_edits(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    space = asking(llm="watch = true\nwatch_calls_per_pass = 10\nwatch_calls = 13")
    service = serving(space)
    wait_until(lambda: fresh(service) == 8, "the first eight are made")
    (space.root / "src/one/a.py").write_text(python("a", value=3))
    wait_until(lambda: server.calls == 12, "the edit is followed up to the root")
    wait_until(lambda: fresh(service) == 8, "everything is fresh again")
    # One call is left; the rest of the next edit has to wait for somebody who asks.
    (space.root / "src/one/a.py").write_text(python("a", value=4))
    wait_until(lambda: "no more model calls" in str(service.health()["frames"]), "it is told")
    service.goes_idle()
    assert server.calls == 13
    assert service.client.post("/v1/regenerate", {"node": ""})["calls"] == 3


def test_a_watcher_never_begins_a_large_run(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    space = asking(llm="watch = true\nwatch_calls_per_pass = 7")
    service = serving(space)
    wait_until(lambda: "needs 8 model calls" in str(service.health()["frames"]), "it is told")
    service.goes_idle()
    assert server.calls == 0


def test_a_watcher_outlives_a_broken_server_and_key(
    asking: Asking, serving: Serving, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.always = fails(401)
    space = asking(llm="watch = true")
    service = serving(space)
    wait_until(lambda: server.calls >= 1, "it has tried")
    service.goes_idle()
    assert server.calls <= 4
    (space.root / "new.txt").write_text("x\n")
    service.converges()


def test_stopping_waits_for_answers_that_are_nearly_there(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gate = threading.Event()
    space = asking()
    service = serving(space)
    server.always = held(gate)
    client = service.client

    def ask() -> None:
        with pytest.raises(Exception, match="stopp"):
            client.post("/v1/regenerate", {"node": ""})

    running, _ = in_background(ask)
    server.wait_for(4)
    threading.Timer(0.3, gate.set).start()
    assert service.stop() == 0
    running.join(60)
    space.open()
    server.always = None
    # All four were taken in before the end.
    assert space.engine.regenerate()["calls"] == 4
    assert server.calls == 8
    space.engine.close()


@pytest.mark.soak
def test_a_client_waits_longer_than_for_anything_else(
    asking: Asking, serving: Serving, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.service.client.TIMEOUT", 2.0)
    space = asking()
    serving(space)
    gate = threading.Event()
    server.always = held(gate)
    threading.Timer(3.0, gate.set).start()
    with Workspace.open(space.root) as workspace:
        assert workspace.is_remote
        assert workspace.regenerate()["calls"] == 8


@pytest.mark.soak
def test_nothing_more_is_asked_for_a_client_that_left(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    files = {f"m{number}.py": python(f"f{number}") for number in range(120)}
    space = asking(files, llm="ask_above_calls = 1000")
    service = serving(space)

    def slowly(handler: Handler, body: dict[str, Any]) -> None:
        threading.Event().wait(0.5)
        answer(handler, body)

    server.always = slowly
    body = b'{"node": ""}'
    head = f"POST /v1/regenerate HTTP/1.1\r\nHost: m\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(service.client.address)
        connection.sendall(head.encode() + body)
        server.wait_for(4)

    def is_quiet() -> bool:
        before = server.calls
        time.sleep(1.5)
        return before == server.calls == server.answered

    # All of them would take a quarter of a minute; it is noticed long before.
    wait_until(is_quiet, "nothing is asked any more")
    asked = server.calls
    assert asked < 120
    server.always = None
    # What was answered is kept.
    assert service.client.post("/v1/regenerate", {"node": ""})["calls"] == 121 - asked


def test_the_model_of_one_workspace_is_asked_with_its_own_settings(
    asking: Asking, server: ModelServer
) -> None:
    space = asking(dict(FILES), options=', variant = "b"')
    assert space.engine.regenerate()["calls"] == 8
    space.declare(declaration(server.url))
    # The variant takes part in the fingerprint of files here, and so in nothing of before.
    assert space.engine.regenerate()["calls"] > 0


# -- what failed, and what bounds a watcher

SOON = "import indexer.engine.models.backoff as backoff\nbackoff.FIRST_REST = 0.2"
"""What failed is tried again after a moment."""


def test_a_question_that_failed_is_asked_again_only_when_its_file_changed(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    server.always = fails(400)
    space = asking(llm="watch = true")
    service = serving(space)
    server.wait_for(4)
    service.goes_idle()
    (space.root / "src/one/a.py").write_text(python("a", value=3))
    server.wait_for(5)
    service.converges()
    service.goes_idle()
    assert server.calls == 5
    # Whoever asks for it gets it tried.
    server.always = answer
    assert service.client.post("/v1/regenerate", {"node": ""})["failed"] == []
    assert fresh(service) == 8


def test_a_question_that_failed_is_asked_again_after_a_while(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    server.always = fails(400)
    service = serving(asking(llm="watch = true"), inject=SOON)
    server.wait_for(8)
    server.always = answer
    wait_until(lambda: fresh(service) == 8, "what failed was asked again")


def test_an_outage_ends_by_itself(asking: Asking, serving: Serving, server: ModelServer) -> None:
    files = {f"src/m{number}.py": python(f"f{number}") for number in range(9)}
    server.always = fails(503)
    service = serving(asking(files, llm="watch = true\nretries = 0"), inject=SOON)
    wait_until(lambda: "unreachable" in str(service.health()["frames"]), "it is told")
    server.always = answer
    wait_until(lambda: fresh(service) == 11, "the server is asked again")
    assert service.health()["frames"] is None


def test_a_new_address_counts_at_once(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    server.always = fails(401)
    space = asking(llm="watch = true")
    service = serving(space)
    wait_until(lambda: "refused" in str(service.health()["frames"]), "it is told")
    service.goes_idle()
    asked, other = server.calls, ModelServer()
    try:
        space.declare(declaration(other.url, llm="watch = true"))
        (space.root / "README.md").write_text("# Moved\n")
        wait_until(lambda: fresh(service) == 8, "the other server is asked")
        assert (server.calls, other.calls) == (asked, 8)
    finally:
        other.stop()


@pytest.mark.parametrize(
    ("cap", "llm"),
    [
        ("max_calls", "max_calls = 3\n"),
        # Three calls of at most 0.40 each fit, and four do not.
        ("max_cost", 'max_cost = 1.3\n[llm.prices."gpt-4o-mini"]\ninput = 0\noutput = 1000\n'),
    ],
)
def test_what_a_run_may_use_bounds_a_watcher_too(
    asking: Asking, serving: Serving, server: ModelServer, cap: str, llm: str
) -> None:
    server.usage = (100, 400)
    service = serving(asking(llm=f"watch = true\n{llm}"))
    wait_until(lambda: f"no more model calls ({cap})" in str(service.health()["frames"]), "it told")
    service.goes_idle()
    assert server.calls == 3


def test_a_second_signal_stops_a_watcher_at_once_with_what_was_answered(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    patient = "import indexer.service.maintainer as maintainer\nmaintainer.GRACE = 600"
    first, never = threading.Event(), threading.Event()
    server.then(held(first), held(first), held(never), held(never))
    space = asking(llm="watch = true")
    service = serving(space, inject=patient)
    server.wait_for(4)
    service.process.send_signal(signal.SIGINT)
    first.set()
    has_answers(space.root, 2)
    assert service.process.poll() is None
    service.process.send_signal(signal.SIGINT)
    service.process.wait(60)
    never.set()
    space.open()
    assert space.engine.regenerate()["calls"] == 6
    space.engine.close()


def test_who_is_in_a_hurry_is_heard_at_any_moment(
    asking: Asking, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = asking()
    engine, clear = space.engine, threading.Event.clear
    calls = ModelCalls(engine.in_flight, load_llm_settings(engine.root), Caps(1))
    key = MemoKey(bytes(32))
    calls._asked[key] = None
    engine.in_flight.claims[key] = calls

    def hurry_and_clear(event: threading.Event) -> None:
        if not engine.in_flight.is_hurried:
            engine.in_flight.hurry()
        clear(event)

    monkeypatch.setattr(threading.Event, "clear", hurry_and_clear)
    began = time.monotonic()
    assert not calls.wait_until(began + 30)
    assert engine.in_flight.is_hurried
    assert time.monotonic() < began + 30
    calls.close()
