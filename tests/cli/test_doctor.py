"""`doctor`: each check on made-up machines, and the list as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from indexer.cli import machine_checks
from indexer.cli.machine_checks import (
    check_file_system,
    check_git,
    check_inotify,
    check_packages,
    check_space,
    file_system_of,
)


def test_a_healthy_workspace(scanned: Path, process: Any) -> None:
    ran = process("-C", scanned, "doctor", "--json")
    assert ran.code == 0, ran.json
    assert ran.json["healthy"] is True
    for check in ran.json["checks"]:
        assert check.keys() == {"name", "state", "message", "advice"}
        assert check["state"] == "ok"
    names = [check["name"] for check in ran.json["checks"]]
    assert names == [
        "python", "packages", "git", "file system", "disk space", "inotify", "settings",
        "workspace", "folder", "format", "socket folder", "service", "lock", "frames",
        "database", "journal",
    ]  # fmt: skip
    assert "healthy\n" in process("-C", scanned, "doctor").out


def test_no_index_is_told_and_none_is_made(tmp_path: Path, merkle: Any) -> None:
    ran = merkle("-C", tmp_path, "doctor")
    assert ran.code == 1
    assert "run `merkle scan` there" in ran.out
    assert not (tmp_path / ".merkle").exists()
    quiet = merkle("-C", tmp_path, "doctor", "--quiet").out
    assert quiet.startswith("warn  workspace")


def test_looking_changes_nothing(scanned: Path, merkle: Any, contents: Any) -> None:
    before = contents(scanned)
    assert merkle("-C", scanned, "doctor").code == 0
    assert contents(scanned) == before


def test_a_damaged_journal_is_told_and_repaired(peopled: Path, merkle: Any) -> None:
    segment = next((peopled / ".merkle" / "journal").iterdir())
    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 2] ^= 1
    segment.write_bytes(raw)
    ran = merkle("-C", peopled, "doctor", "--json")
    assert ran.code == 4
    found = next(check for check in ran.json["checks"] if check["name"] == "journal")
    assert found["state"] == "fail"
    assert found["advice"].startswith("`merkle repair`")
    assert merkle("-C", peopled, "repair").code == 0
    assert merkle("-C", peopled, "doctor").code == 0


def test_bad_settings_are_a_finding_not_an_error(scanned: Path, merkle: Any) -> None:
    (scanned / "merkle.toml").write_text("[watch]\nspeed = 3\n")
    ran = merkle("-C", scanned, "doctor")
    assert ran.code == 1
    assert "unknown key watch.speed" in ran.out
    assert merkle("-C", scanned, "status").code == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[llm]\nwach = true\n", "fail  settings       merkle.toml: unknown key llm.wach"),
        ("[types.x]\nfile = 'outlin'\n", "merkle.toml: types.x.file: there is no file generator"),
        ("[types.x]\nfile = {use = 'outline', head = 3}\n", "types.x.file: outline has no option"),
        ("[types.x]\nfile = {use = 'llm'}\n", "types.x.file: llm: `model` is missing"),
        ("[types.x]\nfolder = 'summarise'\n", "built in are: concatenate, filter, summarize, llm"),
        ("[types.x]\nfile = 'outline'\nscope = ['scr']\n", "types.x.scope has 'scr', where there"),
    ],
)
def test_what_is_declared_is_looked_at_too(
    text: str, told: str, scanned: Path, merkle: Any
) -> None:
    (scanned / "merkle.toml").write_text(text)
    ran = merkle("-C", scanned, "doctor")
    assert ran.code == 1
    assert told in ran.out


def test_an_address_left_behind(scanned: Path, merkle: Any) -> None:
    (scanned / ".merkle" / "socket").write_text("/nowhere/at/all.sock\n")
    ran = merkle("-C", scanned, "doctor")
    assert ran.code == 1
    assert "left behind" in ran.out


def test_a_note_of_a_process_that_is_gone_does_no_harm(scanned: Path, merkle: Any) -> None:
    (scanned / ".merkle" / "lock").write_text('{"pid": 999999999, "role": "watch"}')
    assert merkle("-C", scanned, "doctor").code == 0


def test_a_socket_folder_open_to_others(scanned: Path, merkle: Any, tmp_path: Path) -> None:
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "merkle"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    ran = merkle("-C", scanned, "doctor")
    assert ran.code == 1
    assert "not a private folder" in ran.out


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "PACKAGES", ("click", "no-such-package-here"))
    check = check_packages()
    assert (check.state, check.message) == ("fail", "not installed: no-such-package-here")


def test_git_matters_only_in_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert check_git(tmp_path).state == "ok"
    (tmp_path / ".git").mkdir()
    assert check_git(tmp_path).state == "warn"


def test_network_file_systems_are_told(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    place = os.path.realpath(tmp_path / "my share")
    escaped = place.replace(" ", "\\040")
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nproc /proc proc rw 0 0\nhost:/x {escaped} nfs4 rw 0 0\n"
    )
    assert check_file_system(Path(place) / "deep", mounts).state == "warn"
    assert file_system_of(Path(place + "d"), mounts) == "ext4"
    mounts.write_text(mounts.read_text() + f"/dev/sdb {escaped} btrfs rw 0 0\n")
    assert file_system_of(Path(place), mounts) == "btrfs"
    assert check_file_system(Path(place), tmp_path / "none").state == "ok"


@pytest.mark.parametrize(
    ("folders", "limit", "state"),
    [(None, "8192", "ok"), (100, "8192", "ok"), (9000, "8192", "warn"), (9000, "?", "ok")],
)
def test_watches_against_folders(
    folders: int | None, limit: str, state: str, tmp_path: Path
) -> None:
    (tmp_path / "limit").write_text(limit + "\n")
    check = check_inotify(folders, tmp_path / "limit")
    assert check.state == state
    assert ("sysctl" in check.advice) is (state == "warn")


def test_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_space(tmp_path / "gone").state == "warn"
    monkeypatch.setattr(machine_checks, "LITTLE_SPACE", 1 << 62)
    assert check_space(tmp_path).state == "warn"
    monkeypatch.setattr(machine_checks, "NO_SPACE", 1 << 62)
    assert check_space(tmp_path).state == "fail"
