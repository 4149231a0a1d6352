"""docs/cli.md is what the commands say now."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click
import jsonschema_rs
import pytest

from indexer.cli.reference import TARGET, every_command, json_keys, reference
from indexer.service.openapi import openapi_document
from indexer.service.server import Api
from tests.support.copies import copy_workspace


def test_the_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "run `just docs`"


OPENAPI = openapi_document(Api)
EVERY = {name: command for name, command, _ in every_command()}


@pytest.mark.parametrize("name", EVERY)
def test_every_command_and_option_is_in_it(name: str) -> None:
    page = TARGET.read_text(encoding="utf-8")
    assert f"\n## merkle {name}\n" in page
    section = page.split(f"\n## merkle {name}\n")[1].split("\n## ")[0]
    for option in EVERY[name].params:
        if isinstance(option, click.Option) and option.expose_value:
            assert all(f"`{opt}" in section for opt in option.opts if opt.startswith("-"))


LINES = {
    "init": ["init"], "scan": ["scan"], "status": ["status"], "validate": ["validate"],
    "watch": ["watch", "--once"], "log": ["log"], "diff": ["diff", "@-0", "@-0"],
    "get-node": ["get-node", "src"], "list-frames": ["list-frames", "src"],
    "put-frame": ["put-frame", "src", "-", "--type", "note", "--agent", "alice"],
    "note": ["note", "src", "text", "--agent", "alice"], "notes list": ["notes", "list"],
    "notes export": ["notes", "export", "my.notes"],
    "notes import": ["notes", "import", "my.notes"],
    "search": ["search", "tide"], "compose": ["compose", "src"], "replay": ["replay", "RECORDED"],
    "compile": ["compile", "events.json"],
    "get-head": ["get-head", "src"], "get-frame": ["get-frame", "MADE"],
    "explain": ["explain", "src"], "show": ["show", "README.md"],
    "symbols": ["symbols", "tide"], "definition": ["definition", "Tide tables"],
    "references": ["references", "Tide tables"], "callers": ["callers", "Tide tables"],
    "callees": ["callees", "Tide tables"], "impact": ["impact", "README.md"],
    "regenerate": ["regenerate"], "synthesize": ["synthesize", "src", "--type", "outline"],
    "invalidate": ["invalidate", "src"], "agent list": ["agent", "list"],
    "agent add": ["agent", "add", "dave", "--role", "reader"],
    "sql": ["sql", "SELECT 1"], "config": ["config"], "doctor": ["doctor"],
    "mcp install": ["mcp", "install", "claude-code", "--print"],
    "mcp uninstall": ["mcp", "uninstall", "claude-code"],
    "export": ["export", "my.pack"], "import": ["import", "my.pack"],
    "lock": ["lock"], "prove": ["prove", "src"], "report": ["report", "report.md"],
    "verify": ["verify", "proof.json", "--root", "0" * 64],
    "shared status": ["shared", "status"], "shared push": ["shared", "push"],
    "shared pull": ["shared", "pull"], "shared gc": ["shared", "gc"],
    "compact": ["compact"], "repair": ["repair"], "stop": ["stop"],
    "completion": ["completion", "bash"], "help": ["help"], "ls": ["ls"],
    "session new": ["session", "new", "other"],
    "session append": ["session", "append", "talk", "--type", "output", "--text", "said"],
    "session edit": ["session", "edit", "talk", "one", "--text", "said better"],
    "session set": ["session", "set", "talk", "one", "--priority", "3"],
    "session log": ["session", "log", "talk"],
    "session fork": ["session", "fork", "talk", "branch"],
    "session merge": ["session", "merge", "trunk", "talk"],
    "session rename": ["session", "rename", "talk", "other"],
    "session delete": ["session", "delete", "talk"],
    "session restore": ["session", "restore", "gone"],
    "session annotate": ["session", "annotate", "talk", "one", "pinned"],
    "session commit": ["session", "commit", "talk"],
    "session move": ["session", "move", "talk", "one", "ah", "--offset", "1"],
    "session remove": ["session", "remove", "talk", "one"],
    "session group": ["session", "group", "talk", "--offset", "1"],
    "session attempt": [
        "session", "attempt", "talk", "a1", "--status", "running", "--provider", "p", "--model",
        "m",
    ],
    "session pull": ["session", "pull", "talk", "src"],
    "session select": ["session", "select", "talk", "@w .cb"],
    "session diff": ["session", "diff", "talk", "@t0", "@w"],
    "session render": ["session", "render", "talk"],
    "session compile": ["session", "compile", "talk"],
    "session tree": ["session", "tree", "talk"], "session budget": ["session", "budget", "talk"],
    "session export": ["session", "export", "talk"],
    "session import": ["session", "import", "chat.json", "--name", "chat"],
    "session list": ["session", "list"], "session show": ["session", "show", "talk"],
}  # fmt: skip


def test_every_command_has_its_keys() -> None:
    groups = {name for name, command in EVERY.items() if isinstance(command, click.Group)}
    # What `lsp` prints is the protocol's.
    assert LINES.keys() == EVERY.keys() - groups - {"lsp"}
    assert all(json_keys(name, EVERY[name]) is not None for name in LINES)


@pytest.fixture
def talking(workspace: Path, made: Path, merkle: Any, request: pytest.FixtureRequest) -> Path:
    """The small workspace with everything made, and a session."""
    if not (made / "talking").exists():
        peopled = request.getfixturevalue("peopled")
        said = ["--type", "dialogue", "--text", "hello", "--id", "one"]
        assert merkle("-C", peopled, "session", "new", "talk").code == 0
        assert merkle("-C", peopled, "session", "append", "talk", *said).code == 0
        shutil.copytree(peopled, made / "talking", symlinks=True)
    return copy_workspace(made / "talking", workspace)


@pytest.mark.parametrize("name", LINES)
def test_the_json_keys_are_true(
    name: str, talking: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(talking.parent)
    if name.startswith("shared"):
        monkeypatch.setenv("MERKLE_SHARED_URL", f"sqlite://{talking.parent}/team.db")
    if name in ("import", "notes import"):
        assert merkle("-C", talking, *LINES[name.replace("import", "export")]).code == 0
    if name in ("prove", "verify"):
        shutil.rmtree(talking / ".merkle")
        assert merkle("-C", talking, "init", "--hash", "sha256").code == 0
        assert merkle("-C", talking, "scan").code == 0
        Path("proof.json").write_text(merkle("-C", talking, "prove", "src").out)
    if name == "session import":
        Path("chat.json").write_text('[{"role": "user", "content": "hello"}]')
    if name == "session restore":
        assert merkle("-C", talking, "session", "new", "gone").code == 0
        assert merkle("-C", talking, "session", "delete", "gone").code == 0
    if name == "session merge":
        for command in (["commit", "talk"], ["fork", "talk", "trunk"], ["commit", "talk"]):
            assert merkle("-C", talking, "session", *command).code == 0
    line = LINES[name]
    if name == "replay":
        made = merkle("-C", talking, "--json", "compose", "src", "--record").json
        line = ["replay", made["manifest_id"][:12]]
    if name == "get-frame":
        line = [
            "get-frame",
            merkle("-C", talking, "--json", "get-head", "src").json["heads"][0]["frame_id"],
        ]
    (talking.parent / "events.json").write_text("[]")
    ran = merkle("-C", talking, "--json", *line, stdin="text")
    assert tuple(ran.json) == json_keys(name, EVERY[name])
    if getattr(EVERY[name], "gives", None) is None:
        # What the operation of that name declares, down to the types.
        (described,) = OPENAPI["paths"][f"/v1/{name.replace(' ', '-')}"].values()
        schema = described["responses"]["200"]["content"]["application/json"]["schema"]
        whole = {**schema, "components": OPENAPI["components"]}
        assert [e.message for e in jsonschema_rs.validator_for(whole).iter_errors(ran.json)] == []
