"""What rows on a folder of the user's start from: plain Python, and a copy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import compared_rows
from benchmarks.floor import hash_all, walk
from benchmarks.measure import REPOSITORY
from benchmarks.question_rows import questions
from benchmarks.real_rows import compiled, copied, small_files


def test_the_floor_reads_files_and_no_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("text")
    (tmp_path / "to_folder").symlink_to("folder")
    (tmp_path / "to_nothing").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe")
    assert hash_all(walk(str(tmp_path))).keys() == {str(tmp_path / "folder" / "file")}


def test_a_folder_is_copied_into_a_repository_that_knows_all_of_it(tmp_path: Path) -> None:
    tree = small_files(tmp_path / "tree", 250)
    (tree / ".gitignore").write_text("*.txt\n")
    (tree / "to_folder").symlink_to("000")
    copy = copied(tree, tmp_path / "copy")
    told = subprocess.run(
        ["git", "-C", str(copy), "status", "--porcelain"], capture_output=True, check=True
    )
    listed = subprocess.run(["git", "-C", str(copy), "ls-files"], capture_output=True, check=True)
    assert told.stdout == b""
    assert len(listed.stdout.splitlines()) == 252
    assert not (tree / ".git").exists()


def test_a_program_is_compiled_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "indexer").mkdir()
    (tmp_path / "indexer" / "module.py").write_text("x = 1\n")
    assert compiled(tmp_path) == tmp_path
    assert list((tmp_path / "indexer" / "__pycache__").glob("module.*.pyc"))


def test_questions_are_made_of_the_words_of_sources_and_the_same_again(tmp_path: Path) -> None:
    for path in ("src/http_server.py", "src/request_parser.py", "tests/test_lantern.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    made = questions(tmp_path, 20)
    assert len(made) == 20
    assert made == questions(tmp_path, 20)
    assert len(set(made)) == 2
    assert not [one for one in made if "lantern" in one]


@pytest.mark.soak
def test_every_row_of_the_tables_is_measured_beside_a_commit(tmp_path: Path) -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("there is no history to compare with")
    tree = tmp_path / "tree"
    (tree / "source").mkdir(parents=True)
    (tree / "source" / "lamp.py").write_text("def light() -> int:\n    return 1\n")
    measured = list(compared_rows.rows(tree, tmp_path, 3, "HEAD"))
    assert {row.name.removesuffix(", median") for row in measured} == {
        "first scan", "scan with nothing changed", "status without a service",
        "validate --content", "service start to first answer", "scan with a service",
        "status with a service", "first pass, watch --once", "first question after a first pass",
        "compose without a service", "one body edit, watch --once", "compose in a service",
        "compose in a service, p95", "service memory after 100 questions",
    }  # fmt: skip
    assert all(row.value > 0 and row.base > 0 for row in measured if row.unit != "s of processor")
    assert not (tmp_path / "program").exists()
