"""`.merkle/`: made once, harmless to make again, and refused where it cannot be made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import CorruptError, NoWorkspaceError, UncheckedError, UsageError
from indexer.store.layout import Layout, initialise, is_initialised, read_format

REPOSITORY = Path(__file__).parents[2]


def test_what_is_made(workspace: Path) -> None:
    assert not is_initialised(workspace)
    made, new = initialise(workspace)
    assert (made.hash_name, made.version, new) == ("xxh3_128", 1, True)
    assert is_initialised(workspace)
    assert read_format(workspace) == made
    assert (workspace / ".merkle" / ".gitignore").read_text() == "*\n", "it ignores itself"
    assert sorted(path.name for path in workspace.iterdir()) == [".merkle"]


def test_a_folder_that_must_not_be_looked_at_is_told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise PermissionError(13, "Permission denied")

    initialise(workspace)
    # Tests may run as root, who is refused nothing.
    monkeypatch.setattr(os, "open", refuse)
    assert is_initialised(workspace)
    with pytest.raises(UncheckedError, match=r"format\.json: Permission denied") as caught:
        read_format(workspace)
    assert caught.value.hint.startswith("let this user read and write .merkle")


def test_again_is_harmless(workspace: Path) -> None:
    initialise(workspace, "sha256")
    before = (workspace / ".merkle" / "format.json").stat()
    for name in (None, "sha256"):
        assert initialise(workspace, name)[0].hash_name == "sha256"
    assert (workspace / ".merkle" / "format.json").stat() == before


def test_another_hash_is_refused(workspace: Path) -> None:
    initialise(workspace, "sha256")
    with pytest.raises(UsageError, match="already uses sha256"):
        initialise(workspace, "xxh3_128")
    with pytest.raises(UsageError, match="md5"):
        initialise(workspace / "other", "md5")


def test_an_unknown_hash_makes_nothing(workspace: Path) -> None:
    with pytest.raises(UsageError, match="md5"):
        initialise(workspace, "md5")
    assert list(workspace.iterdir()) == []


def test_no_workspace(workspace: Path) -> None:
    with pytest.raises(NoWorkspaceError) as caught:
        read_format(workspace)
    assert caught.value.exit_code == 5


def test_a_format_of_an_unknown_hash_is_told(workspace: Path) -> None:
    initialise(workspace)
    Layout(workspace).format_file.write_text('{"format": 1, "hash": "md5"}')
    with pytest.raises((UsageError, CorruptError), match="md5"):
        read_format(workspace)


def test_a_crash_while_writing_leaves_the_old_or_the_new(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, crash)
            with pytest.raises(KeyboardInterrupt):
                initialise(workspace)
        assert not is_initialised(workspace)
    assert initialise(workspace)[1] is True
    assert read_format(workspace).hash_name == "xxh3_128"


def test_a_read_only_file_system(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(UncheckedError, match=r"[Rr]ead-only file system") as caught:
        initialise(workspace)
    assert caught.value.hint
    assert caught.value.exit_code == 3


AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.support.engines import Engine
from indexer.errors import MerkleError
from indexer.store.layout import initialise
# After the imports: the interpreter itself may be installed where only root can read it.
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for act, name in ((initialise, "fresh"), (Engine, "there")):
    try:
        act(Path(sys.argv[1]) / name)
    except MerkleError as error:
        print(int(error.exit_code), error.message)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_where_nothing_may_be_written(runtime_dir: Path) -> None:
    (runtime_dir / "fresh").mkdir()
    (runtime_dir / "there").mkdir()
    initialise(runtime_dir / "there")
    runtime_dir.chmod(0o755)
    before = sorted(runtime_dir.rglob("*"))
    run = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(runtime_dir)],
        capture_output=True, text=True, cwd=REPOSITORY, check=True,
    )  # fmt: skip
    lines = run.stdout.splitlines()
    assert lines[0].startswith("3 cannot create .merkle")
    assert lines[1].startswith("3 cannot read")
    assert sorted(runtime_dir.rglob("*")) == before
