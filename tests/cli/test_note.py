"""`merkle note` and `merkle notes`: a person's notes from the first word to a file of them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from indexer.service.person import as_id, person

pytestmark = pytest.mark.usefixtures("kept_open")

CODE = "class Gauge:\n    def read(self):\n        return 1\n"


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A person whom git knows, and no other of its settings."""
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Ada Lovelace\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


def test_a_note_from_the_first_word_to_its_end(anywhere: Path, merkle: Any) -> None:
    at = ("-C", anywhere)
    (anywhere / "src" / "main.py").write_text(CODE)
    first = merkle(*at, "note", "src/main.py::Gauge.read", "Counts", "from one.")
    assert first.code == 0, first.err
    assert " on src/main.py::Gauge.read, line 2, as ada-lovelace (registered now" in first.out
    assert first.out.rstrip().endswith(": fresh")
    piped = merkle(*at, "--json", "note", "src", stdin="A folder.\n").json
    assert (piped["agent"], piped["registered"], piped["path"]) == ("ada-lovelace", False, "src")

    (anywhere / "src" / "main.py").write_text("# above\n" + CODE.replace("1", "2"))
    listed = merkle(*at, "notes").out
    assert listed.splitlines()[0] == (
        "src/main.py::Gauge.read, line 3  stale (the text of Gauge.read changed)"
    )
    assert "    Counts from one." in listed.splitlines()
    (stale,) = merkle(*at, "--json", "notes", "src", "--stale").json["notes"]
    assert {"frame_id", "path", "symbol", "line", "agent", "freshness", "because",
            "content"} <= stale.keys()  # fmt: skip
    for asked in (("get-node", "src/main.py"), ("list-frames", "src/main.py"),
                  ("get-frame", stale["frame_id"])):  # fmt: skip
        assert "::Gauge.read, line 3" in merkle(*at, *asked).out

    confirmed = merkle(*at, "note", "--still-true", stale["frame_id"][:10])
    assert "takes the place of" in confirmed.out
    assert confirmed.out.rstrip().endswith(": fresh")
    (now,) = merkle(*at, "--json", "notes", "src/main.py::read").json["notes"]
    withdrawn = merkle(*at, "note", "--withdraw", now["frame_id"][:10])
    assert withdrawn.out.startswith(f"withdrew {now['frame_id'][:12]} on src/main.py::Gauge.read")
    assert merkle(*at, "--json", "notes", "src/main.py").json["found"] == 0


def test_the_end_of_a_path_is_enough(scanned: Path, merkle: Any) -> None:
    deep = scanned / "src" / "deep" / "only_here.py"
    deep.write_text("def f():\n    return 1\n")
    assert merkle("-C", scanned, "scan").code == 0
    said = merkle("-C", scanned, "note", "only_here.py::f", "It is one.", "--json")
    assert said.json["path"] == "src/deep/only_here.py"
    assert "only_here.py is taken as src/deep/only_here.py" in said.err
    assert (
        merkle("-C", scanned, "notes", "only_here.py", "--json").json["notes"][0]["symbol"] == "f"
    )


def test_notes_go_through_a_file(scanned: Path, merkle: Any, tmp_path: Path) -> None:
    at = ("-C", scanned)
    assert "no notes" in merkle(*at, "notes").out
    merkle(*at, "note", "README.md", "Start here.")
    file = tmp_path / "merkle.notes"
    assert merkle(*at, "notes", "export", file).out.startswith("wrote 1 note to ")
    again = merkle(*at, "notes", "--json", "import", file)
    assert (again.json["notes"], again.json["added"]) == (1, 0)


def test_what_is_no_note_is_refused(scanned: Path, merkle: Any) -> None:
    import re

    for line, said in (
        (("note",), "give NODE"),
        (("note", "src", "x", "--withdraw", "abcdef"), "give NODE"),
        (("note", "src", ""), "the content is empty"),
        (("note", "src"), "the content is empty"),
        (("note", "nowhere", "x"), "nowhere"),
        (("note", "--withdraw", "abcdef"), "there is no agent|no frame"),
    ):
        ran = merkle("-C", scanned, *line)
        assert ran.code == 2, line
        assert re.search(said, ran.err), ran.err
        assert merkle("-C", scanned, "--json", "agent", "list").json["agents"] == [], line


def test_an_editor_is_opened_on_a_terminal(
    scanned: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from indexer.cli import note

    editor = tmp_path / "editor"
    editor.write_text(f"#!{sys.executable}\nimport sys\nf = open(sys.argv[1], 'r+')\n"
                      "old = f.read()\nf.seek(0)\nf.write('Said.\\n' + old)\n")  # fmt: skip
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("os.path.getmtime", lambda path: os.stat(path).st_mtime)
    with click.Context(note.command):
        assert note._said("src", ()) == "Said.\n"


def test_who_is_at_the_keyboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert person(tmp_path) == "ada-lovelace"
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "user.name", "Zoë"], check=True)
    assert person(tmp_path) == "zoe"
    monkeypatch.setenv("MERKLE_AGENT", "ci/bot")
    assert person(tmp_path) == "ci/bot"
    monkeypatch.delenv("MERKLE_AGENT")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("LOGNAME", "Grace H.")
    assert person(tmp_path) == "grace-h"


@pytest.mark.parametrize(
    ("name", "made"),
    [("Åsa  Öberg", "asa-oberg"), ("merkle:outline", "merkle-outline"), ("王伟", ""),
     ("--x\n\x1b", "x"), ("a" * 500, "a" * 64), ("O'Neil, J.", "o-neil-j")],
)  # fmt: skip
def test_a_name_becomes_a_legal_id(name: str, made: str) -> None:
    assert as_id(name) == made
