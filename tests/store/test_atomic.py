"""The old file or the new one, never half, and nothing left beside it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from indexer.store.atomic import replacing, write_atomically


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert names(tmp_path) == {"file"}


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / ("x" * 255)
    file.write_bytes(b"something longer")
    file.chmod(0o604)
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o604


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"old")
    (tmp_path / "link").symlink_to("kept")
    write_atomically(tmp_path / "link", b"new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_it_is_written_in_another_folder(tmp_path: Path) -> None:
    within, folder = tmp_path / "within", tmp_path / "folder"
    within.mkdir()
    folder.mkdir()
    with replacing(folder / "file", within=within) as file:
        file.write(b"half")
        assert names(folder) == set()
        assert len(names(within)) == 1
    assert names(folder) == {"file"}
    assert names(within) == set()


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "no room"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, problem: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise problem

    file = tmp_path / "file"
    file.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(type(problem)):
            write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == {"file"}


def test_who_writes_changes_its_mind(tmp_path: Path) -> None:
    def half() -> None:
        with replacing(tmp_path / "file") as file:
            file.write(b"half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        half()
    assert names(tmp_path) == set()
