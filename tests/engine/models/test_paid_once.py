"""An answer that has come is paid for once, however the run that asked for it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.support.asking import Asking, Serving, declaration
from tests.support.model_server import ModelServer, held
from tests.support.paid import Full, answers, has_answers
from tests.support.processes import Forked
from tests.support.service import Service
from tests.support.space import Space, python
from tests.support.waiting import wait_until

EVERYTHING = 8
"""Four files, which are asked for at once, and four folders."""
AT_ONCE = 4
NO_GRACE = "import indexer.engine.models.intake as late; late.GRACE = 0.0"
"""Nothing rests on an answer that comes in time."""


def the_rest_is_asked(space: Space, server: ModelServer, paid: int) -> None:
    """Opened again, what was answered is not asked for, and everything else is."""
    server.always = None
    server.script.clear()
    space.open()
    space.engine.scan()
    before = server.calls
    document = space.engine.regenerate(yes=True)
    assert (document["failed"], document["stopped"]) == ([], None)
    assert document["calls"] == server.calls - before == EVERYTHING - paid
    assert set(space.labels("summary").values()) == {"fresh"}
    space.valid()
    space.engine.close()


def ask(service: Service) -> tuple[threading.Thread, list[Any]]:
    """Ask for everything; what came of it, be it an error."""
    found: list[Any] = []
    client = service.client

    def work() -> None:
        try:
            found.append(client.post("/v1/regenerate", {"node": ""}))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, found


# -- a database that refuses to write


SCOPED = """
[types.summary]
file = {{ use = "llm", model = "{model}"{options} }}
folder = {{ use = "llm", model = "{model}" }}
scope = ["src"]
"""
FILES = {
    "src/a.py": python("a"), "src/one/b.py": python("b"), "src/one/c.py": python("c"),
    "src/two/d.py": python("d"), "src/two/three/e.txt": "",
}  # fmt: skip
"""Four files that are asked about, one that is not, and four folders."""


def test_answers_that_come_after_the_database_failed(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    first, later = threading.Event(), threading.Event()
    server.then(held(first), *[held(later)] * (AT_ONCE - 1))
    space = asking(FILES, types=SCOPED)
    service = serving(space)
    full = Full(service)
    running, found = ask(service)
    server.wait_for(AT_ONCE)
    full.database()
    first.set()
    # The first is journalled and cannot be stored; the others come while the service gives up.
    has_answers(space.root, 1)
    later.set()
    has_answers(space.root, AT_ONCE)
    running.join(60)
    assert "cannot write to the index" in str(found[0])
    service.stop()
    the_rest_is_asked(space, server, AT_ONCE)
    assert server.calls == EVERYTHING


def test_a_service_that_stops_while_its_database_fails(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gates = [threading.Event() for _ in range(AT_ONCE)]
    server.then(*(held(gate) for gate in gates))
    space = asking(FILES, types=SCOPED)
    service = serving(space)
    full = Full(service)
    running, _ = ask(service)
    server.wait_for(AT_ONCE)
    full.database()
    service.signal(signal.SIGINT)
    for number, gate in enumerate(gates):
        gate.set()
        # One by one: each is journalled, though none before it could be stored.
        has_answers(space.root, number + 1)
    running.join(60)
    service.wait()
    the_rest_is_asked(space, server, AT_ONCE)
    assert server.calls == EVERYTHING


def test_a_watcher_that_stops_while_its_database_fails(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gates = [threading.Event() for _ in range(AT_ONCE)]
    server.always = held(threading.Event())
    space = asking({"src/two/three/e.txt": ""}, types=SCOPED, llm="watch = true")
    service = serving(space)
    full = Full(service)
    # The folders above the empty file are asked about one by one; nobody answers.
    server.wait_for(1)
    server.then(*(held(gate) for gate in gates[: AT_ONCE - 1]))
    for path, text in FILES.items():
        (space.root / path).parent.mkdir(parents=True, exist_ok=True)
        (space.root / path).write_text(text)
    server.wait_for(AT_ONCE)
    service.converges()
    full.database()
    service.signal(signal.SIGINT)
    for number, gate in enumerate(gates[: AT_ONCE - 1]):
        gate.set()
        has_answers(space.root, number + 1)
    service.wait()
    server.always = None
    space.open()
    assert space.engine.records.redone == AT_ONCE - 1
    before = server.calls
    document = space.engine.regenerate()
    assert document["calls"] == server.calls - before == EVERYTHING - (AT_ONCE - 1)
    space.engine.close()


def test_a_journal_that_is_full_for_a_while(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gate = threading.Event()
    server.then(*[held(gate)] * AT_ONCE)
    space = asking(FILES, types=SCOPED)
    service = serving(space)
    full = Full(service)
    running, found = ask(service)
    server.wait_for(AT_ONCE)
    full.limit(1)
    gate.set()
    running.join(60)
    assert "cannot write to" in str(found[0])
    assert answers(space.root) == 0
    # As long as that lasts, nobody pays for more.
    again, refused = ask(service)
    again.join(60)
    assert "cannot write to" in str(refused[0])
    assert server.calls == AT_ONCE
    # There is room again: what nobody waits for any more is journalled before the end.
    full.limit(resource.RLIM_INFINITY)
    assert service.stop() == 0
    assert answers(space.root) == AT_ONCE
    the_rest_is_asked(space, server, AT_ONCE)
    assert server.calls == EVERYTHING


def test_a_watcher_outlives_a_journal_that_is_full(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gate = threading.Event()
    server.then(*[held(gate)] * AT_ONCE)
    space = asking(FILES, types=SCOPED, llm="watch = true")
    service = serving(space)
    server.wait_for(AT_ONCE)
    full = Full(service)
    full.limit(1)
    gate.set()
    wait_until(lambda: "cannot write to" in str(service.health()["frames"]), "it is told")
    full.limit(resource.RLIM_INFINITY)
    assert service.stop() == 0
    assert answers(space.root) == server.calls == AT_ONCE
    the_rest_is_asked(space, server, AT_ONCE)
    assert server.calls == EVERYTHING


# -- a service, and clients that go


def leave_in_the_middle(service: Service, server: ModelServer) -> None:
    """Ask for everything over a connection that is closed while answers are under way."""
    body = b'{"node": ""}'
    head = f"POST /v1/regenerate HTTP/1.1\r\nHost: m\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(service.client.address)
        connection.sendall(head.encode() + body)
        server.wait_for(AT_ONCE)


def test_answers_for_a_client_that_went_are_kept_whenever_they_come(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    first, later = threading.Event(), threading.Event()
    server.then(held(first), *[held(later)] * (AT_ONCE - 1))
    space = asking()
    service = serving(space, inject=NO_GRACE)
    leave_in_the_middle(service, server)
    first.set()
    has_answers(space.root, 1)
    # Who asks next waits for what is under way, and pays for nothing of it.
    running, found = ask(service)
    later.set()
    running.join(60)
    assert (found[0]["failed"], found[0]["waiting"]) == ([], 0)
    assert answers(space.root) == server.calls == EVERYTHING


def test_a_service_that_stops_after_its_client_went(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    first, later = threading.Event(), threading.Event()
    server.then(held(first), *[held(later)] * (AT_ONCE - 1))
    space = asking()
    service = serving(space)
    leave_in_the_middle(service, server)
    first.set()
    has_answers(space.root, 1)
    service.signal(signal.SIGINT)
    later.set()
    assert service.wait() == 0
    # It may have asked once more before it saw that the client had gone.
    paid = answers(space.root)
    assert AT_ONCE <= paid == server.calls <= AT_ONCE + 1
    the_rest_is_asked(space, server, paid)
    assert server.calls == EVERYTHING


def test_sigterm_waits_for_no_answer(asking: Asking, serving: Serving, server: ModelServer) -> None:
    server.always = held(threading.Event())
    space = asking()
    patience = "import indexer.service.maintainer as m, indexer.engine.models.intake as i\n"
    service = serving(space, inject=patience + "m.GRACE = i.GRACE = 600.0")
    running, _ = ask(service)
    server.wait_for(AT_ONCE)
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    running.join(60)
    assert not running.is_alive()


def test_settings_that_change_in_the_middle_cost_no_answer(
    asking: Asking, serving: Serving, server: ModelServer
) -> None:
    gate = threading.Event()
    server.then(*[held(gate)] * AT_ONCE)
    space = asking()
    service = serving(space, inject=NO_GRACE)
    running, found = ask(service)
    server.wait_for(AT_ONCE)
    other = '\n[types.outline]\nfile = "outline"\n'
    space.declare(declaration(server.url) + other)
    # A batch makes the service read them.
    (space.root / "src/new.bin").write_bytes(b"\0")
    wait_until(lambda: "outline" in service.status()["types"], "the new type is kept")
    gate.set()
    running.join(60)
    assert found[0]["stopped"] == "configuration"
    assert answers(space.root) == AT_ONCE


# -- a command without a service


def command(space: Space, *arguments: str) -> Forked:
    """`merkle` as a process of its own."""
    space.engine.close()
    return Forked(
        [sys.executable, "-m", "indexer.cli", "-C", str(space.root), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_in_what_is_under_way(
    asking: Asking, server: ModelServer, number: signal.Signals
) -> None:
    gate = threading.Event()
    server.always = held(gate)
    space = asking()
    process = command(space, "regenerate")
    server.wait_for(AT_ONCE)
    process.send_signal(number)
    gate.set()
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert answers(space.root) == AT_ONCE
    the_rest_is_asked(space, server, AT_ONCE)
    assert server.calls == EVERYTHING


def test_impatience_costs_only_what_has_not_come(asking: Asking, server: ModelServer) -> None:
    first, never = threading.Event(), threading.Event()
    server.then(held(first), held(first), held(never), held(never))
    space = asking()
    process = command(space, "regenerate")
    server.wait_for(AT_ONCE)
    process.send_signal(signal.SIGINT)
    first.set()
    # Two have come while it waits for the others; nobody waits for those.
    has_answers(space.root, 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    never.set()
    the_rest_is_asked(space, server, 2)


def test_a_cap_that_is_reached_with_calls_in_flight(asking: Asking, server: ModelServer) -> None:
    gate = threading.Event()
    server.always = held(gate)
    server.usage = (100, 400)
    prices = '[llm.prices."gpt-4o-mini"]\ninput = 0\noutput = 1000\n'
    space = asking(llm=prices)
    # Four calls of at most 0.40 each fit, and what they use leaves no room for a fifth.
    process = command(space, "--json", "regenerate", "--max-cost", "1.70")
    server.wait_for(AT_ONCE)
    gate.set()
    document = json.loads(process.communicate(timeout=60)[0])
    assert (document["stopped"], document["calls"]) == ("max_cost", AT_ONCE)
    assert answers(space.root) == AT_ONCE
    the_rest_is_asked(space, server, AT_ONCE)
    assert server.calls == EVERYTHING
