"""Component 6, tooling and integration: one test for each requirement and each criterion.

CI integration has its tests with the commands that serve it.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import indexer
from indexer import AgentAdapter, ContextView, NewFrame, Workspace
from indexer.cli.group import cli
from indexer.service.client import connect
from indexer.service.served import start_service
from tests.support.waiting import PATIENCE
from tests.support.wire import answer, call, end_service, fill, people, refusal, texts

PACKAGE = Path(indexer.__file__).parent
Run = Callable[..., Any]

CLOCKED = {"created_at", "at", "seconds", "pid"}
"""Keys that tell a time or a process; everything else has to be the same again."""


def merkle(root: Path, *arguments: str, code: int = 0, stdin: str = "") -> Any:
    """Run a command, check its status and give back its document."""
    ran = CliRunner().invoke(cli, ["-C", str(root), "--json", *arguments], input=stdin)
    assert ran.exit_code == code, ran.output
    return plain(json.loads(ran.stdout))


def plain(value: Any) -> Any:
    """A document without times."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key not in CLOCKED}
    return [plain(each) for each in value] if isinstance(value, list) else value


def state(root: Path) -> Any:
    """Everything that was recorded, times apart."""
    with Workspace.open(root) as workspace:
        frames = [
            workspace.list_frames(node)["frames"]
            for node in ("", "src", "src/deep", "README.md", "src/main.py", "src/deep/table.py")
        ]
        status = workspace.status()
        return plain([status["root"], status["frames"], frames, workspace.log()["roots"]])


@pytest.fixture
def other(wired: Path) -> Iterator[Path]:
    """A second workspace of the same content, beside the first."""
    root = wired.with_name(wired.name + "-other")
    root.mkdir()
    fill(root)
    people(root)
    yield root
    end_service(root)
    shutil.rmtree(root)


COMMANDS = (
    "get-node src --view recency",
    "put-frame src - --type note --agent alice",
    "synthesize src --type outline --agent carol",
    "regenerate src --recursive",
    "invalidate src",
    "list-frames src --type outline",
    "get-head src --type outline",
    "scan --force",
    "status",
    "validate",
)
"""The spec's commands; `--type` is what put-frame always needs."""


# -- requirements


@pytest.mark.usefixtures("kept_open")
def test_requirement_cli_or_tool_entrypoints(wired: Path) -> None:
    for line in COMMANDS:
        assert isinstance(merkle(wired, *line.split(), stdin="A note.\n"), dict), line


def test_requirement_workspace_scoped_operations(wired: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("not of this workspace\n")
    before = outside.stat(), sorted(tmp_path.iterdir())
    for name in ("../outside.txt", str(outside), "src/../../outside.txt"):
        assert merkle(wired, "get-node", name, code=2)["error"]["message"]
        assert refusal(call(wired, "alice", "get_node", node=name))["message"]
    for line in COMMANDS:
        merkle(wired, *line.split(), stdin="A note.\n")
    assert (outside.stat(), sorted(tmp_path.iterdir())) == before


def test_requirement_idempotent_tool_execution(wired: Path) -> None:
    seen = answer(call(wired, "alice", "get_node", node="src/main.py"))["node_id"]
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("alice", "put_frame", {"node": "src/main.py", "seen": seen, "type": "note",
                                "content": "Once."}),
        ("alice", "regenerate", {}),
        ("carol", "synthesize", {"node": "src", "type": "outline"}),
    ]  # fmt: skip
    for agent, name, arguments in calls:
        answer(call(wired, agent, name, **arguments))
    once = state(wired)
    for agent, name, arguments in calls:
        answer(call(wired, agent, name, **arguments))
    assert state(wired) == once


def test_requirement_no_ui_specific_logic_in_core() -> None:
    edges = {"click", "rich", "mcp", "mcp_types", "pygls", "starlette", "uvicorn", "anyio"}
    ours = {"indexer.cli", "indexer.lsp", "indexer.mcp", "indexer.web", "indexer.service"}
    found = []
    for path in PACKAGE.rglob("*.py"):
        box = path.relative_to(PACKAGE).parts[0]
        if box in ("cli", "lsp", "mcp", "web", "service", "__init__.py"):
            continue
        text = path.read_text("utf-8")
        # Nothing is imported without its name in the text, and taking all apart takes long.
        if not any(name in text for name in (*edges, *ours)):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [
                f"{path}: {name}"
                for name in names
                if name.partition(".")[0] in edges or ".".join(name.split(".")[:2]) in ours
            ]
    assert not found


def test_requirement_editor_integration_hooks(wired: Path) -> None:
    """The watcher sees a save, regenerates, and whoever listens is called for each node."""
    client = start_service(wired, time.monotonic() + PATIENCE)
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'GET /v1/events HTTP/1.1\\r\\nHost: merkle\\r\\n\\r\\n');"
        "[print(line, end='', flush=True) for line in s.makefile()]"
    )
    listener = subprocess.Popen(
        [sys.executable, "-c", code, client.address], stdout=subprocess.PIPE, text=True
    )
    try:
        assert listener.stdout is not None
        for line in listener.stdout:
            if line.startswith(": connected"):
                break
        (wired / "src" / "main.py").write_text("def tide():\n    return 3\n")
        events = []
        while not any(event["event"] == "frame" and event["path"] == "" for event in events):
            line = listener.stdout.readline()
            assert line, "the stream ended"
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
    finally:
        listener.kill()
        listener.communicate()
    nodes = [event for event in events if event["event"] == "node"]
    assert [(event["change"], event["path"]) for event in nodes] == [("modified", "src/main.py")]
    assert {"src/main.py", "src", ""} <= {
        event["path"] for event in events if event["event"] == "frame"
    }


def test_requirement_agent_adapters(wired: Path) -> None:
    for name, parameters in (
        ("read_context", ["node", "view"]),
        ("write_context", ["node", "frame"]),
        ("synthesize", ["node", "frame_type"]),
    ):
        signature = inspect.signature(getattr(AgentAdapter, name))
        assert list(signature.parameters)[1:3] == parameters
    with AgentAdapter.open(wired, agent="carol") as adapter:
        context = adapter.read_context("src", ContextView(max_frames=1))
        assert (len(context.frames), context.frames[0].freshness) == (1, "fresh")
        written = adapter.write_context("src", NewFrame("note", "Tides.", context.node_id))
        assert written in {frame.frame_id for frame in adapter.read_context("src").frames}
        assert adapter.synthesize("src", "outline") == context.frames[0].frame_id


# -- test criteria


def test_criterion_tools_reproducible_from_cli(wired: Path, other: Path, kept_open: Any) -> None:
    """The same commands on the same content say the same, wherever it lies."""
    for line in ("get-node src", "list-frames src", "get-head src", "explain src",
                 "put-frame src - --type note --agent alice", "synthesize src --type outline",
                 "regenerate --plan", "log", "validate"):  # fmt: skip
        first = merkle(wired, *line.split(), stdin="Tides.\n")
        assert first == merkle(other, *line.split(), stdin="Tides.\n"), line
        if not line.startswith("put-frame"):
            assert first == merkle(wired, *line.split()), line
    # And a tool says over MCP what the command says.
    shown = merkle(wired, "get-node", "src")
    kept_open.close()
    result = call(wired, "alice", "get_node", node="src", ids="full")
    told = answer(result)
    for key in ("node_id", "path", "kind", "content_id", "size", "children", "frame_count"):
        assert told[key] == shown[key]
    assert texts(result) == [frame["content"].rstrip("\n") for frame in shown["frames"]]
    for mine, theirs in zip(told["frames"], shown["frames"], strict=True):
        for key in ("frame_id", "type", "agent", "freshness", "tokens"):
            assert mine[key] == theirs[key]


@pytest.mark.usefixtures("kept_open")
def test_criterion_re_running_tools_yields_same_state(wired: Path) -> None:
    lines = [line for line in COMMANDS if not line.startswith("invalidate")]
    for line in lines:
        merkle(wired, *line.split(), stdin="A note.\n")
    once = state(wired)
    for line in lines:
        merkle(wired, *line.split(), stdin="A note.\n")
    assert state(wired) == once


def test_criterion_tool_failures_do_not_corrupt_storage(wired: Path) -> None:
    before = state(wired)
    refused: list[tuple[str | None, str, dict[str, Any]]] = [
        ("bob", "put_frame", {"node": "src", "seen": "abcdef", "type": "note", "content": "x"}),
        ("alice", "put_frame", {"node": "src", "seen": "abcdef", "type": "note", "content": "x"}),
        ("alice", "put_frame", {"node": "gone", "seen": "abcdef", "type": "note", "content": "x"}),
        ("alice", "put_frame", {"node": "src", "seen": "nonsense", "type": "A b", "content": "x"}),
        ("carol", "synthesize", {"node": "README.md", "type": "outline"}),
        ("carol", "synthesize", {"node": "src", "type": "No Type"}),
        ("bob", "regenerate", {}),
        (None, "regenerate", {}),
    ]
    for agent, name, arguments in refused:
        refusal(call(wired, agent, name, **arguments))
    for line in ("put-frame src - --type outline --agent alice", "get-node src/gone",
                 "synthesize src --type No+Type", "diff @-99 @-0"):  # fmt: skip
        merkle(wired, *line.split(), code=2, stdin="x")
    assert state(wired) == before
    # A kill in the middle of it is only another failure.
    with Workspace.open(wired) as workspace:
        pid = workspace.status()["service"]["pid"]
    os.kill(pid, signal.SIGKILL)
    while connect(wired) is not None:
        time.sleep(0.02)
    assert merkle(wired, "validate", "--content")["valid"]
    assert state(wired) == before


def test_criterion_clear_separation_from_core_engine(wired: Path) -> None:
    """The engine works in a process that cannot even import an edge of the product."""
    code = (
        "import sys\n"
        "for name in ('click', 'rich', 'mcp', 'starlette', 'uvicorn'): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from indexer.engine.frames.read import get_node\n"
        "from indexer.engine.long_work import run_to_end\n"
        "from indexer.engine.make.commands import regenerate\n"
        "from indexer.engine.tree.scan import scan\n"
        "from indexer.engine.workspace import Engine\n"
        "with Engine(Path(sys.argv[1])) as engine:\n"
        "    scan(engine)\n"
        "    run_to_end(regenerate(engine))\n"
        "    print(get_node(engine, 'src')['frames'][0]['freshness'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, wired], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "fresh\n", done.stderr


def test_criterion_workspace_operations_are_isolated(wired: Path, other: Path) -> None:
    untouched = state(other)
    seen = answer(call(wired, "alice", "get_node", node="src/main.py"))["node_id"]
    note = {"node": "src/main.py", "seen": seen, "type": "note", "content": "Only here."}
    answer(call(wired, "alice", "put_frame", **note))
    (wired / "src" / "main.py").write_text("changed = True\n")
    answer(call(wired, "alice", "regenerate"))
    merkle(wired, "agent", "add", "zoe", "--role", "writer")
    assert state(other) == untouched
    assert connect(other) is None, "a call for one workspace started a service for another"
    with Workspace.open(other) as workspace:
        assert "zoe" not in {agent["id"] for agent in workspace.agent_list()["agents"]}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_node", {"node": "src/gone"}),
        ("put_frame", {"node": "src", "type": "note", "content": "x"}),
        ("put_frame", {"node": "src", "seen": "abcdef", "type": "outline", "content": "x"}),
        ("synthesize", {"node": "README.md", "type": "outline"}),
        ("synthesize", {"node": "src", "type": "No Type"}),
        ("diff", {"old": "nonsense"}),
        ("regenerate", {"recursive": "yes"}),
    ],
)
def test_criterion_error_messages_are_clear_and_actionable(
    served: Path, name: str, arguments: dict[str, Any]
) -> None:
    error = refusal(call(served, "carol", name, **arguments))
    assert error["message"]
    assert error["hint"]
    assert "Traceback" not in error["message"]
    assert error["code"] not in ("error", "internal")
