"""Completion in the real shells: what they offer, and what is installed and taken out."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`merkle` on the search path, and a home of the test's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "merkle"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m indexer.cli "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    (tmp_path / "home").mkdir()


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


class Typed:
    """An interactive shell in a terminal of its own."""

    def __init__(self, line: list[str], folder: Path) -> None:
        self.seen = ""
        self.process, self._terminal = pty.fork()
        if not self.process:
            os.chdir(folder)
            os.environ.update(TERM="dumb", PS1="$ ", PROMPT="$ ")
            os.execvp(line[0], line)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < deadline, (text, self.seen)
            if select.select([self._terminal], [], [], 1)[0]:
                self.seen += os.read(self._terminal, 1 << 16).decode(errors="replace")

    def close(self) -> None:
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)
        os.close(self._terminal)


@contextlib.contextmanager
def interactive(line: list[str], folder: Path) -> Iterator[Typed]:
    shell = Typed(line, folder)
    try:
        yield shell
    finally:
        shell.close()


@pytest.mark.parametrize(
    ("shell", "line"), [("bash", ["bash", "--noprofile", "-i"]), ("zsh", ["zsh", "-i"])]
)
def test_a_shell_completes_commands_and_paths(
    shell: str, line: list[str], program: None, scanned: Path, merkle: Any
) -> None:
    needs(shell)
    (scanned / "Two words.txt").write_text("x")
    (scanned / "$(touch pwned)").write_text("x")
    assert merkle("completion", "install", shell).code == 0
    with interactive(line, scanned) as typed:
        typed.type("echo ready-$((40 + 2))\n")
        typed.until("ready-42")
        typed.type("echo merkle-get\b\b\b\b\b\b\b\b\b\b\x15merkle get-nod\t")
        typed.until("get-node ")
        typed.type("REA\t")
        typed.until("README.md")
        typed.type("\x15merkle show Two\t")
        typed.until("Two\\ words.txt")
        typed.type("\x15merkle show \\$\t")
        typed.until("pwned\\)")
    assert not (scanned / "pwned").exists()


def test_fish_completes_commands_paths_and_names(
    program: None, service: object, scanned: Path, merkle: Any
) -> None:
    needs("fish")
    assert merkle("-C", scanned, "agent", "add", "alice", "--role", "writer").code == 0
    assert merkle("-C", scanned, "session", "new", "review").code == 0
    assert merkle("completion", "install", "fish").code == 0

    def offered(typed: str) -> list[str]:
        done = subprocess.run(
            ["fish", "-c", f"complete -C '{typed}'"],
            cwd=scanned, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    assert offered("merkle get-nod") == ["get-node"]
    assert offered("merkle get-node REA") == ["README.md"]
    assert offered("merkle get-node . --agent al") == ["alice"]
    assert offered("merkle session show rev") == ["review"]
    assert "@-0" in offered("merkle diff @")


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_installed_once_and_taken_out_without_a_trace(
    shell: str, program: None, tmp_path: Path, merkle: Any
) -> None:
    home = tmp_path / "home"
    loader = home / f".{shell}rc"
    loader.write_text("export A=1")
    first = merkle("completion", "install", shell, "--json").json
    assert first["installed"]
    assert all(Path(each).exists() for each in first["files"])
    assert merkle("completion", "install", shell, "--json").json["files"] == []
    assert merkle("completion", "install", shell).out.startswith("nothing to do")
    assert loader.read_text().count("merkle") == (0 if shell == "fish" else 3)
    merkle("completion", "install", shell, "--uninstall")
    assert loader.read_text() in ("export A=1", "export A=1\n")
    assert not [each for each in home.rglob("*merkle*") if each.is_file()]


def test_a_folder_without_an_index_is_left_alone(
    program: None, tmp_path: Path, process: Any
) -> None:
    environment = {"_MERKLE_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    ran = process(COMP_WORDS="merkle get-node . --agent a", cwd=tmp_path, **environment)
    assert (ran.code, ran.out.strip(), ran.err) == (0, "", "")
    assert not (tmp_path / ".merkle").exists()
