"""Commands beside a running `merkle watch`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import connect
from tests.support.waiting import wait_until


def test_commands_go_through_the_service(
    service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    (scanned / "new.txt").write_text("x")
    status = process("-C", scanned, "status", "--json")
    assert status.code == 0
    assert status.json["state"] == "current"
    assert status.json["service"]["pid"] == service.pid
    assert f"running, pid {service.pid}" in process("-C", scanned, "status").out
    for line in (
        ["scan"], ["validate", "--content"], ["log"], ["diff", "@-1", "@-0"], ["sql", "SELECT 1"],
        ["status", "--tree"], ["status", "--why-ignored", "noise.log"], ["watch", "--once"],
    ):  # fmt: skip
        assert process("-C", scanned, *line).code == 0, line
    assert process("-C", scanned, "diff", "@-1", "@-0", "--json").json["added"] == ["new.txt"]
    unwaited = process("-C", scanned, "status", "--no-wait", "--json")
    assert (unwaited.code, unwaited.json["state"]) == (3, "unknown")


def test_errors_of_the_service_keep_code_and_status(
    service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    ran = process("-C", scanned, "diff", "ffffffff", "@-0", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "unknown_root")
    ran = process("-C", scanned, "sql", "DROP TABLE x", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "bad_query")


def test_doctor_asks_the_service(
    service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    ran = process("-C", scanned, "doctor")
    assert ran.code == 0, ran.out
    assert f"pid {service.pid}, answering" in ran.out
    assert process("-C", scanned, "doctor", "--quarantine").code == 6


def test_repair_waits_until_the_service_is_stopped(
    service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    ran = process("-C", scanned, "repair", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (6, "locked")
    assert str(service.pid) in ran.json["error"]["message"]
    assert f"kill {service.pid}" in ran.json["error"]["hint"]
    service.terminate()
    service.communicate(timeout=30)
    assert process("-C", scanned, "repair", "--json").json["repaired"] is False


def test_a_second_service_names_the_first(
    service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    ran = process("-C", scanned, "watch")
    assert ran.code == 6
    assert f"process {service.pid} (watch)" in ran.err
    assert "hint: other commands use it by themselves" in ran.err


def test_it_runs_without_a_stdout(scanned: Path, process: Any) -> None:
    line = f'exec "{sys.executable}" -m indexer.cli -C "{scanned}" watch --quiet >&-'
    with subprocess.Popen(["sh", "-c", line]) as running:
        wait_until(lambda: connect(scanned) is not None, "the service answers")
        assert process("-C", scanned, "status", "--json").json["service"]["pid"] == running.pid
        running.terminate()
    assert running.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly(
    number: signal.Signals, service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    service.send_signal(number)
    out, err = service.communicate(timeout=30)
    assert service.returncode == 0, err
    assert out == ""
    assert "Traceback" not in err
    assert "scanning\n" in err
    assert process("-C", scanned, "status").code == 0


def test_its_line_says_what_keeps_frames_from_being_made(
    service: subprocess.Popen[str], scanned: Path, process: Any
) -> None:
    (scanned / "merkle.toml").write_text("[types.x]\nfile = 'outlin'\n")
    assert service.stderr is not None
    lines = iter(service.stderr.readline, "")
    told = next(line for line in lines if "outlin" in line)
    assert told.startswith("watching, 3 folders, 1 batch of changes (merkle.toml: types.x.file: ")


def test_a_service_that_ends_by_itself_meanwhile_is_stopped(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    class Answered:
        def get(self, path: str) -> dict[str, int]:
            return {"pid": ended.pid}

    monkeypatch.setattr("indexer.cli.stop.connect", lambda root: Answered())
    ran = merkle("-C", scanned, "--json", "stop")
    assert (ran.code, ran.json["stopped"]) == (0, True)


def test_it_stops_when_idle(scanned: Path, process: Any) -> None:
    ran = process("-C", scanned, "watch", "--idle-exit", "200ms", "--json")
    assert ran.code == 0
    assert ran.json == {"workspace": str(scanned), "stopped": True}
    assert process("-C", scanned, "--quiet", "watch", "--idle-exit", "200ms").err == ""
