"""Servers to talk to, and the SDK's own client to talk with."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.server.stdio import stdio_server

from indexer import Workspace
from indexer.mcp.calls import Calls
from indexer.mcp.server import make_server
from indexer.service.client import connect
from indexer.store.layout import Layout
from indexer.store.lock import holder
from tests.support.processes import Forked
from tests.support.waiting import PATIENCE, wait_until

AGENTS = (("alice", "writer"), ("bob", "reader"), ("carol", "synthesis"))

Session = Callable[[Client], Awaitable[Any]]


def fill(root: Path) -> None:
    """A small project."""
    (root / "src" / "deep").mkdir(parents=True)
    (root / "README.md").write_text("# Tide tables\n\nHigh water, low water.\n")
    (root / "src" / "main.py").write_text('"""Prints the tide."""\n\n\ndef tide():\n    return 1\n')
    (root / "src" / "deep" / "table.py").write_text("def rows():\n    return []\n")


def people(root: Path) -> None:
    """Register an agent of each role, and make the outlines."""
    with Workspace.open(root) as workspace:
        workspace.scan()
        for name, role in AGENTS:
            workspace.agent_add(name, role)
        workspace.regenerate()


@functools.cache
def peopled() -> Path:
    """The small project with its agents and outlines, made once in a process, to be copied."""
    root = Path(tempfile.mkdtemp(prefix="mk-mcp-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    fill(root)
    people(root)
    return root


def service_pid(root: Path) -> int | None:
    """The process that owns the index, if there is one."""
    found = holder(Layout(root).lock)
    return found[0] if found else None


def end_service(root: Path, number: int = signal.SIGKILL) -> None:
    """End the service of a workspace that a test made, by its id."""
    pid = service_pid(root) if connect(root) else None
    if pid is not None and pid != os.getpid():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        wait_until(lambda: connect(root) is None, "the service is gone")


def talk(server: Any, session: Session, **options: Any) -> Any:
    """Hold a session with a server and give back what it comes to."""

    async def hold() -> Any:
        async with Client(server, read_timeout_seconds=PATIENCE, **options) as client:
            return await session(client)

    return asyncio.run(hold())


def inside(root: Path, agent: str | None, session: Session) -> Any:
    """Hold a session with a server in this process; its calls go to the service all the same."""
    return talk(make_server(Calls(root, agent)), session)


def call(root: Path, agent: str | None, tool: str, /, **arguments: Any) -> Any:
    """One call; its result as the client got it, checked by the client against its schema."""
    return inside(root, agent, lambda client: client.call_tool(tool, arguments))


def answer(result: Any) -> dict[str, Any]:
    """The document of a call that went well; there is no second copy of it."""
    assert not result.is_error, result.content
    assert result.structured_content is None
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


def texts(result: Any) -> list[str]:
    """The texts that an answer shows after its document, without their fences."""
    answer(result)
    return [unfenced(block.text) for block in result.content[1:]]


def unfenced(block: str) -> str:
    """A text as it stands between its fences."""
    found = re.search(r"^(`{3,})\n(.*)\n\1\Z", block, re.DOTALL | re.MULTILINE)
    assert found, block
    assert found.group(1) not in found.group(2)
    return found.group(2)


def refusal(result: Any) -> dict[str, str]:
    """The error of a call that was refused: a message, what to do, and a code, in words alone."""
    assert result.is_error
    assert result.structured_content is None
    (block,) = result.content
    found = re.fullmatch(r"(.+)\nWhat to do: (.+)\n\(([\w-]+)\)", block.text, re.DOTALL)
    assert found, block.text
    message, hint, code = found.groups()
    return {"message": message, "hint": hint, "code": code}


def stdio(root: Path, *arguments: str) -> StdioServerParameters:
    """`merkle mcp` as a client starts it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "indexer.cli", "-C", str(root), "mcp", *arguments],
        env=dict(os.environ),
    )


@contextlib.asynccontextmanager
async def forked_stdio(root: Path, *arguments: str) -> AsyncIterator[Any]:
    """A way to the same server without a start of its own; whatever it starts has one.

    The SDK's two ends of a pipe are alike: given streams, the one for servers serves a client.
    """
    parameters = stdio(root, *arguments)
    with Forked(
        [parameters.command, *parameters.args], env=parameters.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        ends = anyio.wrap_file(process.stdout), anyio.wrap_file(process.stdin)
        async with stdio_server(*ends) as streams:
            try:
                yield streams
            finally:
                # It ends with what it reads, and what is read of it then.
                process.stdin.close()
        assert process.wait(PATIENCE) == 0


class HttpServer(NamedTuple):
    """What `merkle mcp --http` prints: an address, and the header that a client has to send."""

    address: str
    header: str

    def headers(self) -> dict[str, str]:
        """The header as clients want it."""
        name, _, value = self.header.partition(": ")
        return {name: value}

    @contextlib.asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """A way there for the SDK's client."""
        async with (
            create_mcp_http_client(headers=self.headers()) as client,
            streamable_http_client(self.address, http_client=client) as streams,
        ):
            yield streams


@contextlib.contextmanager
def http_server(root: Path, *arguments: str) -> Iterator[HttpServer]:
    """`merkle mcp --http 0` in a process of its own; gives what it says about reaching it."""
    process = Forked(
        [sys.executable, "-P", "-m", "indexer.cli", "-C", str(root), "mcp", "--http", "0",
         *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        address = process.stderr.readline().strip()
        assert address.startswith("http://127.0.0.1:"), address + process.stderr.read()
        told = os.environ.get("MERKLE_MCP_TOKEN") is None
        yield HttpServer(address, process.stderr.readline().strip() if told else "")
    finally:
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
