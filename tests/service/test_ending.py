"""SIGTERM ends a service soon, whatever it is at, and a large file holds up nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import connect
from tests.support.service import Service
from tests.support.waiting import wait_until

SOON = 15.0
"""Seconds: a service takes two at most, a busy machine more. What goes on here takes minutes."""

HUGE = 200 << 30

SLOW_GENERATOR = """
import time
from indexer.engine.make import workers
workers._make = lambda *_: time.sleep(600)
"""
SLOW_WORKERS = """
from indexer.engine.make import processes, workers
workers.MANY = 1
processes._START = processes._START.replace(
    "importlib.import_module(name).serve()",
    "import time; made = importlib.import_module(name);"
    " made._make = lambda *_: time.sleep(600); made.serve()",
)
"""
SLOW_LOOK = """
import time
from indexer.scan import walk
walk.Walker.walk = lambda *_: time.sleep(600)
"""
LONG_QUERY = "SELECT count(*) FROM range(10000000000) a, range(1000000000) b"


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def ends_soon(service: Service) -> None:
    helpers = children(service.pid)
    began = time.monotonic()
    service.signal(signal.SIGTERM)
    assert service.wait() == 0, service.output()
    assert time.monotonic() - began < SOON
    assert "Traceback" not in service.output()
    wait_until(lambda: not any(os.path.exists(f"/proc/{one}") for one in helpers), "helpers end")
    assert connect(service.root) is None


@pytest.mark.parametrize(
    "busy", [SLOW_GENERATOR, SLOW_WORKERS, SLOW_LOOK], ids=["generator", "workers", "look"]
)
def test_sigterm_ends_it_whatever_it_does(
    sample: Path, services: Callable[..., Any], busy: str
) -> None:
    service = services(sample, inject=busy)
    assert service.client
    if busy == SLOW_WORKERS:
        wait_until(lambda: len(children(service.pid)) > 1, "helpers run")
    else:
        # The thread that writes sleeps in what it is at.
        wait_until(lambda: service.health()["state"] in ("starting", "watching"), "it is at it")
        service.goes_idle()
    ends_soon(service)


def test_sigterm_ends_it_with_many_clients(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample).ready()
    service.converges()

    def ask(path: str, body: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):
            service.client.post(path, body)

    asking = [("/v1/sql", {"query": LONG_QUERY, "timeout": 250})] * 30
    asking += [("/v1/get-node", {"node": "README.md"})] * 30
    running = [threading.Thread(target=ask, args=one, daemon=True) for one in asking]
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            # Clients that say half a word, and one that listens for ever.
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.connect(service.client.address)
            waiting.sendall(b"POST /v1/sql HTTP/1.1\r\nHost: m\r\nContent-Length: 100\r\n\r\n{")
        waiting.sendall(b"GET /v1/events HTTP/1.1\r\nHost: m\r\n\r\n")
        for one in running:
            one.start()
        time.sleep(0.2)
        ends_soon(service)
    for one in running:
        one.join(30)
        assert not one.is_alive()


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_a_huge_file_holds_up_nobody(sample: Path, services: Callable[..., Any]) -> None:
    sparse(sample / "huge.img", HUGE)
    service = services(sample).ready()
    # It could not be said to be current: nobody knows yet what is in it.
    wait_until(lambda: service.status()["state"] == "stale", "the rest is known")
    told = {one["path"]: one["reason"] for one in service.status()["unreadable"]}
    assert "is being read" in told["huge.img"]
    (sample / "README.md").write_text("changed\n")
    shown = service.client.post("/v1/get-node", {"node": "README.md"})
    assert shown["size"] == len("changed\n")
    ends_soon(service)


def test_a_large_file_is_known_once_it_was_read(
    sample: Path, services: Callable[..., Any], from_nothing: Callable[[Path], str]
) -> None:
    small = (
        "import indexer.scan.large_files as m, indexer.scan.hashpool as h, indexer.scan.walk as w\n"
    )
    small += "m.LARGE = h.LARGE = w.LARGE = 1 << 16\n"
    # Told late: between reading and recording nothing may be called current either.
    small += (
        "import time, indexer.service.writing_thread as t\n"
        "tell = t.WritingThread._large_was_read\n"
        "t.WritingThread._large_was_read = lambda *told: (time.sleep(0.5), tell(*told))\n"
    )
    sparse(sample / "large.img", 1 << 17)
    service = services(sample, inject=small).ready()
    assert service.converges()["unreadable"] == []
    (sample / "large.img").write_bytes(os.urandom(1 << 18))
    assert service.converges()["files"] == 32
    assert service.status()["root"] == from_nothing(sample)
    (sample / "large.img").unlink()
    assert service.converges()["files"] == 31
