"""Helper processes: what they import, what they print, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from indexer.engine.make.processes import HelperProcesses, ProcessEndedError

MODULE = """
import os, sys
from indexer.engine.make.processes import answer_questions

def answer(question):
    if question == "die":
        os._exit(3)
    if question == "pid":
        return os.getpid()
    print("noise from custom code")
    return question * 2

def serve():
    answer_questions(answer)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "doubling.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "doubling"


def test_answers_come_in_order_and_prints_do_not_disturb_them(module: str) -> None:
    helpers = HelperProcesses(2, module, 1)
    try:
        assert helpers.map(list(range(50))) == [2 * number for number in range(50)]
    finally:
        helpers.close()


def test_a_process_that_ends_is_an_error_and_close_ends_the_others(module: str) -> None:
    helpers = HelperProcesses(2, module, 1)
    (pid,) = helpers.map(["pid"])
    with pytest.raises(ProcessEndedError):
        helpers.map([1, "die", 2])
    helpers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_module_that_cannot_be_imported_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ProcessEndedError):
        HelperProcesses(2, "there.is.no.such.module", 1)
    assert "there" in capfd.readouterr().err


UNGUARDED = """
import sys
from indexer import Workspace
print("run")
with Workspace.open(sys.argv[1]) as workspace:
    workspace.scan()
    print(workspace.regenerate("", recursive=True)["regenerated"])
"""


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(420):
        (root / f"m{number}.py").write_text(f"def f{number}():\n    pass\n")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(UNGUARDED))
    repository = os.fspath(Path(__file__).parents[3])
    ran = subprocess.run(
        [sys.executable, script, root], env={**os.environ, "PYTHONPATH": repository},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.split() == ["run", "421"]
    assert ran.stderr == ""


OWNER = """
import sys, time
from indexer.engine.make.processes import HelperProcesses
helpers = HelperProcesses(2, "doubling", 1)
print(*{pid for _ in range(20) for pid in helpers.map(["pid", "pid"])}, flush=True)
time.sleep(600)
"""


def test_the_processes_end_with_an_owner_that_is_killed(module: str, tmp_path: Path) -> None:
    repository = os.fspath(Path(__file__).parents[3])
    path = os.pathsep.join([repository, os.fspath(tmp_path)])
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert pids
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") and not _is_zombie(pid) for pid in pids):
        assert time.monotonic() < deadline, "a helper outlived its owner"
        time.sleep(0.02)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True
