"""How commands fail: one form, the right status, nothing else touched."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.cli import failures
from indexer.errors import LockedError
from indexer.service.workspace import Workspace

_LONG = "SELECT repeat('x', 10000)"


def test_text_goes_to_stderr_and_json_to_stdout(tmp_path: Path, process: Any) -> None:
    ran = process("-C", tmp_path, "log")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: ")
    assert "\nhint: run `merkle init` or `merkle scan` there" in ran.err
    ran = process("-C", tmp_path, "log", "--json")
    assert (ran.code, ran.err) == (5, "")
    assert ran.json["error"].keys() == {"code", "message", "hint"}
    assert ran.json["error"]["code"] == "no_workspace"


def test_choices_are_told_on_one_line(scanned: Path, merkle: Any) -> None:
    merkle("-C", scanned, "session", "new", "talk")
    ran = merkle("-C", scanned, "session", "append", "talk", "--type", "talk", "--text", "hi")
    told = "error: invalid value for '--type': 'talk' is not one of 'instruction', 'dialogue',"
    assert ran.err.startswith(told)


def test_what_the_system_refuses_comes_with_advice(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "format.json")

    # Tests may run as root, who is refused nothing.
    monkeypatch.setattr(Workspace, "log", refuse)
    ran = merkle("-C", scanned, "log")
    assert ran.code == 3
    assert ran.err.startswith("error: format.json: Permission denied\nhint: let this user read")


def test_a_traceback_shows_what_to_do(tmp_path: Path) -> None:
    code = f"from indexer import Workspace\nWorkspace.open({str(tmp_path)!r}).log()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.rstrip().endswith("hint: run `merkle init` or `merkle scan` there")


@pytest.mark.parametrize(
    "line",
    [
        ["bogus"],
        ["scan", "--bogus"],
        ["scan", "extra"],
        ["diff", "@-1", "@-0", "@-0"],
        ["init", "--hash", "md5"],
        ["log", "-n", "0"],
        ["log", "-n", "many"],
        ["validate", "--subset", "3/2"],
        ["validate", "--subset", "0/2"],
        ["validate", "--subset", "half"],
        ["validate", "--format", "yaml"],
        ["watch", "--idle-exit", "soon"],
        ["watch", "--idle-exit", "0s"],
        ["status", "--depth", "2"],
        ["status", "--tree", "--depth", "0"],
        ["sql", "SELECT 1", "--limit", "-1"],
        ["completion", "cmd"],
        ["-C", "", "scan"],
    ],
)
def test_wrong_use_is_2_in_both_forms(line: list[str], tmp_path: Path, merkle: Any) -> None:
    ran = merkle("-C", tmp_path, *line)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    ran = merkle("-C", tmp_path, *line, "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == "usage"
    assert ran.json["error"]["message"]
    assert not (tmp_path / ".merkle").exists()


def test_a_mistyped_command_gets_a_suggestion(merkle: Any) -> None:
    assert "Did you mean status?" in merkle("stauts").err


def test_a_folder_that_is_not_there(tmp_path: Path, merkle: Any) -> None:
    ran = merkle("-C", tmp_path / "gone", "status")
    assert ran.code == 2
    assert "is not a folder" in ran.err


def test_surprises_are_short_unless_debugging(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("never\x1b[31m expected")

    monkeypatch.setattr(Workspace, "log", break_down)
    ran = merkle("-C", scanned, "log")
    assert ran.code == 3
    assert "ZeroDivisionError: never\\x1b[31m expected" in ran.err
    assert "MERKLE_DEBUG=1" in ran.err
    assert "Traceback" not in ran.err
    assert merkle("-C", scanned, "log", "--json").json["error"]["code"] == "internal"
    monkeypatch.setenv("MERKLE_DEBUG", "1")
    assert "Traceback" in merkle("-C", scanned, "log").err


def test_system_errors_name_the_file(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device", "/x/index.duckdb")

    monkeypatch.setattr(Workspace, "scan", break_down)
    ran = merkle("-C", scanned, "scan")
    assert ran.code == 3
    assert ran.err.startswith("error: /x/index.duckdb: No space left on device\nhint: see to it")


def test_exit_status_comes_with_the_error(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise LockedError("in use")

    monkeypatch.setattr(Workspace, "status", refuse)
    assert merkle("-C", scanned, "status").code == 6


def test_an_interrupt_is_130_without_noise(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Workspace, "scan", interrupt)
    ran = merkle("-C", scanned, "scan")
    assert ran.code == failures.INTERRUPTED == 130
    assert ran.err.strip() == ""


@pytest.mark.parametrize("module", ["indexer.cli.thin", "indexer.service.ahead", "click"])
def test_an_interrupt_while_modules_are_loaded_is_130_without_noise(
    module: str, scanned: Path
) -> None:
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
sys.argv = ["merkle", "watch"]
from indexer.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=scanned, timeout=60, capture_output=True
    )
    assert (done.returncode, done.stderr) == (failures.INTERRUPTED, b"")


def test_a_reader_that_goes_away_causes_no_noise(scanned: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-m", "indexer.cli", "-C", str(scanned), "status", "--tree"],
        stdout=writer,
        stderr=subprocess.PIPE,
    ) as running:
        os.close(writer)
        _, noise = running.communicate(timeout=60)
    assert running.returncode == failures.PIPE_CLOSED
    assert noise == b""


def test_what_a_pipe_does_not_take_is_not_dropped_without_buffers_either(scanned: Path) -> None:
    reader, writer = os.pipe()
    # Smaller than what is written, so that the first write can only end half-way.
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "indexer.cli", "-C", str(scanned), "sql", _LONG],
        stdout=writer,
    ) as running:
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
    assert running.returncode == failures.PIPE_CLOSED


def test_closed_output_is_no_crash(scanned: Path) -> None:
    line = f'"{sys.executable}" -m indexer.cli -C "{scanned}" status >&- 2>&-'
    assert subprocess.run(["sh", "-c", line], timeout=60).returncode == 0


def test_a_full_disk_behind_stdout_is_told(scanned: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    line = f'"{sys.executable}" -m indexer.cli -C "{scanned}" log > /dev/full'
    done = subprocess.run(["sh", "-c", line], timeout=60, capture_output=True, text=True)
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("line", "streams", "told"),
    [
        ("--json log", "> /dev/full", "No space left"),
        ("--json nonsense", "> /dev/full", "No space left"),
        ("nonsense", "2> /dev/full", ""),
        ("--json log", "> /dev/full 2> /dev/full", ""),
    ],
)
def test_what_cannot_be_told_is_no_crash(line: str, streams: str, told: str, scanned: Path) -> None:
    shell = f'cd "{scanned}" && "{sys.executable}" -m indexer.cli {line} {streams}'
    done = subprocess.run(["sh", "-c", shell], timeout=60, capture_output=True, text=True)
    assert done.returncode == 3
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_of_errors_that_goes_away_is_no_crash_without_output(scanned: Path) -> None:
    line = f'exec "{sys.executable}" -m indexer.cli -C "{scanned}" nonsense >&-'
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(["sh", "-c", line], stderr=writer) as running:
        os.close(writer)
    assert running.returncode == failures.PIPE_CLOSED
