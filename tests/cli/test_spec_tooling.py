"""Component 6, tooling and integration: what it asks of CI, of editors and of every tool."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.copies import copy_workspace

pytestmark = pytest.mark.usefixtures("kept_open")

TOOLS = (
    ["scan"], ["validate"], ["validate", "--locked"], ["lock"], ["report", "-"], ["prove", "src"],
    ["get-node", "src"], ["diff", "@-0", "@-0"],
)  # fmt: skip


@pytest.fixture
def two(workspace: Path, tmp_path: Path, made: Path, merkle: Any, kept_open: Any) -> list[Path]:
    """The same content in two places, indexed and locked in both."""
    places = {"first": workspace, "second": tmp_path / "other"}
    if not (made / "first").exists():
        for name in places:
            shutil.copytree(workspace, made / name)
            assert merkle("-C", made / name, "init", "--hash", "sha256").code == 0
            assert merkle("-C", made / name, "watch", "--once").code == 0
            assert merkle("-C", made / name, "lock").code == 0
        kept_open.close()
    return [copy_workspace(made / name, root) for name, root in places.items()]


def without_times(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if '"seconds"' not in line)


# -- criteria


def test_tools_reproducible_from_cli(two: list[Path], merkle: Any) -> None:
    """Same command, same result, wherever the workspace lies."""
    for tool in TOOLS:
        arguments = tool if tool[0] == "report" else [*tool, "--json"]
        shown = [merkle("-C", root, *arguments) for root in two]
        assert shown[0].code == shown[1].code == 0
        if tool[0] != "get-node":  # which tells when each frame was made
            assert without_times(shown[0].out) == without_times(shown[1].out), tool


def test_re_running_tools_yields_same_state(two: list[Path], merkle: Any) -> None:
    root = two[0]

    def state() -> tuple[Any, ...]:
        queries = ("SELECT * FROM nodes", "SELECT * FROM frames", "SELECT * FROM heads",
                   "SELECT * FROM roots")  # fmt: skip
        lock = root / "merkle.lock"
        rows = [merkle("-C", root, "sql", query, "--json").out for query in queries]
        return (*rows, lock.read_bytes(), lock.stat().st_mtime_ns)

    before = state()
    for tool in (*TOOLS, ["watch", "--once"], ["regenerate"]):
        assert merkle("-C", root, *tool).code == 0
    assert state() == before


def test_tool_failures_do_not_corrupt_storage(
    two: list[Path], merkle: Any, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    root = two[0]
    lock = (root / "merkle.lock").read_bytes()
    refused = (
        ["prove", "nowhere"], ["report", "/nowhere/r.md"], ["report", "x.txt"],
        ["report", "r.md", "--base", "@-99"], ["get-node", "-", "--view", "odd"],
        ["verify", "/nowhere", "--root", "0" * 64],
        ["synthesize", "README.md", "--type", "outline"],
        ["watch", "--print-unit", "cron"], ["validate", "--expect-root", "zz"],
    )  # fmt: skip
    for line in refused:
        assert merkle("-C", root, *line).code in (2, 3), line
    assert (root / "merkle.lock").read_bytes() == lock
    assert "r.md" not in contents(root)
    ran = merkle("-C", root, "validate", "--content", "--locked", "--json")
    assert (ran.code, ran.json["errors"]) == (0, [])


def test_workspace_operations_are_isolated(
    two: list[Path], merkle: Any, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    """What is done in one workspace leaves not a byte in the other."""
    here, there = two
    before = contents(there)
    (here / "README.md").write_text("# Only here\n")
    for tool in (["scan"], ["lock"], ["report", str(here / "report.md")], ["watch", "--once"]):
        assert merkle("-C", here, *tool).code == 0
    assert contents(there) == before
    assert merkle("-C", there, "validate", "--locked").code == 0


REFUSALS = [
    (["prove", "nowhere"], 2, "merkle scan"),
    (["report", "r.md", "--base", "@-9"], 2, "merkle log"),
    (["verify", "README.md", "--root", "0" * 64], 3, "merkle prove"),
    (["validate", "--expect-root", "zz"], 2, "digits"),
    (["-C", "nowhere", "lock"], 2, "existing folder"),
]


def test_error_messages_are_clear_and_actionable(
    two: list[Path], merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(two[0])
    for line, code, hint in REFUSALS:
        ran = merkle(*line, "--json")
        assert ran.code == code
        assert ran.json["error"]["message"]
        assert hint in ran.json["error"]["hint"]
