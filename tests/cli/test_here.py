"""Paths typed in a folder of the workspace mean what they mean to every other command."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.copies import copy_workspace


@pytest.fixture
def below(
    peopled: Path, made: Path, merkle: Any, kept_open: Any, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder that we are in, with a file of a name that is also at the root."""
    if not (made / "below").exists():
        (peopled / "src" / "README.md").write_text("# Source\n")
        assert merkle("-C", peopled, "watch", "--once").code == 0
        kept_open.close()
        shutil.copytree(peopled, made / "below", symlinks=True)
    copy_workspace(made / "below", peopled)
    monkeypatch.chdir(peopled / "src")
    return peopled / "src"


def test_a_path_is_found_from_where_it_is_typed(below: Path, merkle: Any) -> None:
    for typed, meant in (
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
    ):
        ran = merkle("get-node", typed, "--json")
        assert ran.code == 0, ran.out
        assert ran.json["path"] == meant, typed


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


def test_every_command_that_takes_a_node_does_so(below: Path, merkle: Any) -> None:
    (below / "note.txt").write_text("Read this.")
    for line in (
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
    ):
        ran = merkle(*line, "--json")
        assert ran.code == 0, ran.out
        assert ran.json.get("path") in (None, "src/main.py"), line


def test_names_from_a_pipe_are_those_of_the_workspace(below: Path, process: Any) -> None:
    process("scan", cwd=below)
    names = b"src/main.py\n./main.py\nmain.py\n" + os.fsencode(below / "main.py")
    ran = process("get-node", "-", "--json", cwd=below, stdin=names)
    assert [one.get("path") for one in ran.json["results"]] == [
        "src/main.py", "src/main.py", None, "src/main.py",
    ]  # fmt: skip
