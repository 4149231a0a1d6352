"""What costs nothing: folders that rest, and folders that are ignored."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def make_folders(root: Path, count: int) -> None:
    for number in range(count):
        (root / f"a{number % 100}" / f"b{number // 100}").mkdir(parents=True, exist_ok=True)


def check_ignored_cost_nothing(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any], count: int
) -> None:
    make_folders(sample / "node_modules", count)
    service = services(sample).ready()
    status = service.converges()
    folders = 1 + 5 + 5
    assert status["service"]["watches"] == folders
    service.goes_idle()
    batches = service.health()["batches"]

    def sleeps_through() -> bool:
        before = service.switches()
        for number in range(count):
            (sample / "node_modules" / f"a{number % 100}" / "file.js").write_text(str(number))
        make_folders(sample / "node_modules" / "more", 100)
        after = service.switches()
        return all(after.get(name) == times for name, times in before.items())

    # A timer may go off once in a while; an event for every write would wake it every time.
    until(sleeps_through, "no thread wakes up")
    status = service.converges()
    assert status["service"]["watches"] == folders
    assert service.health()["batches"] == batches


def test_ignored_folders_cost_nothing(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    check_ignored_cost_nothing(sample, services, until, 500)


@pytest.mark.soak
def test_five_thousand_ignored_folders_cost_nothing(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    check_ignored_cost_nothing(sample, services, until, 5000)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_ten_thousand_folders_at_rest(folder: Path, services: Callable[..., Any]) -> None:
    make_folders(folder, 10_000)
    service = services(folder).ready()
    assert service.converges()["service"]["watches"] == 10_101
    service.goes_idle(seconds=3.0, most=2)
    (folder / "a7" / "b7" / "file").write_text("and yet it is noticed")
    service.converges()
    service.goes_idle(seconds=3.0, most=2)


def test_real_overflow(sample: Path, services: Callable[..., Any]) -> None:
    """A stopped process cannot read; the queue runs over; the index is right all the same."""
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 200_000:
        pytest.skip("the queue is too long to fill in a test")
    service = services(sample).ready()
    service.converges()
    service.goes_idle()
    service.signal(signal.SIGSTOP)
    try:
        for _ in range(most // 4 + 1000):
            for name in ("one", "two"):
                os.close(os.open(sample / name, os.O_WRONLY | os.O_CREAT))
        (sample / "unheard" / "of").mkdir(parents=True)
        (sample / "unheard" / "of" / "file").write_text("its event was dropped")
        (sample / "pkg0" / "inner").rename(sample / "pkg0" / "outer")
        (sample / "pkg0" / "outer" / "file").write_text("this one too")
    finally:
        service.signal(signal.SIGCONT)
    service.converges()
    (sample / "unheard" / "of" / "file").write_text("and watched from now on")
    (sample / "pkg0" / "outer" / "file").write_text("this one too")
    service.converges()
    service.goes_idle()


# Root reads whatever it likes; without these two capabilities it is a user like any other.
_LIKE_ANY_USER = """
import ctypes
libc = ctypes.CDLL(None)
head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(head, sets)
sets[0] &= ~0b110; sets[1] &= ~0b110
libc.capset(head, sets)
"""


def test_unreadable_folder(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample, inject=_LIKE_ANY_USER).ready()
    before = service.status()
    assert before["state"] == "current", service.output()
    secret = sample / "pkg0"
    secret.chmod(0)
    try:
        status = service.status()
        # Known nodes stay known; that they cannot be read is no reason to poll.
        assert status["nodes"] == before["nodes"]
        assert status["root"] == before["root"]
        assert service.health()["state"] == "watching"
        service.goes_idle()
        scanned = service.client.post("/v1/scan", {})
        assert [remark["path"] for remark in scanned["unreadable"]] == ["pkg0"]
        assert scanned["root"] == before["root"]
        assert not service.client.post("/v1/validate", {})["valid"]
    finally:
        secret.chmod(0o755)
    (secret / "inner" / "behind").write_text("noticed again")
    assert service.converges()["root"] != before["root"]
    assert service.client.get("/v1/resolve", {"node": "pkg0/inner/behind"})["kind"] == "file"
    assert service.stop() == 0
