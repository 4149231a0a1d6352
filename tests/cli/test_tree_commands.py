"""init, scan, status and watch --once on real workspaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.progress import StatusLine
from indexer.cli.status import never_scanned
from indexer.engine.tree.results import ScanDocument, StatusDocument
from indexer.service.workspace import Workspace


def test_init_says_what_it_did_and_is_harmless_to_repeat(workspace: Path, process: Any) -> None:
    ran = process("init", "--hash", "sha256", "-C", workspace, "--json")
    assert ran.code == 0
    assert ran.json == {
        "workspace": str(workspace),
        "hash": "sha256",
        "created": True,
        "adopted": None,
    }
    assert (workspace / ".merkle" / ".gitignore").read_text() == "*\n"
    assert "Already initialised" in process("init", "-C", workspace).out
    ran = process("init", "--hash", "xxh3_128", "-C", workspace)
    assert (ran.code, ran.out) == (2, "")


def test_a_first_scan_initialises(workspace: Path, process: Any) -> None:
    ran = process("scan", "--json", cwd=workspace)
    # The folder has no marker yet; the current folder is the workspace.
    assert ran.code == 0
    assert set(ran.json) == set(ScanDocument.__annotations__)
    assert (ran.json["files"], ran.json["directories"]) == (4, 3)
    assert ran.json["added"] == 7
    again = process("scan", "--json", cwd=workspace).json
    assert again["root"] == ran.json["root"]
    assert again["added"] == again["modified"] == again["removed"] == 0


def test_scan_text_tells_root_counts_and_changes(scanned: Path, merkle: Any) -> None:
    (scanned / "new.txt").write_text("x")
    (scanned / "README.md").unlink()
    ran = merkle("-C", scanned, "scan")
    root = merkle("-C", scanned, "log", "--json").json["roots"][0]["root"]
    lines = ran.out.splitlines()
    assert lines[0] == f"root     {root}"
    assert lines[1].startswith("tree     4 files, 3 folders, ")
    assert "1 added" in lines[2]
    assert "1 removed" in lines[2]


def test_scan_tells_what_it_skipped(workspace: Path, merkle: Any) -> None:
    import os

    os.mkfifo(workspace / "pipe")
    ran = merkle("-C", workspace, "scan")
    assert "skipped (1)" in ran.out
    assert "  pipe  " in ran.out


def test_emptied_workspace_needs_confirmation(scanned: Path, merkle: Any) -> None:
    import shutil

    for path in scanned.iterdir():
        if path.name != ".merkle":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    ran = merkle("-C", scanned, "scan", "--json")
    assert ran.code == 3
    assert "--accept-empty" in ran.json["error"]["hint"]
    assert merkle("-C", scanned, "status").code == 3
    assert merkle("-C", scanned, "scan", "--accept-empty", "--json").json["removed"] == 6


def test_status_follows_the_disk(scanned: Path, process: Any) -> None:
    ran = process("-C", scanned, "status", "--json")
    assert ran.code == 0
    assert ran.json["state"] == "current"
    assert set(ran.json) == set(StatusDocument.__annotations__)
    (scanned / "src" / "main.py").write_text("print('neap')\n")
    (scanned / "new.txt").write_text("x")
    (scanned / "README.md").unlink()
    ran = process("-C", scanned, "status", "--json")
    assert ran.code == 1
    assert ran.json["state"] == "stale"
    assert "src/main.py" in ran.json["changes"]["modified"]
    assert ran.json["changes"]["added"] == ["new.txt"]
    assert ran.json["changes"]["removed"] == ["README.md"]
    text = process("-C", scanned, "status")
    assert text.code == 1
    assert "added (1)\n  new.txt\n" in text.out


def test_status_without_an_index_is_the_same_document(workspace: Path, process: Any) -> None:
    ran = process("-C", workspace, "status", "--json")
    assert ran.code == 5
    assert ran.json == never_scanned(workspace)
    assert set(ran.json) == set(StatusDocument.__annotations__)
    assert not (workspace / ".merkle").exists()
    assert process("-C", workspace, "init").code == 0
    ran = process("-C", workspace, "status", "--json")
    assert ran.code == 5
    assert (ran.json["state"], ran.json["scanned"]) == ("missing", False)
    assert "run `merkle scan`" in process("-C", workspace, "status").out


def test_status_lists_stop_in_time(scanned: Path, merkle: Any) -> None:
    for number in range(30):
        (scanned / f"new{number:02}").write_text("x")
    ran = merkle("-C", scanned, "status")
    assert "added (30)" in ran.out
    assert "new19" in ran.out
    assert "new20" not in ran.out
    assert "and 10 more" in ran.out
    assert len(merkle("-C", scanned, "status", "--json").json["changes"]["added"]) == 30


def test_status_tree_draws_folders_in_byte_order(scanned: Path, merkle: Any) -> None:
    # `src-old` sorts before `src/…` as a string, but not as a path.
    (scanned / "src-old").mkdir()
    (scanned / "src-old" / "x").write_text("x")
    merkle("-C", scanned, "scan")
    ran = merkle("-C", scanned, "status", "--tree")
    drawn = [line[12:-12].rstrip() for line in ran.out.split("\n\n")[0].splitlines()]
    assert drawn == [
        "./", "├── .gitignore", "├── README.md", "├── src/", "│   ├── deep/",
        "│   │   └── table.csv", "│   └── main.py", "└── src-old/", "    └── x",
    ]  # fmt: skip
    document = merkle("-C", scanned, "status", "--tree", "--json").json
    assert [node["path"] for node in document["tree"]][:3] == ["", ".gitignore", "README.md"]
    assert set(document) == {*StatusDocument.__annotations__, "tree"}


@pytest.mark.usefixtures("kept_open")
def test_every_id_in_the_drawn_tree_names_its_node(scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "status", "--tree")
    ids = [line.split()[0] for line in ran.out.split("\n\n")[0].splitlines()]
    shown = [merkle("-C", scanned, "get-node", one, "--json").json["path"] for one in ids]
    document = merkle("-C", scanned, "status", "--tree", "--json").json
    assert shown == [node["path"] for node in document["tree"]]
    assert document["root"].startswith(ids[0])


def test_a_quiet_status_tells_only_what_is_amiss(scanned: Path, merkle: Any) -> None:
    assert merkle("-C", scanned, "status", "--quiet").out == ""
    (scanned / "new.txt").write_text("x")
    ran = merkle("-C", scanned, "status", "--quiet")
    assert ran.code == 1
    assert ran.out == (
        "state  stale  the disk has moved on: run `merkle scan`\nadded (1)\n  new.txt\n"
    )


def test_what_could_not_be_read_is_not_called_true(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = Workspace.status

    def partly(self: Workspace, **options: Any) -> Any:
        remark = {"path": "src/main.py", "reason": "permission denied"}
        return {**status(self, **options), "unreadable": [remark]}

    # Tests may run as root, who can read everything.
    monkeypatch.setattr(Workspace, "status", partly)
    ran = merkle("-C", scanned, "status")
    assert ran.code == 3
    assert "current  but for what could not be read" in ran.out
    assert "src/main.py" in merkle("-C", scanned, "status", "--quiet").out


@pytest.mark.usefixtures("kept_open")
def test_frames_that_are_not_fresh_are_counted_in_full(peopled: Path, merkle: Any) -> None:
    for number in range(60):
        (peopled / f"n{number:02}.md").write_text(f"# {number}\n")
    merkle("-C", peopled, "watch", "--once")
    (peopled / "merkle.toml").write_text("[types.other]\nfile = 'outline'\nscope = 'src'\n")
    ran = merkle("-C", peopled, "status")
    total = sum(merkle("-C", peopled, "status", "--json").json["frames"][key] for key in (
        "stale", "orphaned", "unmanaged", "unknown",
    ))  # fmt: skip
    assert total > 60
    assert f"frames not fresh ({total})" in ran.out
    assert f"and {total - 5} more" in ran.out


def test_status_tells_how_frames_are_made(scanned: Path, merkle: Any) -> None:
    assert "none yet: `merkle regenerate` makes them" in merkle("-C", scanned, "status").out


@pytest.mark.parametrize("line", [["scan"], ["watch", "--once"], ["lock"]])
def test_a_home_is_not_indexed_by_accident(line: list[str], tmp_path: Path, process: Any) -> None:
    (tmp_path / "file").write_text("x")
    ran = process(*line, HOME=str(tmp_path))
    assert ran.code == 2
    assert "it was not indexed\nhint: go to a project's folder" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert process("init", HOME=str(tmp_path)).code == 0
    assert process(*line, HOME=str(tmp_path)).code == 0


def test_status_tree_stops_at_a_depth(scanned: Path, merkle: Any) -> None:
    nodes = merkle("-C", scanned, "status", "--tree", "--depth", "1", "--json").json["tree"]
    assert [node["path"] for node in nodes] == ["", ".gitignore", "README.md", "src"]


def test_why_ignored_names_the_rule(scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "status", "--why-ignored", "noise.log")
    assert ran.code == 0
    assert "is ignored by *.log" in ran.out
    assert ".gitignore:1" in ran.out
    document = merkle("-C", scanned, "status", "--why-ignored", "noise.log", "--json").json
    assert document["ignored"] is True
    assert document["rule"]["pattern"] == "*.log"
    assert "is not ignored" in merkle("-C", scanned, "status", "--why-ignored", "README.md").out


@pytest.mark.usefixtures("kept_open")
def test_paths_outside_are_refused(scanned: Path, merkle: Any) -> None:
    for path in ("../outside", "/etc/passwd", "src/../../x"):
        ran = merkle("-C", scanned, "status", "--why-ignored", path, "--json")
        assert ran.code == 2, path
        assert ran.json["error"]["code"] == "bad_path", path


def test_watch_once_is_a_scan_with_more_keys(workspace: Path, process: Any) -> None:
    ran = process("-C", workspace, "watch", "--once", "--json")
    assert ran.code == 0
    made = {"generated", "reused", "carried", "failed"}
    assert set(ran.json) == {*ScanDocument.__annotations__, *made}
    assert "root " in process("-C", workspace, "watch", "--once").out


def test_status_line_is_drawn_over_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    line = StatusLine(live=True)
    line("scanning")
    line("current, 12 folders, 3 batches")
    line("current, 12 folders, 3 batches")
    line.close()
    shown = capsys.readouterr().err
    assert shown == "\r\x1b[Kscanning\r\x1b[Kcurrent, 12 folder…\n"


def test_status_line_elsewhere_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(live=False)
    line("scanning")
    line("bad \x1b[2J name")
    line.close()
    assert capsys.readouterr().err == "scanning\nbad \\x1b[2J name\n"


def test_json_is_one_document_whatever_the_locale(scanned: Path, started: Any) -> None:
    (scanned / "Füße 足").write_text("x")
    ran = started(
        "-C", scanned, "status", "--json", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    assert json.loads(ran.out)["changes"]["added"] == ["Füße 足"]
    text = started("-C", scanned, "status", PYTHONIOENCODING="ascii")
    assert "F\\xfc\\xdfe \\u8db3" in text.out
