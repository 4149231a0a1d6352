"""The distribution, built as a wheel and installed in empty environments, as the README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import pages

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


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
LINES = [
    line
    for page in PAGES
    for line in pages.lines_with(page.read_text(encoding="utf-8"), pages.INSTALLERS)
]
EVERYTHING = ",".join(PROJECT["optional-dependencies"].keys() - {"dev"})


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_lines_of_the_pages_install_it_in_an_empty_environment(tmp_path: Path) -> None:
    """As written: the installers find a built wheel, and what it needs, under its own name."""
    tools, own, wheels = tmp_path / "tools", tmp_path / "own", tmp_path / "wheels"
    environment = {
        **os.environ,
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": os.pathsep.join([f"{own}/bin", f"{tools}/bin", os.environ["PATH"]]),
    }
    environment.pop("PYTHONPATH", None)

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, input="y\n", capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    for folder in (tools, own):
        run(sys.executable, "-m", "venv", folder)
    run(tools / "bin" / "pip", "install", "-q", "pipx", "uv")
    limits = ["-c", str(REPOSITORY / "constraints.txt")]
    run(
        tools / "bin" / "pip", "wheel", "-q", *limits, "-w", wheels,
        f"{REPOSITORY}[{EVERYTHING}]", "pip",
    )  # fmt: skip
    # Nothing else is there: whatever the index has under that name is not what is meant.
    environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    environment |= {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(wheels)}

    work = tmp_path / "work"
    work.mkdir()
    (work / "app.py").write_text('"""Adds."""\n\n\ndef add(a, b):\n    return a + b\n')
    version = f"merkle {PROJECT['version']}\n"
    arriving = [line for line in LINES if " uninstall " not in line]
    assert {line.split()[0] for line in arriving} == {"pip", "pipx", "uvx"}
    for line in arriving:
        printed = run("bash", "-c", line)
        if line.startswith("uvx"):
            assert printed == version
    for program in (own / "bin" / "merkle", tmp_path / "bin" / "merkle"):
        assert run(program, "--version") == version
        run(program, "-C", work, "watch", "--once")
        assert "def add(a, b)" in run(program, "-C", work, "get-node", "app.py")
    for extra in ("import mcp", "import pygls", "import psycopg", "import openai"):
        run(own / "bin" / "python", "-c", extra)
    leaving = [line for line in LINES if " uninstall " in line]
    assert {line.split()[0] for line in leaving} == {"pip", "pipx"}
    for line in leaving:
        run("bash", "-c", line)
    assert not (own / "bin" / "merkle").exists()
    assert not (tmp_path / "bin" / "merkle").exists()
