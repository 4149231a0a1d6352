"""kill -9 at any moment: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import Client, ServiceError
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked

_SCANNER = """
import random, sys
from pathlib import Path
from tests.support.engines import Engine
root, chance = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
with Engine.create(root) as engine:
    print("ready", flush=True)
    while True:
        for _ in range(chance.randint(1, 150)):
            path = root / f"d{chance.randint(0, 29)}" / f"f{chance.randint(0, 60)}"
            if chance.random() < 0.2:
                path.unlink(missing_ok=True)
            else:
                path.write_text(str(chance.random()))
        print(engine.scan()["root"], flush=True)
"""


def fill(root: Path) -> None:
    for number in range(900):
        place = root / f"d{number % 30}"
        place.mkdir(exist_ok=True)
        (place / f"f{number // 30}").write_text(str(number))


def check(root: Path, acknowledged: list[str], from_nothing: Callable[[Path], str]) -> None:
    """Everything acknowledged is in the log, every invariant holds, and the next scan is right."""
    with Engine.create(root) as engine:
        findings = engine.validate()
        if engine.trees.head() is not None:
            assert findings["valid"], findings
        recorded = {entry["root"] for entry in engine.log(10_000)["roots"]}
        assert recorded.issuperset(acknowledged)
        assert engine.scan()["root"] == from_nothing(root)
        assert engine.validate()["valid"]


def kill_scans(
    root: Path, times: int, from_nothing: Callable[[Path], str], acknowledged: list[str]
) -> None:
    chance = random.Random(times)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    for turn in range(times):
        with Forked(
            [sys.executable, "-c", _SCANNER, str(root), str(turn)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        ) as scanner:  # fmt: skip
            try:
                assert scanner.stdout is not None
                assert scanner.stdout.readline() == "ready\n"
                time.sleep(chance.uniform(0, 0.25))
            finally:
                scanner.kill()
            # A line without its end was not said.
            said = scanner.stdout.read().split("\n")[:-1]
            acknowledged += said
        check(root, acknowledged, from_nothing)


def kill_services(
    root: Path,
    times: int,
    services: Callable[..., Any],
    from_nothing: Callable[[Path], str],
    acknowledged: list[str],
) -> None:
    chance = random.Random(times)
    for _ in range(times):
        service = services(root)
        client = service.client
        deadline = time.monotonic() + chance.uniform(0, 0.4)
        while time.monotonic() < deadline:
            for _ in range(chance.randint(1, 60)):
                path = root / f"d{chance.randint(0, 29)}" / f"g{chance.randint(0, 60)}"
                if chance.random() < 0.2:
                    path.unlink(missing_ok=True)
                else:
                    path.write_text(str(chance.random()))
            if chance.random() < 0.5:
                acknowledged.append(client.get("/v1/status")["root"])
        # One more question is under way when it dies.
        question = _ask_without_waiting(client)
        time.sleep(chance.uniform(0, 0.05))
        service.kill()
        question.close()
        check(root, acknowledged, from_nothing)


def _ask_without_waiting(client: Client) -> Any:
    import socket

    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(client.address)
        connection.sendall(b"GET /v1/status HTTP/1.1\r\nHost: m\r\n\r\n")
    except OSError as error:
        connection.close()
        raise ServiceError("gone") from error
    return connection


@pytest.fixture
def filled(folder: Path) -> Path:
    fill(folder)
    return folder


def test_killed_scans(filled: Path, from_nothing: Callable[[Path], str]) -> None:
    acknowledged: list[str] = []
    kill_scans(filled, 2, from_nothing, acknowledged)


def test_killed_services(
    filled: Path, services: Callable[..., Any], from_nothing: Callable[[Path], str]
) -> None:
    acknowledged: list[str] = []
    kill_services(filled, 2, services, from_nothing, acknowledged)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_fifty_killed_scans(filled: Path, from_nothing: Callable[[Path], str]) -> None:
    acknowledged: list[str] = []
    kill_scans(filled, 50, from_nothing, acknowledged)
    assert len(acknowledged) > 10


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_fifty_killed_services(
    filled: Path, services: Callable[..., Any], from_nothing: Callable[[Path], str]
) -> None:
    acknowledged: list[str] = []
    kill_services(filled, 50, services, from_nothing, acknowledged)
    assert len(acknowledged) > 10


def test_killed_while_initialising(shm: Path, from_nothing: Callable[[Path], str]) -> None:
    """The first moments of a workspace's life, too."""
    chance = random.Random(11)
    for _ in range(2):
        root = Path(tempfile.mkdtemp(prefix="ws-", dir=shm))
        fill(root)
        with Forked(
            [sys.executable, "-c", _SCANNER, str(root), "1"],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        ) as scanner:  # fmt: skip
            deadline = time.monotonic() + 60
            while not (root / ".merkle").exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.05))
            scanner.kill()
        check(root, [], from_nothing)
