"""The distribution, built as a wheel and installed in empty environments, as the README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = PROJECT["name"]


def test_every_install_line_names_this_distribution_and_extras_that_it_has() -> None:
    spoken = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]
    spoken += REPOSITORY.glob("indexer/**/*.py")
    asked = [
        (path.name, *found)
        for path in spoken
        for found in re.findall(
            r"(?:pip install|pipx install|uvx --from) '?([\w-]+)(?:\[([\w,]+)\])?",
            path.read_text(encoding="utf-8"),
        )
        if not found[0].startswith("-")
    ]
    assert {name for _, name, _ in asked} == {NAME}
    extras = {extra for *_, listed in asked for extra in listed.split(",") if extra}
    assert extras <= PROJECT["optional-dependencies"].keys()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the three installers and nothing else, and the wheel in `wheel/`."""
    folder = tmp_path_factory.mktemp("install")
    _run(folder, sys.executable, "-m", "venv", folder / "tools")
    pip = folder / "tools" / "bin" / "pip"
    _run(folder, pip, "install", "-q", "pipx", "uv")
    _run(folder, pip, "wheel", "-q", "--no-deps", "-w", folder / "wheel", REPOSITORY)
    return folder


def _run(folder: Path, *command: str | Path) -> str:
    environment = {
        **os.environ,
        "PIPX_HOME": str(folder / "pipx"),
        "PIPX_BIN_DIR": str(folder / "bin"),
        "UV_CACHE_DIR": str(folder / "cache"),
        "PATH": f"{folder / 'tools' / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("install")
@pytest.mark.parametrize("tool", ["pip", "pipx", "uvx"])
def test_a_built_wheel_works_in_an_empty_environment(tools: Path, tool: str) -> None:
    (wheel,) = (tools / "wheel").iterdir()
    assert wheel.name.startswith(NAME.replace("-", "_"))
    if tool == "pip":
        _run(tools, sys.executable, "-m", "venv", tools / "own")
        pip = tools / "own" / "bin" / "pip"
        _run(tools, pip, "install", "-q", "-c", REPOSITORY / "constraints.txt", f"{wheel}[mcp]")
        program: list[str | Path] = [tools / "own" / "bin" / "merkle"]
    elif tool == "pipx":
        _run(tools, "pipx", "install", wheel)
        program = [tools / "bin" / "merkle"]
    else:
        program = ["uvx", "--from", wheel, "merkle"]
    assert _run(tools, *program, "--version") == f"merkle {PROJECT['version']}\n"
    work = tools / f"work-{tool}"
    work.mkdir()
    (work / "app.py").write_text('"""Adds."""\n\n\ndef add(a, b):\n    return a + b\n')
    assert "current" in _run(tools, *program, "-C", work, "watch", "--once") + _run(
        tools, *program, "-C", work, "status"
    )
    assert "def add(a, b)" in _run(tools, *program, "-C", work, "get-node", "app.py")
