"""`merkle mcp install` and `uninstall`: the entry in, the entry out, not a byte of the rest."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indexer.cli.group import cli
from indexer.mcp.clients import CLIENTS
from indexer.mcp.install import ChangedError, find_place, install, uninstall

Run = Callable[..., Any]
PLACES = [(name, scope) for name, client in CLIENTS.items() for scope in client.scopes]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def run(root: Path, home: Path) -> Run:
    """`merkle mcp …` in the project, with --json."""

    def call(*arguments: str, code: int = 0) -> Any:
        line = ["-C", str(root), "--json", "mcp", *arguments]
        ran = CliRunner().invoke(cli, line)
        assert ran.exit_code == code, ran.output
        return json.loads(ran.stdout)

    return call


def test_a_folder_that_is_no_text_is_entered_nowhere(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    line = ["-C", str(folder), "--json", "mcp", "install", "cursor", "--scope", "user"]
    ran = CliRunner().invoke(cli, line)
    assert ran.exit_code == 2, ran.output
    assert json.loads(ran.stdout)["error"]["code"] == "uneditable"
    assert not list(home.rglob("*.json"))


def entries(file: Path) -> Any:
    text = file.read_text()
    return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_in_and_out_again(run: Run, tmp_path: Path, client: str, scope: str) -> None:
    told = run("install", client, "--scope", scope, "--agent", "alice")
    file = Path(told["file"])
    assert told["changed"]
    assert file.read_text() == told["snippet"]
    found = entries(file)
    while "command" not in found:
        ((key, found),) = found.items()
    assert key == told["name"] == "merkle"
    assert found["args"][-3:] == ["mcp", "--agent", "alice"]
    again = run("install", client, "--scope", scope, "--agent", "alice")
    assert again == {**told, "changed": False, "agent_made": False}
    other = run("install", client, "--scope", scope)
    assert other["changed"]
    assert "alice" not in file.read_text()
    gone = run("uninstall", client, "--scope", scope)
    assert gone["changed"]
    # Besides the index, which the agent was registered in.
    assert not [name for name in everything(tmp_path) if "/.merkle/" not in f"/{name}"]
    assert run("uninstall", client, "--scope", scope)["changed"] is False


PLACED = {
    ("claude-code", "project"): (".mcp.json", "mcpServers"),
    ("claude-code", "user"): ("~/.claude.json", "mcpServers"),
    ("cursor", "project"): (".cursor/mcp.json", "mcpServers"),
    ("cursor", "user"): ("~/.cursor/mcp.json", "mcpServers"),
    ("vscode", "project"): (".vscode/mcp.json", "servers"),
    ("codex", "user"): ("~/.codex/config.toml", "mcp_servers"),
    ("codex", "project"): (".codex/config.toml", "mcp_servers"),
    ("gemini", "project"): (".gemini/settings.json", "mcpServers"),
    ("gemini", "user"): ("~/.gemini/settings.json", "mcpServers"),
    ("windsurf", "user"): ("~/.codeium/windsurf/mcp_config.json", "mcpServers"),
    ("zed", "user"): ("~/.config/zed/settings.json", "context_servers"),
}


@pytest.mark.parametrize(("client", "scope"), PLACED)
def test_each_client_finds_it_where_it_looks(
    run: Run, root: Path, home: Path, client: str, scope: str
) -> None:
    told = run("install", client, "--scope", scope)
    where, key = PLACED[client, scope]
    expected = home / where[2:] if where.startswith("~/") else root / where
    assert Path(told["file"]) == expected
    assert list(entries(expected)) == [key]
    entry = entries(expected)[key]["merkle"]
    if scope == "project":
        # Others get this file too.
        assert str(root) not in expected.read_text()
        assert entry["command"] == "merkle"
    else:
        assert os.path.isabs(entry["command"])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the folders are others")
def test_desktop_programs_on_linux(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desktop = run("install", "claude-desktop", "--print")["file"]
    assert desktop == str(home / ".config" / "Claude" / "claude_desktop_config.json")
    code = run("install", "vscode", "--scope", "user", "--print")["file"]
    assert code == str(home / ".config" / "Code" / "User" / "mcp.json")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "elsewhere"))
    assert "elsewhere" in run("install", "zed", "--print")["file"]
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    assert run("install", "codex", "--print")["file"] == str(home / "codex" / "config.toml")


def test_a_client_that_starts_anywhere_is_told_the_workspace(run: Run, root: Path) -> None:
    told = run("install", "claude-desktop")
    entry = entries(Path(told["file"]))["mcpServers"]["merkle"]
    assert entry["args"] == ["-C", str(root), "mcp"]
    local = run("install", "claude-code", "--scope", "local")
    assert list(entries(Path(local["file"]))["projects"]) == [str(root)]


def test_printing_writes_nothing(run: Run, tmp_path: Path) -> None:
    before = everything(tmp_path)
    told = run("install", "claude-code", "--print")
    assert told["changed"] is False
    assert json.loads(told["snippet"])["mcpServers"]["merkle"]["command"] == "merkle"
    assert everything(tmp_path) == before


def test_what_people_see(root: Path, home: Path) -> None:
    def shown(*arguments: str) -> str:
        ran = CliRunner().invoke(cli, ["-C", str(root), "mcp", *arguments])
        assert ran.exit_code == 0
        return ran.stdout

    file = str(root / ".mcp.json")
    assert shown("install", "claude-code", "--print").startswith(f"# Claude Code, {file}\n{{")
    assert f"Claude Code has it now: {file}" in shown("install", "claude-code")
    assert f"already has it: {file}" in shown("install", "claude-code")
    assert f"does not have it any more: {file}" in shown("uninstall", "claude-code")
    assert f"does not have it: {file}" in shown("uninstall", "claude-code")


FILES = {
    "two spaces": '{\n  "a": 1,\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n',
    "four spaces, no end": '{\n    "mcpServers": {\n        "other": {\n            "x": []\n'
    "        }\n    }\n}",
    "tabs": '{\n\t"mcpServers": {\n\t\t"other": {}\n\t},\n\t"z": null\n}\n',
    "windows": '{\r\n  "mcpServers": {\r\n    "other": {}\r\n  }\r\n}\r\n',
    "one line": '{"mcpServers": {"other": {}}, "z": [1, 2]}',
    "no servers yet": '{\n  "theme": "dark",\n  "deep": {"mcpServers": {}}\n}\n',
    "odd": '  {  "a":1 ,\n\n "b" : "}\\"{ \\u00e4 ä",\n"c":[{"mcpServers":1}]   }  \n\n',
    "marked": '\ufeff{\n  "a": 1\n}\n',
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_everything_else_stays_byte_for_byte(run: Run, root: Path, text: str) -> None:
    file = root / ".mcp.json"
    file.write_bytes(text.encode())
    file.chmod(0o600)
    before = json.loads(text.removeprefix("\ufeff"))
    told = run("install", "claude-code")
    after = json.loads(file.read_bytes().decode("utf-8-sig"))
    assert after["mcpServers"].pop("merkle") == json.loads(told["snippet"])["mcpServers"]["merkle"]
    if "mcpServers" not in before:
        assert after.pop("mcpServers") == {}
    assert after == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("uninstall", "claude-code")["changed"]
    assert file.read_bytes() == text.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(root.iterdir()) == [file]


TOML = """\
# my settings
model = "o"   # a comment

[mcp_servers.other]
command = "x"
args = [
  "[mcp_servers.merkle]",
]

# about the last one
[profile]
a = 1
"""


def test_a_toml_file_keeps_its_comments(run: Run, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(TOML)
    run("install", "codex", "--agent", "alice")
    text = file.read_text()
    assert text.startswith(TOML)
    entry = tomllib.loads(text)["mcp_servers"]["merkle"]
    assert entry["args"] == ["mcp", "--agent", "alice"]
    run("install", "codex")
    assert tomllib.loads(file.read_text())["mcp_servers"]["merkle"]["args"] == ["mcp"]
    assert run("uninstall", "codex")["changed"]
    assert file.read_text() == TOML


def test_a_toml_entry_of_somebody_elses_hand(run: Run, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    ours = '[ mcp_servers . "merkle" ]\ncommand = "merkle"\n\n[mcp_servers.merkle.env]\nA = "1"\n'
    file.write_text(f"a = 1\n\n{ours}\n# next\n[other]\n")
    assert run("uninstall", "codex")["changed"]
    assert file.read_text() == "a = 1\n\n# next\n[other]\n"
    for text in (
        'mcp_servers = { merkle = { command = "x" } }\n',
        'mcp_servers.merkle.command = "x"\n',
        '[mcp_servers]\nmerkle = { command = "x" }\n',
    ):
        file.write_text(text)
        refused = run("uninstall", "codex", code=2)["error"]
        assert refused["code"] == "uneditable"
        assert "mcp_servers.merkle" in refused["hint"]
        assert file.read_text() == text


BROKEN = {
    "comment": '{\n  // mine\n  "mcpServers": {}\n}\n',
    "block comment": '{ /* mine */ "mcpServers": {} }',
    "trailing comma": '{"mcpServers": {},}',
    "cut off": '{"mcpServers": {',
    "a list": "[]",
    "twice": '{"mcpServers": {}, "mcpServers": {"a": {}}}',
    "servers is no object": '{"mcpServers": []}',
    "nested": '{"a":' * 5000 + "1" + "}" * 5000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_file_that_could_be_harmed_is_left_alone(run: Run, root: Path, text: str) -> None:
    file = root / ".mcp.json"
    file.write_text(text)
    refused = run("install", "claude-code", code=2)["error"]
    assert refused["code"] == "uneditable"
    assert str(file) in refused["message"]
    assert '"command": "merkle"' in refused["hint"]
    assert file.read_text() == text
    assert run("uninstall", "claude-code", code=2)["error"]["code"] == "uneditable"
    assert file.read_text() == text
    assert list(root.iterdir()) == [file]


def test_other_things_in_the_way(run: Run, root: Path, home: Path) -> None:
    file = root / ".mcp.json"
    file.write_bytes(b'{"a": "\xff"}')
    assert run("install", "claude-code", code=2)["error"]["code"] == "uneditable"
    file.unlink()
    file.mkdir()
    assert "not a regular file" in run("install", "claude-code", code=2)["error"]["message"]
    file.rmdir()
    file.write_text(" \n")
    assert run("install", "claude-code")["changed"]
    codex = home / ".codex" / "config.toml"
    codex.parent.mkdir()
    codex.write_text("a = = 1\n")
    refused = run("install", "codex", code=2)["error"]
    assert "not valid TOML" in refused["message"]
    assert "[mcp_servers.merkle]" in refused["hint"]
    for line in (["install", "emacs"], ["install"], ["install", "codex", "--scope", "moon"]):
        assert run(*line, code=2)["error"]["code"] == "usage"
    assert run("install", "zed", "--scope", "project", code=2)["error"]["code"] == "unknown_client"
    assert run("install", "zed", "--name", "a b", code=2)["error"]["code"] == "usage"
    assert run("install", "zed", "--agent", "a b", code=2)["error"]["code"] == "agent"
    assert run("--agent", "merkle:outline", code=2)["error"]["code"] == "agent"


def test_a_link_stays_a_link(run: Run, root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text('{\n  "a": 1\n}\n')
    (root / ".mcp.json").symlink_to(kept)
    run("install", "claude-code")
    assert (root / ".mcp.json").is_symlink()
    assert "merkle" in kept.read_text()
    run("uninstall", "claude-code")
    assert kept.read_text() == '{\n  "a": 1\n}\n'


def test_a_change_by_somebody_else_meanwhile_is_not_lost(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = find_place("claude-code", "project", root)
    entry = place.client.entry(place.scope, root, None)
    place.file.write_text("{}")
    from indexer.mcp import json_edit

    original = json_edit.with_member

    def slow(*arguments: Any) -> str:
        place.file.write_text('{"theirs": 1}')
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(json_edit, "with_member", slow)
        with pytest.raises(ChangedError, match="has just been changed"):
            install(place, entry)
    assert place.file.read_text() == '{"theirs": 1}'
    assert install(place, entry)
    assert uninstall(place)
    assert place.file.read_text() == '{"theirs": 1}'


def test_what_somebody_added_to_the_entry_stays(run: Run, root: Path, home: Path) -> None:
    run("install", "claude-code")
    file = root / ".mcp.json"
    changed = json.loads(file.read_text())
    changed["mcpServers"]["merkle"]["env"] = {"MERKLE_AGENT": "alice"}
    file.write_text(json.dumps(changed))
    assert run("install", "claude-code")["changed"] is False
    run("install", "claude-code", "--agent", "bob")
    entry = json.loads(file.read_text())["mcpServers"]["merkle"]
    assert entry["env"] == {"MERKLE_AGENT": "alice"}
    assert entry["args"] == ["mcp", "--agent", "bob"]
    run("install", "codex")
    codex = home / ".codex" / "config.toml"
    with codex.open("a") as more:
        more.write('startup_timeout_sec = 20\n\n[mcp_servers.merkle.env]\n"A b" = "1"\n')
    run("install", "codex", "--agent", "bob")
    entry = tomllib.loads(codex.read_text())["mcp_servers"]["merkle"]
    assert (entry["startup_timeout_sec"], entry["env"]) == (20, {"A b": "1"})
    assert entry["args"] == ["mcp", "--agent", "bob"]


def test_the_agent_is_made_and_what_is_missing_is_said_first(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    program = environment / "bin" / "merkle"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(environment / "bin"))
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    told = run("install", "claude-code", "--agent", "helper")
    assert told["agent_made"]
    assert [str(program) in each for each in told["missing"]] == [True]
    assert not run("install", "claude-code", "--agent", "helper")["agent_made"]
    line = ["-C", str(root), "mcp", "install", "claude-code", "--agent", "helper"]
    assert "missing: `merkle` on the search path" in CliRunner().invoke(cli, line).stderr
    listed = CliRunner().invoke(cli, ["-C", str(root), "--json", "agent", "list"]).stdout
    assert [one["id"] for one in json.loads(listed)["agents"]] == ["helper"]
    # What is active is another environment, whose name only begins alike; or none.
    for other in (environment.with_name("environ"), ""):
        monkeypatch.setenv("VIRTUAL_ENV", str(other))
        assert run("install", "claude-code")["missing"] == []
    monkeypatch.delenv("VIRTUAL_ENV")
    assert run("install", "claude-code")["missing"] == []
    # Only printing registers nobody.
    assert not run("install", "claude-code", "--agent", "other", "--print")["agent_made"]
