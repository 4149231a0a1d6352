"""The extension for VS Code: built, linted and tested by npm, against this very server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.processes import REPOSITORY

EXTENSION = REPOSITORY / "editors" / "vscode"
MADE = ("node_modules", "out", "package-lock.json", "*.vsix")
INSTALLING = 300
PAGE = (REPOSITORY / "docs" / "editors.md").read_text(encoding="utf-8")


def npm(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = json.dumps([sys.executable, "-P", "-m", "indexer.cli"])
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=INSTALLING,
        env={**os.environ, "MERKLE_COMMAND": command},
    )  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_it_is_built_linted_and_talks_to_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are needed to build the extension")
    folder = tmp_path / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns(*MADE))
    entering, *lines = pages.lines_with(PAGE, pages.OF_THE_EXTENSION)
    assert entering == "cd editors/vscode"
    # Nothing of what is installed runs while it is.
    monkeypatch.setenv("npm_config_ignore_scripts", "true")
    installed = npm(folder, lines[0])
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install what it needs here: {installed.stderr[-300:]}")
    for line in (*lines[1:], "npm run lint", "npm run test"):
        done = npm(folder, line)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 3" in done.stdout, done.stdout
    # What the page says to give to VS Code.
    assert (folder / "merkle.vsix").exists()


def test_what_it_needs_is_named_exactly() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    needed = {**package["dependencies"], **package["devDependencies"]}
    assert all(version[0].isdigit() for version in needed.values()), needed
    # A command that a workspace could name would run whatever a clone brings.
    settings = package["contributes"]["configuration"]["properties"]
    assert settings["merkle.command"]["scope"] == "machine"
    assert package["capabilities"]["untrustedWorkspaces"]["supported"] is False
