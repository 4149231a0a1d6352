"""The extension for VS Code: built, linted and tested by npm, against this very server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY

EXTENSION = REPOSITORY / "editors" / "vscode"
MADE = ("node_modules", "out", "package-lock.json", "*.vsix")
INSTALLING = 300


def npm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = json.dumps([sys.executable, "-P", "-m", "indexer.cli"])
    return subprocess.run(
        ["npm", *arguments], cwd=folder, capture_output=True, text=True, timeout=INSTALLING,
        env={**os.environ, "MERKLE_COMMAND": command},
    )  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_it_is_built_linted_and_talks_to_the_server(tmp_path: Path) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are needed to build the extension")
    folder = tmp_path / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns(*MADE))
    installed = npm(folder, "install", "--no-audit", "--no-fund", "--ignore-scripts")
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install what it needs here: {installed.stderr[-300:]}")
    for script in ("lint", "build", "test"):
        done = npm(folder, "run", script)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 3" in done.stdout, done.stdout


def test_what_it_needs_is_named_exactly() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    needed = {**package["dependencies"], **package["devDependencies"]}
    assert all(version[0].isdigit() for version in needed.values()), needed
    # A command that a workspace could name would run whatever a clone brings.
    settings = package["contributes"]["configuration"]["properties"]
    assert settings["merkle.command"]["scope"] == "machine"
    assert package["capabilities"]["untrustedWorkspaces"]["supported"] is False
