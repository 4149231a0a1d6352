"""`watch --print-unit`: files that systemd and launchd read as they were meant."""

from __future__ import annotations

import configparser
import os
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.units import LAUNCHD, SYSTEMD, unit_name, unit_text, watch_line

NAMES = [
    "plain", "with space", "per%cent %h %%", "dollar $HOME ${X} $$", 'quo"te', "it's",
    "back\\slash", "semi;colon #hash", "umläut ☃", "tab\there", "new\nline",
    " edge ", "trailing\\",
]  # fmt: skip
RAW = b"not-utf8-\xff"


def words(line: str) -> list[str]:
    """A command line as systemd takes it apart: quotes, C escapes, specifiers, then variables."""
    found = []
    for place, quoted in enumerate(re.findall(r'"((?:[^"\\]|\\.)*)"', line)):
        unescaped = re.sub(
            rb"\\x([0-9a-f]{2})", lambda m: bytes((int(m.group(1), 16),)), quoted.encode()
        )
        assert b"%" not in unescaped.replace(b"%%", b"")
        word = unescaped.replace(b"%%", b"%")
        if place:
            assert b"$" not in word.replace(b"$$", b"")
            word = word.replace(b"$$", b"$")
        found.append(os.fsdecode(word))
    return found


def read_unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    # How configparser keeps case.
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


@pytest.mark.parametrize("name", [*NAMES, os.fsdecode(RAW)])
def test_a_unit_starts_the_same_command(name: str) -> None:
    root = Path("/home/somebody") / name
    unit = read_unit(unit_text(root, SYSTEMD, 600.0))
    assert unit.sections() == ["Unit", "Service", "Install"]
    line = unit["Service"]["ExecStart"]
    assert line.isascii()
    assert words(line) == watch_line(root, 600.0)
    assert words(line)[-6:] == ["-C", str(root), "watch", "--quiet", "--idle-exit", "600s"]
    assert "%" not in unit["Unit"]["Description"].replace("%%", "")


@pytest.mark.parametrize("name", [name for name in NAMES if name.isprintable() or "\t" in name])
def test_a_launch_agent_starts_the_same_command(name: str) -> None:
    root = Path("/Users/somebody") / name
    agent = plistlib.loads(unit_text(root, LAUNCHD).encode())
    assert agent["ProgramArguments"] == watch_line(root)
    assert agent["Label"] + ".plist" == unit_name(root, LAUNCHD)
    assert agent["RunAtLoad"] is True


def test_a_launch_agent_that_cannot_be_written_is_refused(tmp_path: Path, process: Any) -> None:
    for raw in (b"bell\x07", RAW):
        folder = os.fsencode(tmp_path) + b"/" + raw
        os.mkdir(folder)
        ran = process("-C", folder, "watch", "--print-unit", "launchd", "--json")
        assert (ran.code, ran.json["error"]["code"]) == (2, "usage")


def test_every_workspace_has_a_name_of_its_own() -> None:
    names = {unit_name(Path("/w") / name, SYSTEMD) for name in NAMES}
    assert len(names) == len(NAMES)
    assert all(re.fullmatch(r"merkle-[0-9a-f]{12}\.service", name) for name in names)


def test_the_command_in_it_runs(scanned: Path, merkle: Any) -> None:
    unit = read_unit(merkle("-C", scanned, "watch", "--print-unit", "systemd").out)
    program, *rest = words(unit["Service"]["ExecStart"])
    # The line itself, up to the word that would serve.
    line = [program, *rest[: rest.index("watch")], "status", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert str(scanned) in done.stdout


def test_which_one_is_printed(scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "watch", "--print-unit", "--json")
    assert ran.json["manager"] == ("launchd" if sys.platform == "darwin" else "systemd")
    assert ran.json["unit"] == merkle("-C", scanned, "watch", "--print-unit").out
    assert merkle("-C", scanned, "watch", "--print-unit", "cron").code == 2
    assert merkle("-C", scanned, "watch", "--print-unit", "--once").code == 2
    assert not (scanned / ".merkle" / "socket").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_has_nothing_to_say_against_it(tmp_path: Path, runtime_dir: Path) -> None:
    for name in NAMES:
        unit = tmp_path / unit_name(tmp_path / name, SYSTEMD)
        unit.write_text(unit_text(tmp_path / name, SYSTEMD))
        done = subprocess.run(
            ["systemd-analyze", "--user", "--man=no", "verify", str(unit)],
            capture_output=True, text=True, timeout=60,
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime_dir)},
        )  # fmt: skip
        if "Failed to initialize manager" in done.stderr:
            pytest.skip(done.stderr.strip())
        told = [line for line in done.stderr.splitlines() if unit.name in line]
        assert (done.returncode, told) == (0, [])
