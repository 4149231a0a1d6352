"""Stores that must not be touched: newer, damaged, read-only, in use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from indexer.store.lock import OwnerLock
from tests.support.processes import Forked

READING = (
    ["status"], ["validate"], ["log"], ["diff", "@-0", "@-0"], ["sql", "SELECT 1"],
    ["get-node", "src"], ["list-frames", "src"], ["get-head", "src"], ["explain", "src"],
    ["agent", "list"],
)  # fmt: skip
EVERY = (
    *READING, ["scan"], ["watch", "--once"], ["regenerate"], ["invalidate", "src"], ["compact"],
    ["synthesize", "src", "--type", "outline"], ["agent", "add", "alice", "--role", "writer"],
)  # fmt: skip

Contents = Callable[[Path], dict[str, bytes]]


def test_not_a_workspace_is_5_and_nothing_is_made(tmp_path: Path, merkle: Any) -> None:
    for line in READING[1:]:
        ran = merkle("-C", tmp_path, "--json", *line)
        assert ran.code == 5, line
        assert ran.json["error"]["code"] == "no_workspace", line
        assert not (tmp_path / ".merkle").exists(), line


def test_a_newer_format_is_left_untouched(scanned: Path, merkle: Any, contents: Contents) -> None:
    newer = {"format": 99, "hash": "xxh3_128", "more": True}
    (scanned / ".merkle" / "format.json").write_text(json.dumps(newer))
    before = contents(scanned)
    for line in (*EVERY, ["init"]):
        ran = merkle("-C", scanned, "--json", *line)
        assert ran.code == 3, line
        assert ran.json["error"]["code"] == "newer_store", line
        assert "upgrade" in ran.json["error"]["hint"], line
        assert contents(scanned) == before, line


def test_a_newer_schema_is_left_untouched(scanned: Path, merkle: Any, contents: Contents) -> None:
    with duckdb.connect(str(scanned / ".merkle" / "index.duckdb")) as database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    before = contents(scanned)
    for line in EVERY:
        ran = merkle("-C", scanned, "--json", *line)
        assert ran.code == 3, line
        assert ran.json["error"]["code"] == "newer_store", line
        assert contents(scanned) == before, line


def test_doctor_tells_about_a_newer_store(scanned: Path, merkle: Any) -> None:
    (scanned / ".merkle" / "format.json").write_text('{"format": 99, "hash": "xxh3_128"}')
    ran = merkle("-C", scanned, "doctor")
    assert ran.code == 1
    assert "upgrade merkle" in ran.out


def damage_head(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096:4160] = bytes(64)
    raw[8192:8256] = bytes(64)
    path.write_bytes(raw)


def damage_all(path: Path) -> None:
    path.write_bytes(b"this was a database once\n" * 500)


@pytest.mark.parametrize("damage", [damage_head, damage_all])
def test_a_damaged_database_is_kept_and_put_aside_on_request(
    damage: Callable[[Path], None], scanned: Path, merkle: Any, contents: Contents
) -> None:
    root = merkle("-C", scanned, "log", "--json").json["roots"][0]["root"]
    database = scanned / ".merkle" / "index.duckdb"
    damage(database)
    damaged = database.read_bytes()
    before = contents(scanned)
    for line in EVERY:
        ran = merkle("-C", scanned, *line)
        assert ran.code == 4, line
        assert "merkle doctor" in ran.err
    ran = merkle("-C", scanned, "doctor", "--json")
    assert ran.code == 4
    assert ran.json["healthy"] is False
    advice = next(check for check in ran.json["checks"] if check["name"] == "database")["advice"]
    assert advice.startswith("`merkle repair`")
    assert "merkle doctor --quarantine" in advice
    assert contents(scanned) == before

    (scanned / ".merkle" / "index.duckdb.wal").write_bytes(b"wal")
    ran = merkle("-C", scanned, "doctor", "--quarantine", "--json")
    assert ran.code == 0
    moved = {path: (scanned / path).read_bytes() for path in ran.json["quarantined"]}
    assert moved == {
        ".merkle/quarantine/database-1/index.duckdb": damaged,
        ".merkle/quarantine/database-1/index.duckdb.wal": b"wal",
    }
    assert not database.exists()
    ran = merkle("-C", scanned, "scan", "--json")
    assert ran.code == 0
    assert ran.json["root"] == root

    damage(database)
    assert merkle("-C", scanned, "doctor", "--quarantine").code == 0
    assert (scanned / ".merkle" / "quarantine" / "database-2" / "index.duckdb").exists()
    assert (
        scanned / ".merkle" / "quarantine" / "database-1" / "index.duckdb"
    ).read_bytes() == damaged


def test_a_readable_database_is_never_put_aside(scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "doctor", "--quarantine", "--json")
    assert ran.code == 0
    assert ran.json["quarantined"] == []
    assert merkle("-C", scanned, "status").code == 0


def test_nothing_is_put_aside_while_somebody_owns_it(scanned: Path, merkle: Any) -> None:
    damage_all(scanned / ".merkle" / "index.duckdb")
    with OwnerLock(scanned / ".merkle" / "lock", "test") as lock:
        lock.acquire(0)
        ran = merkle("-C", scanned, "doctor", "--quarantine", "--json")
    assert ran.code == 6
    assert str(os.getpid()) in ran.json["error"]["message"]
    assert (scanned / ".merkle" / "index.duckdb").exists()


def test_a_damaged_format_file_is_corrupt(scanned: Path, merkle: Any) -> None:
    (scanned / ".merkle" / "format.json").write_text("{")
    assert merkle("-C", scanned, "status").code == 4
    assert merkle("-C", scanned, "doctor").code == 4


def test_a_busy_index_names_its_holder(scanned: Path, process: Any) -> None:
    with OwnerLock(scanned / ".merkle" / "lock", "test") as lock:
        lock.acquire(0)
        ran = process("-C", scanned, "status", MERKLE_SERVICE_WAIT="100ms")
        doctor = process("-C", scanned, "doctor")
    assert ran.code == 6
    assert f"process {os.getpid()} (test)" in ran.err
    assert doctor.code == 0
    assert "in use by process" in doctor.out


def test_ten_commands_at_once_all_succeed(scanned: Path) -> None:
    running = [
        Forked(
            [sys.executable, "-m", "indexer.cli", "-C", str(scanned), "status"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for _ in range(10)
    ]  # fmt: skip
    for each in running:
        _, err = each.communicate(timeout=90)
        assert each.returncode == 0, err


def test_six_first_commands_at_once_in_a_fresh_folder_all_succeed(workspace: Path) -> None:
    lines = (["scan"], ["init"], ["watch", "--once"], ["regenerate"], ["scan"], ["lock"])
    running = [
        Forked(
            [sys.executable, "-m", "indexer.cli", "-C", str(workspace), *line],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
        )
        for line in lines
    ]  # fmt: skip
    for line, each in zip(lines, running, strict=True):
        _, err = each.communicate(timeout=90)
        assert each.returncode == 0, (line, err)


def test_a_read_only_folder_without_an_index(
    workspace: Path, process: Any, read_only: Callable[[Path], None]
) -> None:
    read_only(workspace)
    assert process("-C", workspace, "status").code == 5
    for name in ("init", "scan"):
        ran = process("-C", workspace, name)
        assert ran.code == 3
        assert "cannot create .merkle" in ran.err
        assert "Read-only file system" in ran.err


def test_a_read_only_folder_with_an_index(
    scanned: Path, merkle: Any, read_only: Callable[[Path], None], contents: Contents
) -> None:
    before = contents(scanned)
    read_only(scanned)
    for line in EVERY:
        ran = merkle("-C", scanned, *line)
        if line in READING:
            assert ran.code in (0, 1) or "has no frame" in ran.err, (line, ran.err)
        elif line != ["invalidate", "src"]:  # There is no frame to invalidate, so nothing to write.
            assert ran.code == 3, line
            assert ran.err.startswith("error: ")
        assert "Traceback" not in ran.err
    assert "read-only" in merkle("-C", scanned, "status").out
    ran = merkle("-C", scanned, "doctor")
    assert ran.code == 1
    assert ".merkle is on a read-only file system" in ran.out
    assert contents(scanned) == before


def test_a_workspace_copied_elsewhere_works_once_it_is_adopted(
    scanned: Path, tmp_path: Path, merkle: Any
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(scanned, copy)
    assert merkle("-C", copy, "scan").code == 3
    assert merkle("-C", copy, "init", "--adopt").code == 0
    roots = [
        merkle("-C", root, "scan", "--json").json["root"] for root in (scanned, copy)
    ]  # fmt: skip
    assert roots[0] == roots[1]


@pytest.mark.usefixtures("kept_open")
def test_a_mistyped_path_is_answered_with_its_neighbour(scanned: Path, merkle: Any) -> None:
    for typed, meant in (
        ("src/main", "src/main.py"), ("src/mian.py", "src/main.py"), ("READNE.md", "README.md"),
    ):  # fmt: skip
        ran = merkle("-C", scanned, "get-node", typed)
        assert ran.code == 2, typed
        assert f"{typed} is not in the index; did you mean {meant}?" in ran.err


@pytest.mark.usefixtures("kept_open")
def test_a_path_unlike_any_other_gets_no_guess(scanned: Path, merkle: Any) -> None:
    for typed in ("nowhere", "not/there/either"):
        assert f"{typed} is not in the index\n" in merkle("-C", scanned, "get-node", typed).err


def test_words_of_other_tools_lead_to_ours(merkle: Any) -> None:
    assert "there is no command 'tree'. Did you mean status --tree?" in merkle("tree").err
