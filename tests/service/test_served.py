"""`ServedWorkspace`: never the owner; it starts a service, and finds its successor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer import Workspace
from indexer.errors import LockedError, MerkleError, NoWorkspaceError, UncheckedError
from indexer.service import served
from indexer.service.client import connect
from indexer.service.served import ServedWorkspace, start_service, wake_service
from indexer.store.layout import Layout, initialise
from indexer.store.lock import holder

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def started(
    sample: Path, monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any]
) -> Iterator[Path]:
    """A scanned workspace; whatever service a test starts in it is ended."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("MERKLE_WATCH_IDLE_EXIT", "60s")
    with Workspace.open(sample) as workspace:
        workspace.scan()
    yield sample
    end(sample, signal.SIGKILL, until)


def end(root: Path, number: int, until: Callable[..., Any]) -> None:
    owner = holder(Layout(root).lock)
    if connect(root) is not None and owner is not None and owner[0] != os.getpid():
        os.kill(owner[0], number)
        until(lambda: connect(root) is None, "the service is gone")


def test_it_starts_a_service_and_finds_the_next(started: Path, until: Callable[..., Any]) -> None:
    with ServedWorkspace.open(started) as workspace:
        assert not workspace.is_remote
        first = workspace.status()
        assert first["service"]["running"]
        assert first["service"]["pid"] != os.getpid()
        assert (Layout(started).service_log).read_bytes() == b""
        end(started, signal.SIGKILL, until)
        second = workspace.status()
        assert second["service"]["pid"] != first["service"]["pid"]
        assert second["root"] == first["root"]


def test_many_at_once_start_one(started: Path) -> None:
    found: list[int] = []

    def ask() -> None:
        with ServedWorkspace.open(started) as workspace:
            found.append(workspace.status()["service"]["pid"])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1


def test_it_waits_for_an_owner_and_then_names_it(started: Path) -> None:
    with Workspace.open(started) as owner:
        owner.status()
        with pytest.raises(LockedError, match=str(os.getpid())):
            start_service(started, time.monotonic() + 1.5)
    # The service that was started meanwhile waited too, and now has its turn.
    with ServedWorkspace.open(started) as workspace:
        assert workspace.status()["service"]["running"]


def test_what_a_service_says_at_its_end_is_told(started: Path) -> None:
    (started / "merkle.toml").write_text("[watch]\nrescan = 'often'\n")
    with (
        ServedWorkspace.open(started) as workspace,
        pytest.raises(MerkleError, match="rescan") as told,
    ):
        workspace.status()
    assert told.value.code == "bad_config"


def test_only_in_a_workspace(tmp_path: Path) -> None:
    with (
        ServedWorkspace.open(tmp_path) as workspace,
        pytest.raises(NoWorkspaceError, match="not a merkle workspace") as told,
    ):
        workspace.status()
    assert "merkle init" in told.value.hint
    assert list(tmp_path.iterdir()) == []
    wake_service(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is unwritable for root")
def test_a_folder_that_cannot_be_written_is_told(started: Path) -> None:
    Layout(started).folder.chmod(0o500)
    try:
        with pytest.raises(UncheckedError, match="cannot start the service"):
            start_service(started, time.monotonic() + 5)
    finally:
        Layout(started).folder.chmod(0o755)


def test_waking_is_done_in_the_background(started: Path, until: Callable[..., Any]) -> None:
    wake_service(started)
    until(lambda: connect(started), "it answers")


def test_a_service_that_was_started_in_vain_does_not_wait_to_take_over(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's came first: `merkle stop` would end that, and let in this one."""
    initialise(sample)
    Layout(sample).lock.write_text(json.dumps({"pid": os.getpid(), "role": "watch"}))
    monkeypatch.setattr(served, "connect", lambda root: "somebody else's")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            assert served._wait_for(sample, process, 0) == "somebody else's"
            assert process.wait(20) == -signal.SIGTERM
        finally:
            process.kill()
