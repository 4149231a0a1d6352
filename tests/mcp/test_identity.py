"""In whose name: from flag, environment or merkle.toml; roles are the engine's to enforce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indexer import Workspace
from indexer.cli import mcp as command
from indexer.cli.group import cli
from indexer.mcp import run
from tests.support.wire import answer, call, refusal

NOTE = {"node": "README.md", "type": "note", "content": "A note."}


def note(root: Path) -> dict[str, Any]:
    with Workspace.open(root) as workspace:
        return {**NOTE, "seen": workspace.get_node("README.md")["node_id"]}


def history(root: Path) -> list[dict[str, Any]]:
    with Workspace.open(root) as workspace:
        return [
            frame
            for node in ("", "src", "README.md", "src/main.py")
            for frame in workspace.list_frames(node)["frames"]
        ]


@pytest.mark.parametrize(
    ("name", "arguments", "role"),
    [
        ("put_frame", None, "writer"),
        ("regenerate", {}, "writer"),
        ("synthesize", {"node": "src", "type": "outline"}, "synthesis"),
    ],
)
@pytest.mark.parametrize("agent", ["bob", "nobody", None], ids=["reader", "unknown", "none"])
def test_who_may_not_write_is_refused_and_told_how_to(
    served: Path, name: str, arguments: dict[str, Any] | None, role: str, agent: str | None
) -> None:
    before = history(served)
    error = refusal(call(served, agent, name, **(note(served) if arguments is None else arguments)))
    assert error["code"] == "agent"
    assert "`merkle agent add " in error["hint"]
    if agent is not None:
        assert f"`merkle agent add {agent} --role {role}`" in error["hint"]
    assert history(served) == before


def test_a_writer_does_not_synthesize(served: Path) -> None:
    error = refusal(call(served, "alice", "synthesize", node="src", type="outline"))
    assert "alice is a writer and cannot synthesize" in error["message"]
    assert "--role synthesis" in error["hint"]


@pytest.mark.parametrize("agent", ["bob", "nobody", None])
def test_everybody_reads(served: Path, agent: str | None) -> None:
    assert answer(call(served, agent, "get_node", node="src"))["freshness"] == "fresh"
    plan = answer(call(served, agent, "regenerate", plan=True))
    assert plan["plan"] == []


def test_status_tells_who_one_is(served: Path) -> None:
    assert answer(call(served, "bob", "status"))["agent"] == {
        "id": "bob", "role": "reader", "can": ["read"],
    }  # fmt: skip
    unknown = answer(call(served, "nobody", "status"))["agent"]
    assert unknown["hint"] == "register it: `merkle agent add nobody --role writer`"
    nobody = answer(call(served, None, "status"))["agent"]
    assert nobody["id"] is None
    assert "MERKLE_AGENT" in nobody["hint"]


def test_flag_before_environment_before_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[str | None] = []
    # Only the serving itself is left out; which agent it is for is what counts here.
    monkeypatch.setattr(run, "run_stdio", lambda calls: served.append(calls.agent))
    monkeypatch.setattr(command, "wake_service", lambda root: None)

    def start(*arguments: str) -> str | None:
        ran = CliRunner().invoke(cli, ["-C", str(project), "mcp", *arguments])
        assert ran.exit_code == 0, ran.output
        return served.pop()

    assert start() is None
    (project / "merkle.toml").write_text('[mcp]\nagent = "carol"\n')
    assert start() == "carol"
    monkeypatch.setenv("MERKLE_AGENT", "bob")
    assert start() == "bob"
    assert start("--agent", "alice") == "alice"
    (project / "merkle.toml").write_text("[mcp]\nagent = 7\n")
    assert start() == "bob"
    monkeypatch.delenv("MERKLE_AGENT")
    refused = CliRunner().invoke(cli, ["-C", str(project), "mcp"])
    assert (refused.exit_code, "mcp.agent" in refused.stderr) == (2, True)


def test_the_settings_show_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERKLE_AGENT", "alice")
    shown = CliRunner().invoke(cli, ["-C", str(project), "config", "--origin"]).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("mcp.agent")]
    assert "alice" in line
    assert "environment (MERKLE_AGENT)" in line
    monkeypatch.setenv("MERKLE_AGENT", " ")
    refused = CliRunner().invoke(cli, ["-C", str(project), "config"])
    assert (refused.exit_code, "MERKLE_AGENT" in refused.stderr) == (2, True)
