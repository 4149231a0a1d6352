"""The README's commands, as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FIRST_RUN, TESTS = re.findall(r"```sh\n(python3 -m venv .*)\n```", README)


def test_ci_calls_exactly_the_test_command() -> None:
    assert TESTS in (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


@pytest.fixture
def fresh_copy(tmp_path: Path) -> Path:
    listed = subprocess.run(
        ["git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        source = REPOSITORY / name
        if source.is_file():
            target = tmp_path / "merkle" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return tmp_path / "merkle"


def _run(command: str, folder: Path, **environment: str) -> str:
    finished = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_first_run_and_tests_work_in_a_fresh_copy(fresh_copy: Path) -> None:
    shown = _run(FIRST_RUN, fresh_copy)
    assert "saltgauge" in shown
    assert "fresh" in shown
    # The whole suite is running already: here it is enough that the command runs some of it.
    chosen = "tests/core/test_hashing.py tests/core/test_paths.py"
    assert "passed" in _run(TESTS, fresh_copy, PYTEST_ADDOPTS=chosen)
