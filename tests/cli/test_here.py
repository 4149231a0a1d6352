"""Paths typed in a folder of the workspace mean what they mean to every other command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def below(peopled: Path) -> Path:
    """A folder of the workspace that has a file of a name that is also at the root."""
    (peopled / "src" / "README.md").write_text("# Source\n")
    return peopled / "src"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("main.py", "src/main.py"),
        ("deep/table.csv", "src/deep/table.csv"),
        ("README.md", "README.md"),
        ("./README.md", "src/README.md"),
        ("../README.md", "README.md"),
        (".", "src"),
        ("..", ""),
        ("src/main.py", "src/main.py"),
        ("path:src/main.py", "src/main.py"),
        ("deep/../main.py", "src/main.py"),
    ],
)
def test_a_path_is_found_from_where_it_is_typed(
    typed: str, meant: str, below: Path, process: Any
) -> None:
    process("scan", cwd=below)
    ran = process("get-node", typed, "--json", cwd=below)
    assert ran.code == 0, ran.out
    assert ran.json["path"] == meant


def test_an_absolute_path_is_one_of_the_workspace(
    scanned: Path, tmp_path: Path, process: Any
) -> None:
    (tmp_path / "link").symlink_to(scanned)
    for typed in (scanned / "src" / "main.py", tmp_path / "link" / "src" / "main.py"):
        for place in (["-C", scanned], ["-C", tmp_path / "link"]):
            assert process(*place, "get-node", typed, "--json").json["path"] == "src/main.py"
    ran = process("-C", scanned, "get-node", "/etc/passwd")
    assert ran.code == 2
    assert f"/etc/passwd is not in the workspace {scanned}" in ran.err
    assert "hint: " in ran.err


@pytest.mark.parametrize(
    "line",
    [
        ["list-frames", "main.py"],
        ["get-head", "main.py"],
        ["explain", "main.py"],
        ["regenerate", "main.py"],
        ["synthesize", "deep", "--type", "outline"],
        ["put-frame", "main.py", "note.txt", "--type", "note", "--agent", "alice"],
        ["compose", "main.py", "--related", "deep"],
        ["export", "x.pack", "deep"],
        ["invalidate", "main.py"],
        ["status", "--why-ignored", "main.py"],
    ],
)
def test_every_command_that_takes_a_node_does_so(
    line: list[str], below: Path, process: Any
) -> None:
    (below / "note.txt").write_text("Read this.")
    process("watch", "--once", cwd=below)
    ran = process(*line, "--json", cwd=below)
    assert ran.code == 0, ran.out
    assert ran.json.get("path") in (None, "src/main.py")


def test_names_from_a_pipe_are_those_of_the_workspace(below: Path, process: Any) -> None:
    process("scan", cwd=below)
    names = b"src/main.py\n./main.py\nmain.py\n" + os.fsencode(below / "main.py")
    ran = process("get-node", "-", "--json", cwd=below, stdin=names)
    assert [one.get("path") for one in ran.json["results"]] == [
        "src/main.py", "src/main.py", None, "src/main.py",
    ]  # fmt: skip
