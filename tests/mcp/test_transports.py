"""The server as clients start it: over stdio and HTTP, service running and not."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client

from indexer import Workspace
from indexer.mcp.declarations import BY_NAME
from indexer.service.client import connect
from tests.support.processes import Forked, run
from tests.support.waiting import PATIENCE
from tests.support.wire import (
    HttpServer,
    answer,
    call,
    end_service,
    forked_stdio,
    http_server,
    refusal,
    service_pid,
    stdio,
    talk,
)

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip


async def write_and_read(client: Client) -> dict[str, Any]:
    """One round of an agent's work."""
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert tools == set(BY_NAME)
    node = answer(await client.call_tool("get_node", {"node": "src/main.py"}))
    note = {"node": "src/main.py", "seen": node["node_id"], "type": "note", "content": "Seen."}
    return answer(await client.call_tool("put_frame", note))


@pytest.mark.parametrize(
    ("running", "mode"),
    [(True, "legacy"), (False, "auto")],
    ids=["service", "no service"],
)
def test_over_stdio(project: Path, running: bool, mode: str) -> None:
    if running:
        answer(call(project, None, "status"))
    before = service_pid(project) if running else None
    assert (connect(project) is not None) == running
    # The one that a client starts itself finds no service; one transport is like the other.
    way = forked_stdio if running else stdio
    stored = talk(way(project, "--agent", "alice"), write_and_read, mode=mode)
    assert (stored["created"], stored["freshness"]) == (True, "fresh")
    # The server is gone; the service that it started, or found, is not.
    assert connect(project) is not None
    assert before in (None, service_pid(project))
    with Workspace.open(project) as workspace:
        assert workspace.is_remote
        heads = workspace.get_head("src/main.py", frame_type="note")["heads"]
        assert [(head["agent"], head["freshness"]) for head in heads] == [("alice", "fresh")]


def test_a_client_that_hands_on_next_to_no_environment(project: Path, runtime_dir: Path) -> None:
    """The service then listens elsewhere, and commands find it all the same."""
    server = stdio(project, "--agent", "alice")
    server.env = {"PYTHONPATH": os.environ["PYTHONPATH"], "TMPDIR": str(runtime_dir)}
    server.env["MERKLE_WATCH_IDLE_EXIT"] = "60s"
    # Elsewhere it is below the home folder, which needs no variable.
    server.env["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"]
    assert talk(server, write_and_read)["freshness"] == "fresh"
    found = connect(project)
    assert found is not None
    assert Path(found.address).parent == runtime_dir / f"merkle-{os.getuid()}"
    with Workspace.open(project) as workspace:
        assert workspace.status()["service"]["running"]


@pytest.mark.parametrize("running", [True, False], ids=["service", "no service"])
def test_over_http(project: Path, running: bool) -> None:
    if running:
        answer(call(project, None, "status"))
    with http_server(project, "--agent", "alice") as server:
        for mode in ("auto", "legacy"):
            stored = talk(server.transport(), write_and_read, mode=mode)
            assert stored["freshness"] == "fresh"
    assert connect(project) is not None


def test_two_agents_at_once(project: Path) -> None:
    """Neither is locked out, nothing is lost, and each note has its author's name."""
    rounds = 8

    async def work(client: Client, who: str) -> list[str]:
        node = answer(await client.call_tool("get_node", {"node": "README.md"}))
        found = []
        for number in range(rounds):
            note = {"node": "README.md", "seen": node["node_id"], "type": f"note{number}",
                    "content": f"{who} {number}", "ids": "full"}  # fmt: skip
            found.append(answer(await client.call_tool("put_frame", note))["frame_id"])
        return found

    async def both() -> list[list[str]]:
        async with (
            Client(
                forked_stdio(project, "--agent", "alice"), read_timeout_seconds=PATIENCE
            ) as first,
            Client(
                forked_stdio(project, "--agent", "carol"), read_timeout_seconds=PATIENCE
            ) as second,
        ):
            return await asyncio.gather(work(first, "alice"), work(second, "carol"))

    alices, carols = asyncio.run(both())
    assert len({*alices, *carols}) == 2 * rounds
    with Workspace.open(project) as workspace:
        frames = workspace.list_frames("README.md")["frames"]
        by_agent = {
            who: {frame["frame_id"] for frame in frames if frame["agent"] == who}
            for who in ("alice", "carol")
        }
        assert by_agent == {"alice": set(alices), "carol": set(carols)}
        assert workspace.validate()["valid"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_service_that_went_is_replaced_and_nothing_is_lost(project: Path, number: int) -> None:
    async def session(client: Client) -> tuple[int, int]:
        first = answer(await client.call_tool("status", {}))["service"]["pid"]
        stored = await write_and_read(client)
        await asyncio.to_thread(end_service, project, number)
        found = answer(await client.call_tool("get_node", {"node": "src/main.py"}))
        assert found["freshness"] == "fresh"
        assert stored["frame_id"] in {frame["frame_id"] for frame in found["frames"]}
        return first, answer(await client.call_tool("status", {}))["service"]["pid"]

    first, second = talk(forked_stdio(project, "--agent", "alice"), session)
    assert first != second


def test_a_folder_that_is_no_workspace_is_left_alone(tmp_path: Path) -> None:
    async def session(client: Client) -> Any:
        return await client.call_tool("status", {})

    error = refusal(talk(forked_stdio(tmp_path), session))
    assert error["code"] == "no_workspace"
    assert "merkle init" in error["hint"]
    assert list(tmp_path.iterdir()) == []


def test_why_the_service_cannot_start_is_told(project: Path) -> None:
    async def session(client: Client) -> tuple[Any, Any]:
        first = await client.call_tool("status", {})
        form.write_text(recorded)
        return first, await client.call_tool("status", {})

    form = project / ".merkle" / "format.json"
    recorded = form.read_text()
    form.write_text('{"format": 99, "hash": "xxh3_128"}')
    broken, mended = talk(forked_stdio(project), session)
    assert refusal(broken)["code"] == "newer_store"
    assert answer(mended)["freshness"] == "fresh"


def test_nothing_but_the_protocol_is_on_stdout(project: Path) -> None:
    parameters = stdio(project)
    done = subprocess.run(
        [parameters.command, *parameters.args], input=json.dumps(HELLO) + "\nnonsense\n",
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0
    first, *rest = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["result"]["serverInfo"]["name"] == "merkle"
    assert all(line["jsonrpc"] == "2.0" for line in rest)


def test_it_ends_at_once_when_it_is_interrupted(served: Path) -> None:
    parameters = stdio(served)
    running = Forked(
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(json.dumps(HELLO) + "\n")
    running.stdin.flush()
    assert running.stdout.readline()
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE) == -signal.SIGINT
    running.communicate()


# -- HTTP is for programs of this machine only


def ask(server: HttpServer, **headers: str) -> int:
    """The status of a handshake with these headers."""
    parts = urlsplit(server.address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", parts.path, json.dumps(HELLO), {**usual, **headers})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.fixture(scope="module")
def server(served: Path) -> Iterator[HttpServer]:
    """A server over HTTP for the tests that only knock."""
    with http_server(served) as found:
        yield found


def test_a_foreign_host_or_origin_is_refused(server: HttpServer) -> None:
    port, token = urlsplit(server.address).port, server.headers()
    assert ask(server, **token) == 200
    assert ask(server, Host=f"localhost:{port}", **token) == 200
    assert ask(server, Origin=f"http://127.0.0.1:{port}", **token) == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil",
                 "127.0.0.1:1", f"127.0.0.1.evil.example:{port}"):  # fmt: skip
        assert ask(server, Host=host, **token) == 421, host
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1",
                   f"https://127.0.0.1:{port}", f"http://localhost:{port}.evil"):  # fmt: skip
        assert ask(server, Origin=origin, **token) == 403, origin


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's table of sockets")
def test_it_listens_on_the_loopback_address_only(server: HttpServer) -> None:
    port = urlsplit(server.address).port
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_token_is_asked_for_where_one_is_set(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_MCP_TOKEN", "open sesame")
    with http_server(project) as server:
        assert server.header == ""
        assert ask(server) == 401
        assert ask(server, Authorization="Bearer open") == 401
        assert ask(server, Authorization="Bearer open sesame") == 200


def test_without_a_token_one_is_made(server: HttpServer, served: Path) -> None:
    scheme, _, token = server.headers()["Authorization"].partition(" ")
    assert (scheme, len(token) >= 32) == ("Bearer", True)
    assert ask(server) == 401
    assert ask(server, Authorization="Bearer") == 401
    assert ask(server, Authorization=f"Bearer {token}x") == 401
    assert ask(server, **server.headers()) == 200
    with http_server(served) as other:
        assert other.header != server.header
        assert ask(other, **server.headers()) == 401


def test_a_port_that_is_taken_is_told(server: HttpServer, served: Path) -> None:
    port = str(urlsplit(server.address).port)
    code, _, err = run(["-m", "indexer.cli", "-C", served, "mcp", "--http", port])
    assert code == 3
    assert f"cannot listen on 127.0.0.1:{port}" in err


# -- what it needs


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['mcp'] = None; sys.argv[1:] = ['mcp'];"
    run = "from indexer.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hide + run], cwd=tmp_path, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 3
    assert "pip install 'merkle-indexer[mcp]'" in done.stderr
    assert not (tmp_path / ".merkle").exists()


def test_the_server_loads_neither_database_nor_tokenizer(project: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from indexer.mcp.calls import Calls;"
        "import indexer.mcp.run;"
        "print(Calls(Path(sys.argv[1]), None).call('get_node', {'node': '', 'max_tokens': 90}));"
        "print([name for name in ('_duckdb', 'tiktoken') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, project], capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ},
    )  # fmt: skip
    answered, loaded = done.stdout.splitlines()
    assert "left_out" in answered, done.stderr
    assert loaded == "[]"
