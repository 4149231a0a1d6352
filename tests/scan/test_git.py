"""What git's commits hold, read for comparisons."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from indexer.scan.git import versions


def commit(root: Path, *arguments: str) -> None:
    person = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", root, "add", "-A"], check=True)
    subprocess.run(["git", "-C", root, *person, "commit", "-qm", "x"], check=True)


@pytest.mark.parametrize("name", ["plain.txt", "two words.txt", "and three words.txt", "a 5"])
def test_the_versions_of_a_file_that_was_gone_for_a_while(tmp_path: Path, name: str) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for content in ("one", None, "three"):
        (tmp_path / name).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / name).write_text(content)
        (tmp_path / "beside").write_text(str(content))
        commit(tmp_path)
    assert list(versions(tmp_path, name)) == [b"three", b"one"]
