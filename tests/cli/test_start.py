"""Starting up: what is imported, what every command line has in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from indexer import __version__
from indexer.cli.group import COMMANDS, cli
from indexer.cli.reference import every_command
from indexer.cli.thin import served_folder
from indexer.engine.tree.scan import scan
from indexer.engine.workspace import Engine

HEAVY = ("_duckdb", "rich", "starlette", "uvicorn", "watchdog", "tiktoken", "indexer.engine")


def modules_after(*arguments: str, cwd: Path) -> set[str]:
    """The modules that a command line has loaded when it ends."""
    program = (
        "import os, sys\n"
        # A command leaves without the interpreter's own farewell.
        "def leave(code): print('MODULES', *sys.modules, flush=True)\n"
        "os._exit = leave\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "from indexer.cli.main import main\n"
        "main()\n"
        "leave(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.partition("MODULES")[2].split())


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(argument: str, tmp_path: Path) -> None:
    loaded = modules_after(argument, cwd=tmp_path)
    assert "indexer.cli.main" in loaded
    assert not [name for name in loaded if name.startswith(HEAVY)]


def test_version_alone_does_without_the_option_parser(tmp_path: Path) -> None:
    assert "click" not in modules_after("--version", cwd=tmp_path)


def test_a_plain_service_is_known_before_its_line_is_parsed(
    scanned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scanned)
    for line in (
        "watch", "--quiet watch", "-C . watch", "--json -C . --quiet watch --idle-exit 10m",
        "watch --web", "watch --web 8000 --open --quiet",
    ):  # fmt: skip
        assert served_folder(line.split()) == str(scanned), line


def test_every_other_line_is_left_to_the_parser(
    scanned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scanned)
    for line in (
        "", "scan", "--quiet", "-C watch", "search watch", "watch --once", "watch --background",
        "watch --print-unit", "watch --help", "watch -h", "watch -C .", "watch -C.", "-C. watch",
        "watch --idle-exit=10m", "watch --no-such-option", "--no-such-option watch",
    ):  # fmt: skip
        assert served_folder(line.split()) is None, line


def test_a_service_looks_before_its_line_is_parsed(scanned: Path) -> None:
    """And a line that turns out to be none leaves nothing behind."""
    with Engine(scanned) as engine:
        scan(engine)
    program = (
        "import os, sys\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "from indexer.service.ahead import Ahead\n"
        "begin = Ahead.begin\n"
        "def told(root):\n"
        "    begun = begin(root)\n"
        "    print('begun', begun and begun.owned.root, 'click' in sys.modules, flush=True)\n"
        "    return begun\n"
        "Ahead.begin = told\n"
        "sys.argv[1:] = ['watch', '--idle-exit', 'no time']\n"
        "from indexer.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=scanned, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stdout.splitlines() == [f"begun {scanned} False"]
    assert "--idle-exit" in done.stderr
    Engine(scanned, wait=0).close()


def test_commands_off_a_terminal_never_load_rich(scanned: Path) -> None:
    for name in ("scan", "status"):
        loaded = modules_after(name, cwd=scanned)
        assert "_duckdb" in loaded
        assert not [each for each in loaded if each.startswith(("rich", "starlette"))]


def test_one_edit_loads_neither_models_nor_what_starts_processes(scanned: Path) -> None:
    (scanned / "src" / "main.py").write_text("def main() -> None:\n    return None\n")
    loaded = modules_after("watch", "--once", cwd=scanned)
    assert "tree_sitter_python._binding" in loaded
    rare = ("indexer.generators.llm.", "indexer.engine.models.calls", "subprocess", "pickle")
    assert not [each for each in loaded if each.startswith((*rare, "importlib.resources"))]


def test_beside_a_service_no_command_loads_the_database(service: object, scanned: Path) -> None:
    lines = (
        ["get-node", "src"], ["list-frames", "src"], ["get-head", "src"], ["regenerate"],
        ["agent", "add", "alice", "--role", "writer"], ["invalidate", "src"], ["compact"],
        ["put-frame", "src", "README.md", "--type", "note", "--agent", "alice"],
        ["session", "new", "talk"], ["session", "list"], ["session", "render", "talk"],
    )  # fmt: skip
    for line in lines:
        loaded = modules_after(*line, cwd=scanned)
        assert "indexer.service.client" in loaded, line
        heavy = ("_duckdb", "duckdb", "rich", "indexer.sessions")
        assert not [each for each in loaded if each.startswith(heavy)], line


def test_version_is_told_in_both_forms(process: Any) -> None:
    assert process("--version").out == f"merkle {__version__}\n"
    assert process("--version", "--json").json == {"version": __version__}
    assert process("--json", "--version").json == {"version": __version__}


def test_help_lists_every_command_with_its_own_first_sentence(merkle: Any) -> None:
    shown = merkle("--help").out
    context = click.Context(cli)
    for name, about in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert name in shown
        assert about.split(":")[0].split(",")[0].rstrip(".") in " ".join(
            (command.help or "").split()
        )


EVERY = {name: command for name, command, _ in every_command()}


@pytest.mark.parametrize("name", EVERY)
def test_every_command_explains_itself_with_an_example(name: str, merkle: Any) -> None:
    ran = merkle(*name.split(), "--help")
    assert ran.code == 0
    assert "Example" in ran.out
    assert f"merkle {name}" in ran.out
    assert all(option in ran.out for option in ("-C DIR", "--json", "--quiet", "--help"))


@pytest.mark.parametrize("name", EVERY)
def test_every_option_is_documented(name: str) -> None:
    for option in EVERY[name].params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.opts}"


@pytest.mark.usefixtures("kept_open")
def test_global_options_stand_before_and_after_the_command(
    scanned: Path, merkle: Any, tmp_path: Path
) -> None:
    before = merkle("-C", scanned, "--json", "log").json
    after = merkle("log", "-C", scanned, "--json").json
    mixed = merkle("--json", "log", "-C", scanned).json
    assert before == after == mixed
    assert merkle("-C", tmp_path, "log", "-C", scanned, "--json").json == before


def test_the_nearest_workspace_is_found_from_below(scanned: Path, started: Any) -> None:
    assert started("status", "--json", cwd=scanned / "src" / "deep").json["workspace"] == str(
        scanned
    )


def test_quiet_says_nothing_when_all_is_well(scanned: Path, merkle: Any, kept_open: Any) -> None:
    for line in (
        ["init"], ["scan"], ["status"], ["validate"], ["watch", "--once"], ["regenerate"],
        ["agent", "add", "alice", "--role", "writer"], ["compact"], ["repair"],
        ["put-frame", "src", str(scanned / "README.md"), "--type", "note", "--agent", "alice"],
        ["invalidate", "src"], ["synthesize", "src", "--type", "outline"],
        ["export", str(scanned.parent / "a.pack")], ["import", str(scanned.parent / "a.pack")],
    ):  # fmt: skip
        if line == ["repair"]:
            # It is for an index that nobody has open.
            kept_open.close()
        ran = merkle("--quiet", "-C", scanned, *line)
        assert (ran.code, ran.out, ran.err) == (0, "", ""), line


def test_no_command_is_wrong_use(merkle: Any) -> None:
    ran = merkle()
    assert ran.code == 2
    assert "Look around:" in ran.err
    assert merkle("--json").json["error"]["code"] == "usage"


def test_colours_only_where_wanted(
    scanned: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in merkle("-C", scanned, "status").out
    assert "\x1b[" in merkle("-C", scanned, "status", colour=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in merkle("-C", scanned, "status", colour=True).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, merkle: Any) -> None:
    ran = merkle("completion", shell)
    assert ran.code == 0
    assert "_MERKLE_COMPLETE" in ran.out
    assert merkle("completion", shell, "--json").json["script"].strip() == ran.out.strip()


def test_completion_knows_commands_and_options(process: Any) -> None:
    environment = {"_MERKLE_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    assert "plain,status" in process(COMP_WORDS="merkle st", **environment).out
    environment["COMP_CWORD"] = "2"
    assert "plain,--why-ignored" in process(COMP_WORDS="merkle status --", **environment).out
    assert process(COMP_WORDS="merkle get-node REA", **environment).out == "file,REA\n"
