"""`lock`, `validate --locked`, `prove` and `verify`, as CI runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Forked


def findings(ran: Any) -> list[tuple[str, str]]:
    return [(one["code"], one["path"]) for one in ran.json["errors"]]


# -- lock


def test_lock_writes_what_validate_compares_with(anywhere: Path, merkle: Any) -> None:
    ran = merkle("-C", anywhere, "lock", "--json")
    assert ran.code == 0
    assert ran.json == {
        "path": "merkle.lock", "root": ran.json["root"], "folders": 3, "written": True,
    }  # fmt: skip
    lines = (anywhere / "merkle.lock").read_text().split("\n")
    assert lines[1:3] == ["merkle-lock 2 xxh3_128", f"root {ran.json['root']}"]
    assert [line.split(" ")[-1] for line in lines[3:-1]] == [
        ".", ".gitignore", "README.md", "src", "main.py", "src/deep", "table.csv",
    ]  # fmt: skip
    assert merkle("-C", anywhere, "validate", "--locked").code == 0
    assert merkle("-C", anywhere, "lock").out.startswith("nothing to write: merkle.lock")


def test_the_lock_is_no_part_of_the_tree(scanned: Path, merkle: Any) -> None:
    before = merkle("-C", scanned, "scan", "--json").json["root"]
    assert merkle("-C", scanned, "lock", "--json").json["root"] == before
    assert merkle("-C", scanned, "scan", "--json").json["root"] == before
    assert not [name for name in os.listdir(scanned / ".merkle") if "lock." in name]


def test_a_lock_that_is_committed_is_nothing_to_warn_about(scanned: Path, merkle: Any) -> None:
    assert merkle("-C", scanned, "lock").code == 0
    for command in (["init", "-q"], ["add", "-f", "merkle.lock", "noise.log"]):
        subprocess.run(["git", "-C", scanned, *command], check=True)
    warnings = merkle("-C", scanned, "validate", "--locked", "--json").json["warnings"]
    assert [(each["code"], each["path"]) for each in warnings] == [("tracked_ignored", "noise.log")]


@pytest.mark.usefixtures("kept_open")
def test_locked_names_the_files_and_what_to_do(anywhere: Path, merkle: Any) -> None:
    assert merkle("-C", anywhere, "lock").code == 0
    (anywhere / "src" / "deep" / "table.csv").write_text("3,4\n")
    ran = merkle("-C", anywhere, "validate", "--locked", "--json")
    assert (ran.code, findings(ran)) == (1, [("lock_changed", "src/deep/table.csv")])
    # Recording the change does not make it locked.
    assert merkle("-C", anywhere, "scan").code == 0
    ran = merkle("-C", anywhere, "validate", "--locked", "--json")
    assert (ran.code, findings(ran)) == (1, [("lock_changed", "src/deep/table.csv")])
    (anywhere / "new").mkdir()
    (anywhere / "new" / "file").write_text("x")
    (anywhere / "README.md").write_text("# Other\n")
    shutil.rmtree(anywhere / "src" / "deep")
    ran = merkle("-C", anywhere, "validate", "--locked", "--json")
    assert findings(ran) == [
        ("lock_changed", "README.md"), ("lock_added", "new"), ("lock_removed", "src/deep"),
    ]  # fmt: skip
    for form in ("text", "github", "junit"):
        ran = merkle("-C", anywhere, "validate", "--locked", "--format", form)
        assert ran.code == 1
        assert "src/deep" in ran.out
        assert form != "text" or "run `merkle lock`" in ran.out
    assert merkle("-C", anywhere, "lock").code == 0
    assert merkle("-C", anywhere, "validate", "--locked").code == 0


def test_a_lock_holds_in_another_clone(scanned: Path, tmp_path: Path, merkle: Any) -> None:
    assert merkle("-C", scanned, "lock").code == 0
    clone = tmp_path / "clone"
    shutil.copytree(scanned, clone, ignore=shutil.ignore_patterns(".merkle"))
    os.utime(clone / "README.md", (1, 1))
    assert merkle("-C", clone, "scan").code == 0
    assert merkle("-C", clone, "validate", "--locked").code == 0
    before = (clone / "merkle.lock").stat()
    assert merkle("-C", clone, "lock", "--json").json["written"] is False
    assert (clone / "merkle.lock").stat() == before


def test_lock_needs_no_scan_before_it(workspace: Path, merkle: Any) -> None:
    assert merkle("-C", workspace, "lock").code == 0
    assert merkle("-C", workspace, "validate", "--locked").code == 0


SPOILING: tuple[Callable[[Path], object], ...] = (
    lambda lock: lock.unlink(),
    lambda lock: lock.write_text("nonsense\n"),
    lambda lock: lock.write_bytes(b"\xff\n"),
    lambda lock: lock.write_text(lock.read_text().replace("root ", "<<<<<<< x\nroot ")),
    lambda lock: lock.write_text(lock.read_text().replace("xxh3_128", "sha256")),
    lambda lock: (lock.unlink(), lock.mkdir()),
    lambda lock: (lock.unlink(), os.mkfifo(lock)),
    lambda lock: (lock.unlink(), lock.symlink_to("/dev/zero")),
)


@pytest.mark.usefixtures("kept_open")
def test_a_lock_that_cannot_be_read_is_unchecked(scanned: Path, merkle: Any) -> None:
    lock = scanned / "merkle.lock"
    assert merkle("-C", scanned, "lock").code == 0
    good = lock.read_text()
    for number, spoil in enumerate(SPOILING):
        spoil(lock)
        ran = merkle("-C", scanned, "validate", "--locked", "--json")
        assert ran.code == 3, number
        assert [(one["code"], one["path"]) for one in ran.json["unchecked"]] == [
            ("bad_lock", "merkle.lock")
        ], number
        assert ran.json["valid"] is False, number
        assert merkle("-C", scanned, "validate").code == 0, number
        if lock.is_dir():
            lock.rmdir()
        lock.unlink(missing_ok=True)
        lock.write_text(good)
        assert merkle("-C", scanned, "validate", "--locked").code == 0, number


def test_a_lock_of_another_hash_is_unchecked(workspace: Path, merkle: Any) -> None:
    assert merkle("-C", workspace, "init", "--hash", "sha256").code == 0
    assert merkle("-C", workspace, "lock").code == 0
    shutil.rmtree(workspace / ".merkle")
    assert merkle("-C", workspace, "scan").code == 0
    ran = merkle("-C", workspace, "validate", "--locked")
    assert ran.code == 3
    assert "was made with sha256" in ran.out


def test_what_could_not_be_read_is_not_locked(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert merkle("-C", scanned, "lock").code == 0
    before = (scanned / "merkle.lock").read_bytes()
    (scanned / "src" / "main.py").write_text("nobody has seen this\n")
    real = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "main.py":
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    ran = merkle("-C", scanned, "lock")
    assert ran.code == 3
    assert "src/main.py" in ran.err
    assert (scanned / "merkle.lock").read_bytes() == before
    # What cannot be read keeps its last known id, and is never called fine for that.
    ran = merkle("-C", scanned, "validate", "--locked", "--json")
    assert (ran.code, ran.json["errors"]) == (3, [])
    assert [one["path"] for one in ran.json["unchecked"]] == ["src/main.py"]
    assert merkle("-C", scanned, "report", scanned.parent / "r.md").code == 3


def test_a_lock_that_cannot_be_written_leaves_the_old_one(scanned: Path, merkle: Any) -> None:
    (scanned / "merkle.lock").mkdir()
    (scanned / "merkle.lock" / "x").write_text("x")
    ran = merkle("-C", scanned, "lock")
    assert ran.code == 3
    assert (scanned / "merkle.lock" / "x").exists()


# -- proofs


@pytest.fixture
def proving(workspace: Path, merkle: Any) -> tuple[Path, str]:
    """A workspace that can prove, and its root."""
    assert merkle("-C", workspace, "init", "--hash", "sha256").code == 0
    (workspace / "link").symlink_to("src/main.py")
    (workspace / os.fsdecode(b"odd\xff\n\\name")).write_bytes(b"odd")
    return workspace, merkle("-C", workspace, "scan", "--json").json["root"]


@pytest.mark.usefixtures("kept_open")
def test_every_node_is_proved_and_verified(
    proving: tuple[Path, str], tmp_path: Path, merkle: Any, process: Any
) -> None:
    workspace, root = proving
    nodes = {
        "src/main.py": "file", "src/deep": "directory", "link": "link", ".": "directory",
        "odd\\xff\\x0a\\x5cname": "file",
    }  # fmt: skip
    for name, kind in nodes.items():
        ran = merkle("-C", workspace, "prove", name)
        assert ran.code == 0
        assert ran.json["root"] == root
        proof = tmp_path / "proof.json"
        proof.write_text(ran.out)
        checked = merkle("verify", proof, "--root", root, "--json")
        assert checked.code == 0
        assert checked.json["ok"] is True
        assert (checked.json["path"], checked.json["kind"]) == (name.strip("."), kind)
    # From standard input, far from any workspace.
    ran = process("verify", "-", "--root", root, cwd=Path("/"), stdin=proof.read_bytes())
    assert ran.code == 0
    assert ran.out.startswith("proved: root ")


@pytest.mark.usefixtures("kept_open")
def test_the_proof_of_a_changed_file_does_not_verify(
    proving: tuple[Path, str], tmp_path: Path, merkle: Any
) -> None:
    workspace, root = proving
    proof = tmp_path / "proof.json"
    proof.write_text(merkle("-C", workspace, "prove", "src/main.py").out)
    file = workspace / "src" / "main.py"
    line = ("verify", proof, "--root", root, "--file")
    assert merkle(*line, file).code == 0
    file.write_text("print('changed')\n")
    ran = merkle(*line, file, "--json")
    assert (ran.code, ran.json["ok"]) == (1, False)
    assert ran.json["reason"] == "the file is not what was proved"
    # The changed file has a proof of its own, and that is for another root.
    later = merkle("-C", workspace, "scan", "--json").json["root"]
    assert later != root
    proof.write_text(merkle("-C", workspace, "prove", "src/main.py").out)
    assert merkle("verify", proof, "--root", later, "--file", file).code == 0
    assert merkle("verify", proof, "--root", root, "--file", file).code == 1
    document = json.loads(proof.read_text())
    proof.write_text(json.dumps({**document, "root": root}))
    assert merkle("verify", proof, "--root", root).code == 1


def test_links_and_folders_beside_a_proof(
    proving: tuple[Path, str], tmp_path: Path, merkle: Any
) -> None:
    workspace, root = proving
    proof = tmp_path / "proof.json"
    proof.write_text(merkle("-C", workspace, "prove", "link").out)
    assert merkle("verify", proof, "--root", root, "--file", workspace / "link").code == 0
    other = tmp_path / "other"
    other.symlink_to("elsewhere")
    assert merkle("verify", proof, "--root", root, "--file", other).code == 1
    proof.write_text(merkle("-C", workspace, "prove", "src").out)
    assert merkle("verify", proof, "--root", root, "--file", workspace / "README.md").code == 2


def test_verify_says_what_it_was_not_given(tmp_path: Path, merkle: Any) -> None:
    proof = tmp_path / "proof.json"
    proof.write_text("{}")
    assert merkle("verify", proof).code == 2
    assert merkle("verify", proof, "--root", "abc").code == 3
    assert merkle("verify", tmp_path / "none", "--root", "ab" * 32).code == 3
    ran = merkle("verify", proof, "--root", "ab" * 32, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (3, "not_a_proof")


def test_a_root_in_part_is_wrong_use(
    proving: tuple[Path, str], tmp_path: Path, merkle: Any
) -> None:
    workspace, root = proving
    proof = tmp_path / "proof.json"
    proof.write_text(merkle("-C", workspace, "prove", "src").out)
    assert merkle("verify", proof, "--root", root[:12]).code == 2


def test_the_default_hash_proves_nothing(anywhere: Path, merkle: Any) -> None:
    ran = merkle("-C", anywhere, "prove", "src", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "no_proofs")
    assert "sha256" in ran.json["error"]["hint"]


def test_nothing_is_proved_of_what_is_not_there(
    proving: tuple[Path, str], workspace: Path, merkle: Any
) -> None:
    assert merkle("-C", workspace, "prove", "nowhere").code == 2
    old = merkle("-C", workspace, "get-node", "src/main.py", "--json").json["node_id"]
    (workspace / "src" / "main.py").write_text("other\n")
    assert merkle("-C", workspace, "scan").code == 0
    assert merkle("-C", workspace, "prove", old).code == 2


def test_verifying_imports_no_database_and_no_service() -> None:
    code = (
        "import sys, indexer.cli.group, indexer.cli.verify\n"
        "heavy = ('_duckdb', 'starlette', 'uvicorn', 'watchdog', 'tiktoken', 'rich')\n"
        "print([m for m in sys.modules if m.split('.')[0] in heavy"
        " or m.startswith(('indexer.engine', 'indexer.store', 'indexer.service'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_proof_through_a_service_is_the_same(
    proving: tuple[Path, str], merkle: Any, process: Any
) -> None:
    workspace, _ = proving
    alone = merkle("-C", workspace, "prove", "src/main.py").out
    running = Forked([sys.executable, "-m", "indexer.cli", "-C", workspace, "watch"])
    try:
        while not (workspace / ".merkle" / "socket").exists():
            assert running.poll() is None
            time.sleep(0.02)
        assert process("-C", workspace, "prove", "src/main.py").out == alone
    finally:
        running.terminate()
        running.wait(30)
