"""Who owns the index: one service, or one command after the other, and nobody in between."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat as modes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import LockedError
from indexer.service.client import connect, socket_name
from indexer.service.workspace import Workspace
from indexer.store.layout import Layout
from indexer.store.lock import OwnerLock
from tests.support.processes import run

REPOSITORY = Path(__file__).resolve().parents[2]

_COMMAND = """
import json, sys
from indexer.service.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    scanned = workspace.scan()
    print(json.dumps([scanned["root"], workspace.status()["state"], workspace.validate()["valid"]]))
"""


def command(root: Path) -> list[Any]:
    code, out, err = run(["-c", _COMMAND, str(root)])
    assert code == 0, err
    found: list[Any] = json.loads(out)
    return found


def test_second_service_names_the_first(sample: Path, services: Callable[..., Any]) -> None:
    first = services(sample).ready()
    second = services(sample)
    assert second.wait() == 6
    assert str(first.pid) in second.output()
    assert first.converges()
    assert first.stop() == 0


def test_second_service_during_the_first_scan(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    racing = [services(sample, wait=0.0), services(sample, wait=0.0)]
    loser = until(lambda: racing[0].ended() or racing[1].ended(), "one of them gives up")
    assert loser.wait() == 6
    assert "in use by" in loser.output()
    winner = racing[1] if loser is racing[0] else racing[0]
    winner.ready().converges()


@pytest.mark.parametrize("many", [5, pytest.param(10, marks=pytest.mark.soak)])
def test_many_commands_at_once_without_a_service(sample: Path, many: int) -> None:
    with ThreadPoolExecutor(many) as pool:
        answers = list(pool.map(command, [sample] * many))
    assert len({answer[0] for answer in answers}) == 1
    assert all(answer[1:] == ["current", True] for answer in answers)


def test_commands_while_a_service_comes_and_goes(
    sample: Path, services: Callable[..., Any]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        commands = [pool.submit(command, sample) for _ in range(4)]
        for _ in range(2):
            service = services(sample)
            if service.ready().is_running():
                assert service.stop() == 0, service.output()
        answers = [found.result() for found in commands]
    assert len({answer[0] for answer in answers}) == 1
    assert all(answer[2] for answer in answers)


def test_command_during_the_first_scan_is_served(
    folder: Path, services: Callable[..., Any]
) -> None:
    for number in range(3000):
        place = folder / f"d{number % 100}"
        place.mkdir(exist_ok=True)
        (place / str(number)).write_text(str(number))
    service = services(folder)
    assert service.client
    with Workspace.open(folder) as workspace:
        status = workspace.status()
        assert workspace.is_remote
    assert status["state"] == "current"
    assert status["files"] == 3000
    service.converges()


def test_locked_by_a_command_that_does_not_let_go(sample: Path) -> None:
    with Workspace.open(sample) as workspace:
        workspace.init()
    with OwnerLock(Layout(sample).lock, "command") as lock:
        lock.acquire(1)
        with (
            Workspace.open(sample, wait=0.3) as waiting,
            pytest.raises(LockedError, match=str(os.getpid())),
        ):
            waiting.status()


def test_socket_is_private(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample).ready()
    address = Path(service.client.address)
    assert modes.S_IMODE(os.stat(address).st_mode) == 0o600
    assert modes.S_IMODE(os.stat(address.parent).st_mode) == 0o700
    assert modes.S_ISSOCK(os.stat(address).st_mode)
    assert service.stop() == 0
    assert not address.exists()
    assert not Layout(sample).socket.exists()


def test_runtime_folder_of_others_is_refused(
    sample: Path, services: Callable[..., Any], tmp_path: Path
) -> None:
    # A function that carries a folder.
    runtime = services.runtime / "merkle"  # type: ignore[attr-defined]
    runtime.mkdir(exist_ok=True, mode=0o700)
    runtime.chmod(0o755)
    try:
        service = services(sample)
        assert service.wait() == 3
        assert "private" in service.output()
    finally:
        runtime.chmod(0o700)


def test_long_workspace_path(folder: Path, services: Callable[..., Any]) -> None:
    root = folder.joinpath(*["n" * 60] * 5)
    root.mkdir(parents=True)
    (root / "file").write_text("x")
    service = services(root).ready()
    assert len(service.client.address) < 107
    service.converges()


def test_workspace_reached_by_a_link(sample: Path, services: Callable[..., Any]) -> None:
    link = sample.with_name(sample.name + "-link")
    link.symlink_to(sample)
    service = services(link).ready()
    service.converges()
    (sample / "direct").write_text("in the root itself")
    service.converges()
    with Workspace.open(sample) as workspace:
        assert workspace.status()["state"] == "current"
        assert workspace.is_remote


def test_leftovers_of_a_killed_service(sample: Path, services: Callable[..., Any]) -> None:
    first = services(sample).ready()
    first.converges()
    first.kill()
    assert Layout(sample).socket.exists()
    assert connect(sample) is None
    (sample / "while nobody looked").write_text("x")
    with Workspace.open(sample) as workspace:
        assert not workspace.is_remote
        assert workspace.status()["state"] == "stale"
    second = services(sample).ready()
    second.converges()
    assert second.stop() == 0


def test_address_that_names_nothing_sensible(sample: Path, tmp_path: Path) -> None:
    with Workspace.open(sample) as workspace:
        workspace.scan()
    for text in ("", "/nowhere/at/all", "x" * 500, str(sample), "\x00", "\xff\xfe"):
        Layout(sample).socket.write_text(text, encoding="latin-1")
        assert connect(sample) is None
        with Workspace.open(sample) as workspace:
            assert workspace.status()["state"] == "current"


def test_something_else_listens_there(sample: Path, services: Callable[..., Any]) -> None:
    with Workspace.open(sample) as workspace:
        workspace.scan()
    # A function that carries a folder.
    address = services.runtime / socket_name(sample)  # type: ignore[attr-defined]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(8)
        listener.settimeout(0.1)
        Layout(sample).socket.write_text(str(address))
        done = threading.Event()

        def babble() -> None:
            while not done.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection, contextlib.suppress(OSError):
                    connection.sendall(b"SSH-2.0-nonsense\r\n\r\n")

        talking = threading.Thread(target=babble)
        talking.start()
        try:
            with (
                Workspace.open(sample, wait=0.5) as workspace,
                pytest.raises(Exception, match="service"),
            ):
                workspace.status()
        finally:
            done.set()
            talking.join()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_socket_of_another_user_is_not_trusted(
    sample: Path, services: Callable[..., Any]
) -> None:
    """Not even by root: whoever wrote the address would be told what root asks and writes."""
    with Workspace.open(sample) as workspace:
        workspace.scan()
    # A function that carries a folder.
    address = services.runtime / socket_name(sample)  # type: ignore[attr-defined]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(8)
        Layout(sample).socket.write_text(str(address))
        assert connect(sample) is not None
        listener.accept()[0].close()
        os.chown(address, 12345, 12345)
        assert connect(sample) is None
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        with Workspace.open(sample) as workspace:
            assert workspace.status()["state"] == "current"


def test_client_finds_the_next_service(sample: Path, services: Callable[..., Any]) -> None:
    first = services(sample).ready()
    with Workspace.open(sample) as workspace:
        assert workspace.status()["service"]["pid"] == first.pid
        assert first.stop() == 0
        second = services(sample).ready()
        assert workspace.status()["service"]["pid"] == second.pid
        second.kill()
        third = services(sample).ready()
        assert workspace.status()["service"]["pid"] == third.pid
        assert third.stop() == 0
        assert workspace.status()["service"]["running"] is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_it_cleanly(
    sample: Path, services: Callable[..., Any], number: signal.Signals
) -> None:
    service = services(sample).ready()
    (sample / "late").write_text("x")
    root = service.converges()["root"]
    address = Path(service.client.address)
    service.signal(number)
    assert service.wait() == 0, service.output()
    assert service.output() == ""
    assert not address.exists()
    with Workspace.open(sample, wait=0.0) as workspace:
        assert workspace.status()["root"] == root


def test_stopped_during_the_first_scan(folder: Path, services: Callable[..., Any]) -> None:
    for number in range(4000):
        place = folder / f"d{number % 200}"
        place.mkdir(exist_ok=True)
        (place / str(number)).write_text(str(number))
    for pause in (0.0, 0.1):
        service = services(folder)
        assert service.client
        time.sleep(pause)
        assert service.stop() == 0, service.output()
    with Workspace.open(folder, wait=0.0) as workspace:
        assert workspace.scan()["files"] == 4000
        assert workspace.validate()["valid"]


def test_idle_exit(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample, idle_exit=0.5)
    assert service.wait() == 0
    assert not Layout(sample).socket.exists()


def test_idle_exit_waits_for_a_reader(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample, idle_exit=0.5)
    with socket.socket(socket.AF_UNIX) as reader:
        reader.connect(service.client.address)
        reader.sendall(b"GET /v1/events HTTP/1.1\r\nHost: merkle\r\n\r\n")
        time.sleep(1.6)
        assert service.is_running()
    assert service.wait() == 0
