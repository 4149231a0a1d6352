"""Commands are let in once the index is open and sound, while the rest of a service is loaded."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import connect
from indexer.store.layout import Layout
from tests.support.service import Service
from tests.support.space import with_index
from tests.support.waiting import wait_until

SLOW_TO_LOAD = """
import os, time
from indexer.service import serving
begin = serving.serve
def serve(*given, **named):
    while not os.path.exists({flag!r}):
        time.sleep(0.01)
    return begin(*given, **named)
serving.serve = serve
"""


@pytest.fixture
def slow(
    services: Callable[..., Service], sample: Path, tmp_path: Path
) -> tuple[Service, Callable[[], None]]:
    """A service that is let go on, once it is told to."""
    flag = tmp_path / "flag"
    service = services(sample, inject=SLOW_TO_LOAD.format(flag=str(flag)))
    return service, flag.touch


def test_who_comes_early_waits_for_the_first_look(
    slow: tuple[Service, Callable[[], None]],
) -> None:
    service, go_on = slow
    client = service.client
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(client.get("/v1/status")))
    asking.start()
    assert not answers
    go_on()
    asking.join()
    assert answers[0]["files"] == 31
    assert answers[0]["state"] == "current"
    assert service.stop() == 0


def test_an_address_that_a_power_cut_left_empty_is_nobodys(
    services: Callable[..., Service], sample: Path
) -> None:
    note = Layout(with_index(sample)).socket
    note.touch()
    assert connect(sample) is None
    assert services(sample).client.get("/v1/status")["state"] == "current"
    assert note.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_early_ends_it_politely(
    slow: tuple[Service, Callable[[], None]], number: signal.Signals
) -> None:
    service, go_on = slow
    assert service.client
    service.signal(number)
    assert service.is_running()
    go_on()
    assert service.wait() == 0, service.output()
    assert not Layout(service.root).socket.exists()


def test_nobody_is_let_into_a_damaged_index(
    services: Callable[..., Service], sample: Path, tmp_path: Path
) -> None:
    assert services(sample).ready().stop() == 0
    for segment in Layout(sample).journal.iterdir():
        segment.write_bytes(b"\xff" * segment.stat().st_size)
    # It would say when it lets anybody in.
    told = "from indexer.service import run\nrun._announce = lambda _: print('let in', flush=True)"
    service = services(sample, inject=told)
    wait_until(service.ended, "it refuses")
    assert service.wait() == 4, service.output()
    assert "let in" not in service.output()
    assert connect(sample) is None
