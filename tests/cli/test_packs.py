"""`export`, `import` and `compact`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("kept_open")

NOTE = ["--type", "note", "--agent", "alice"]


def test_a_pack_spares_another_clone_the_work(
    peopled: Path, merkle: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert merkle("-C", peopled, "put-frame", "src", "-", *NOTE, stdin="noted").code == 0
    wrote = merkle("-C", peopled, "--json", "export", "team.pack")
    assert wrote.code == 0
    # A name is of the folder where the command runs, not of the workspace.
    assert wrote.json["file"] == str(tmp_path / "team.pack")
    assert wrote.json["records"] > 3

    clone = tmp_path / "clone"
    shutil.copytree(peopled, clone, ignore=shutil.ignore_patterns(".merkle"))
    assert merkle("-C", clone, "scan").code == 0
    took = merkle("-C", clone, "--json", "import", "--trust", "team.pack")
    assert took.code == 0
    assert took.json["added"] == took.json["records"] > 3
    assert merkle("-C", clone, "--json", "import", "--trust", "team.pack").json["added"] == 0
    made = merkle("-C", clone, "--json", "regenerate").json
    assert (made["regenerated"], made["reused"]) == (0, 7)
    (note,) = merkle("-C", clone, "--json", "get-node", "src", "--type", "note").json["frames"]
    assert (note["content"], note["freshness"]) == ("noted", "fresh")


def test_a_part_of_the_workspace(peopled: Path, merkle: Any, tmp_path: Path) -> None:
    whole = merkle("-C", peopled, "--json", "export", tmp_path / "whole.pack").json
    part = merkle("-C", peopled, "--json", "export", tmp_path / "part.pack", "src").json
    assert part["records"] < whole["records"]
    assert merkle("-C", peopled, "export", tmp_path / "no.pack", "nowhere").code == 2
    assert not (tmp_path / "no.pack").exists()


def test_packs_through_a_service(service: object, scanned: Path, process: Any) -> None:
    ran = process("-C", scanned, "export", "a.pack")
    assert ran.code == 0
    assert f"to {scanned.parent}/a.pack" in ran.out
    assert ", 0 of them new" in process("-C", scanned, "import", "a.pack").out
    assert "dropped 0 bodies" in process("-C", scanned, "compact").out


def test_what_is_no_pack_is_refused(peopled: Path, merkle: Any, tmp_path: Path) -> None:
    (tmp_path / "x.pack").write_bytes(b"\x1b[31m no pack")
    assert merkle("-C", peopled, "import", tmp_path / "x.pack").code == 2
    assert merkle("-C", peopled, "import", tmp_path / "absent.pack").code == 2
    for name in ("import", "export"):
        assert merkle("-C", peopled, name, "-").code == 2


def test_a_pack_with_a_secret_is_taken_in_when_told_that_it_is_none(
    peopled: Path, merkle: Any, tmp_path: Path
) -> None:
    secret = "postgres://app:hunter2@db/app"
    put = ["-C", peopled, "put-frame", "src", "-", *NOTE, "--allow-secrets"]
    assert merkle(*put, stdin=secret).code == 0
    assert merkle("-C", peopled, "export", tmp_path / "a.pack").code == 0
    clone = tmp_path / "clone"
    shutil.copytree(peopled, clone, ignore=shutil.ignore_patterns(".merkle"))
    assert merkle("-C", clone, "scan").code == 0
    ran = merkle("-C", clone, "--json", "import", tmp_path / "a.pack")
    assert (ran.code, ran.json["error"]["code"]) == (2, "pack_content")
    assert "the frame in the pack looks like it holds a secret" in ran.json["error"]["message"]
    assert merkle("-C", clone, "import", tmp_path / "a.pack", "--allow-secrets").code == 0


def test_compact_drops_old_generated_bodies_only(peopled: Path, merkle: Any) -> None:
    assert merkle("-C", peopled, "put-frame", "README.md", "-", *NOTE, stdin="old").code == 0
    (peopled / "README.md").write_text("# Ebb tables\n")
    assert merkle("-C", peopled, "watch", "--once").code == 0
    assert merkle("-C", peopled, "put-frame", "README.md", "-", *NOTE, stdin="new").code == 0
    assert merkle("-C", peopled, "--json", "compact").json["dropped"] == 0
    assert merkle("-C", peopled, "--json", "compact", "--keep", "0s").json["dropped"] > 0
    frames = merkle("-C", peopled, "--json", "list-frames", "README.md").json["frames"]
    assert all(each["has_body"] for each in frames if each["type"] == "note")
    assert not all(each["has_body"] for each in frames)
    assert "body dropped" in merkle("-C", peopled, "list-frames", "README.md").out
    for wrong in ("soon", "-3d", "99999d"):
        assert merkle("-C", peopled, "compact", f"--keep={wrong}").code == 2
