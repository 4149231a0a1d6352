"""Answers and refusals as the client of the TypeScript SDK gets them, as most clients do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer import Workspace
from indexer.mcp.declarations import BY_NAME
from tests.support.wire import http_server

SDK = "@modelcontextprotocol/sdk@1.32.2"
SCRIPT = Path(__file__).parent / "typescript" / "every_tool.mjs"
INSTALLING = 300

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("status", {"wait": 3}), ("get_node", {"node": "gone"}), ("compose", {"order": "luck"}),
    ("search", {"query": " "}), ("synthesize", {"node": "README.md", "type": "outline"}),
    ("put_frame", {"node": "src", "seen": "abcdef", "type": "note", "content": "x"}),
    ("regenerate", {"node": "gone"}), ("explain", {"node": "gone"}), ("diff", {"old": "@-99"}),
    ("session", {"action": "show", "name": "gone"}), ("nothing", {}),
]  # fmt: skip


def answered(root: Path) -> list[tuple[str, dict[str, Any]]]:
    """A call of each tool that goes well."""
    with Workspace.open(root) as workspace:
        seen = workspace.get_node("README.md")["node_id"]
    note = {"node": "README.md", "seen": seen[:12], "type": "note", "content": "Tides."}
    return [
        ("status", {}), ("get_node", {"node": "README.md"}), ("compose", {"query": "tide"}),
        ("search", {"query": "tide"}), ("put_frame", note),
        ("synthesize", {"node": "src", "type": "outline"}), ("regenerate", {}),
        ("explain", {"node": "src"}), ("diff", {"old": "@-0"}), ("session", {"action": "list"}),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the SDK and the script that uses it."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are needed to run the TypeScript SDK's client")
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    shutil.copy(SCRIPT, folder)
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", SDK],
        cwd=folder, capture_output=True, text=True, timeout=INSTALLING,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"the TypeScript SDK cannot be installed here: {done.stderr[-300:]}")
    return folder


def run(package: Path, calls: list[tuple[str, dict[str, Any]]], *arguments: str) -> Any:
    done = subprocess.run(
        ["node", SCRIPT.name, *arguments], cwd=package, input=json.dumps(calls),
        capture_output=True, text=True, timeout=INSTALLING, env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.soak
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_every_tool_answers_and_refuses(package: Path, project: Path, transport: str) -> None:
    calls = [*answered(project), *REFUSED]
    if transport == "stdio":
        serve = ["-P", "-m", "indexer.cli", "-C", str(project), "mcp", "--agent", "carol"]
        found = run(package, calls, "stdio", sys.executable, *serve)
    else:
        with http_server(project, "--agent", "carol") as server:
            token = server.headers()["Authorization"]
            found = run(package, calls, "http", server.address, token)
    assert found["tools"] == list(BY_NAME)
    results = found["results"]
    assert [result["name"] for result in results if "rejected" in result] == []
    for result in results:
        assert "structuredContent" not in result["keys"], result
    good, bad = results[: len(BY_NAME)], results[len(BY_NAME) :]
    for result in good:
        assert not result["isError"], result
        assert json.loads(result["content"][0]["text"])["freshness"]
    for result in bad:
        assert result["isError"], result
        assert "\nWhat to do: " in result["content"][0]["text"], result
