"""Names made to confuse: they round-trip, and never reach a terminal as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from indexer.core.paths import is_unsafe
from tests.support.processes import Forked

NAMES = {
    b"line\nbreak": "line\\x0abreak",
    b"esc\x1b[31m": "esc\\x1b[31m",
    b"not-utf8-\xff\xfe": "not-utf8-\\xff\\xfe",
    b"back\\slash": "back\\x5cslash",
    "bidi-\u202egpj".encode(): "bidi-\u202egpj",
    "csi-\x9b31m".encode(): "csi-\\xc2\\x9b31m",
    "joined-\u200d\ufeff\u2066".encode(): "joined-\u200d\ufeff\u2066",
    "tag-\U000e0041".encode(): "tag-\U000e0041",
    b"quote-\"'><b>&": "quote-\"'><b>&",
    "nfc-\u00e9".encode(): "nfc-\u00e9",
    "nfd-e\u0301".encode(): "nfd-e\u0301",
    b"-leading": "-leading",
    b" space ": " space ",
    b"x" * 255: "x" * 255,
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A workspace full of such names, in a folder with another."""
    root = tmp_path / "work\u202e\x1b[2J\nx"
    root.mkdir()
    for name in NAMES:
        (root / os.fsdecode(name)).write_bytes(name)
    return root


def hidden_in(text: str) -> set[str]:
    """What no surface may show as it is: controls, bidi and format marks, separators."""
    return {char for char in text if is_unsafe(char) and char not in "\n\t"}


COMMANDS = (
    ["status"], ["status", "--tree"], ["scan"], ["status", "--tree"], ["log"],
    ["diff", "@-0", "@-0"], ["sql", "SELECT * FROM nodes"], ["validate", "--content"],
    ["validate", "--content", "--format", "github"], ["validate", "--format", "junit"],
    ["config", "--origin"], ["doctor"], ["init"], ["regenerate", "--plan"], ["watch", "--once"],
    ["get-node", "."], ["list-frames", "."], ["get-head", "."], ["explain", "."],
    ["invalidate", "."], ["status"], ["synthesize", ".", "--type", "outline"], ["agent", "list"],
    ["agent", "add", "alice", "--role", "writer"], ["export", "all.pack"], ["import", "all.pack"],
    ["lock"], ["validate", "--locked"], ["report", "-"], ["report", "-", "--format", "html"],
    ["prove", "."],
    ["repair"], ["compact"], ["compose", "--record"], ["compose", "--format", "messages"],
    ["compose", "--query", "leading"],
)  # fmt: skip


@pytest.fixture
def unreadable_name(tmp_path: Path) -> Path:
    """A workspace in a folder whose name is not UTF-8."""
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/work-\xff\xfe"))
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("def a():\n    pass\n")
    return root


def test_a_workspace_whose_own_name_is_not_utf8(unreadable_name: Path, process: Any) -> None:
    for line in (
        "scan", "watch --once", "status", "validate --content", "compose --query a", "doctor",
        "export all.pack", "import all.pack", "compact", "repair", "report -", "watch --once",
    ):  # fmt: skip
        ran = process("-C", os.fsencode(unreadable_name), *line.split())
        assert (ran.code, ran.err) == (0, ""), line
    shown = process("-C", os.fsencode(unreadable_name), "--json", "status").json
    assert shown["workspace"].endswith("/work-\\xff\\xfe")
    assert (shown["state"], shown["frames"]["fresh"]) == ("current", shown["frames"]["total"])


def test_a_service_in_a_folder_whose_name_is_not_utf8(unreadable_name: Path, process: Any) -> None:
    root = os.fsencode(unreadable_name)
    assert process("-C", root, "scan").code == 0
    running = Forked(
        [sys.executable, "-m", "indexer.cli", "-C", root, "watch"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while not (unreadable_name / ".merkle" / "socket").exists():
            assert running.poll() is None, running.communicate()
            time.sleep(0.02)
        (unreadable_name / "b.py").write_text("def b():\n    pass\n")
        status = process("-C", root, "--json", "status").json
        assert status["service"]["pid"] == running.pid
        assert (status["state"], status["files"]) == ("current", 2)
        assert process("-C", root, "agent", "add", "ann", "--role", "writer").code == 0
        assert process("-C", root, "repair").code == 6
    finally:
        running.kill()
        running.communicate()
    # What it had acknowledged is there, from its WAL too.
    assert "ann" in process("-C", root, "agent", "list").out
    assert process("-C", root, "validate", "--content").code == 0
    assert process("-C", root, "--json", "status").json["files"] == 2


def test_nothing_reaches_the_terminal_unescaped(hostile: Path, process: Any) -> None:
    for line in COMMANDS:
        ran = process("-C", os.fsencode(hostile), *line)
        for text in (ran.out, ran.err):
            assert hidden_in(text) == set(), line
        assert "Traceback" not in ran.err
    ran = process("-C", os.fsencode(hostile), "status", "--tree")
    assert ran.code == 0
    for shown in ("line\\x0abreak", "esc\\x1b[31m", "bidi-\\u202egpj", "not-utf8-\\xff"):
        assert shown in ran.out


def test_json_is_utf8_and_names_round_trip(
    hostile: Path, process: Any, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile.parent)
    for line in COMMANDS:
        if "--format" not in line and line[0] != "report":
            ran = merkle("-C", hostile, *line, "--json")
            assert isinstance(ran.json, dict)
            assert hidden_in(ran.out) == set(), line
    tree = process("-C", os.fsencode(hostile), "status", "--tree", "--json").json
    assert {node["path"] for node in tree["tree"]} == {"", *NAMES.values()}
    assert tree["workspace"] == str(hostile)


def test_differences_with_such_names_are_escaped_too(hostile: Path, process: Any) -> None:
    assert process("-C", os.fsencode(hostile), "scan").code == 0
    for name in NAMES:
        (hostile / os.fsdecode(name)).unlink()
    (hostile / os.fsdecode(b"new\x1b]0;title\x07")).write_text("x")
    ran = process("-C", os.fsencode(hostile), "status")
    assert ran.code == 1
    assert "new\\x1b]0;title\\x07" in ran.out
    assert "\x1b" not in ran.out
    assert process("-C", os.fsencode(hostile), "scan").code == 0
    for form in ("text", "markdown"):
        out = process("-C", os.fsencode(hostile), "diff", "@-1", "@-0", "--format", form).out
        assert not {"\x1b", "\u202e", "\x07"} & set(out)


@pytest.mark.parametrize(
    "chosen", [slice(2, None, 3), pytest.param(slice(None), marks=pytest.mark.soak)], ids=str
)
def test_a_name_on_the_command_line_may_be_any_bytes(
    hostile: Path, process: Any, chosen: slice
) -> None:
    process("-C", os.fsencode(hostile), "scan")
    # Bytes that are no UTF-8 and a dash in front are among the few.
    for name, text in [*NAMES.items()][chosen]:
        line = ["status", "--json", b"--why-ignored=" + name]
        found = process("-C", os.fsencode(hostile), *line).json
        assert found["path"] == text
        assert found["ignored"] is False


def test_error_messages_are_escaped(hostile: Path, process: Any) -> None:
    for line in ([b"evil\x1b[31m"], ["scan", "--evil\x1b[31m"], ["diff", "evil\x1b[31m\n", "@-0"]):
        ran = process("-C", os.fsencode(hostile), *line)
        assert ran.code in (2, 5)
        assert "\x1b" not in ran.err
        assert all(part.startswith(("error: ", "hint: ")) for part in ran.err.splitlines())


def test_a_workspace_in_a_folder_that_is_not_utf8_is_valid_json(
    tmp_path: Path, process: Any
) -> None:
    folder = os.fsencode(tmp_path) + b"/not-utf8-\xff"
    os.mkdir(folder)
    assert "/not-utf8-\\" in process("-C", folder, "status").out
    for line in (["status"], ["config"], ["doctor"], ["init"]):
        document = process("-C", folder, "--json", *line).json
        named = document.get("workspace") or document["checks"][7]["message"]
        assert "/not-utf8-\\xff" in named


def test_files_that_are_written_or_piped_are_well_formed(hostile: Path, process: Any) -> None:
    at = ("-C", os.fsencode(hostile))
    assert process(*at, "scan").code == 0
    (hostile / "nfc-\u00e9").write_text("moved on")
    page = process(*at, "report", "-", "--format", "html").out
    known = {"charset", "class", "content", "lang", "name", "href", "title", "aria-label", "role"}

    class Attributes(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.update(name for name, _ in attrs)

    found: set[str] = set()
    Attributes().feed(page)
    assert not {name for name in found if name.startswith("on") or "<" in name or '"' in name}
    assert known & found
    ElementTree.fromstring(process(*at, "validate", "--content", "--format", "junit").out)
    github = process(*at, "validate", "--content", "--format", "github").out
    assert all(line.startswith(("::", "merkle validate: ")) for line in github.splitlines())
    for line in ("report -", "validate --content --format junit"):
        assert hidden_in(process(*at, *line.split()).out) == set()


def test_completion_hands_no_name_of_ours_to_the_shell(hostile: Path, process: Any) -> None:
    """The shell looks for files itself, with its own quoting."""
    for shell in ("bash", "zsh", "fish"):
        # For fish it is what was typed so far, for the others the number of the word.
        word = "" if shell == "fish" else "2"
        words = {"COMP_WORDS": "merkle get-node ", "COMP_CWORD": word, "COMP_TYPE": "9"}
        ran = process(cwd=hostile, **words, _MERKLE_COMPLETE=f"{shell}_complete")
        # That a file is wanted, and nothing else.
        assert (ran.code, ran.out.strip(" ,_\n"), ran.err) == (0, "file", ""), shell
        assert hidden_in(ran.out) == set(), shell
        assert not any(name in ran.out for name in ("bidi", "csi", "quote"))
