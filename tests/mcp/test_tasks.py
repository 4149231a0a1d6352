"""Things that agents do, each in one or two calls, with the SDK's own client."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from indexer import Workspace
from indexer.mcp.calls import Calls
from indexer.mcp.server import make_server
from tests.support.processes import REPOSITORY
from tests.support.waiting import PATIENCE
from tests.support.wire import answer, end_service, texts

QUALITY = "ingest/saltgauge/quality.py"


class Agent:
    """A client that counts its calls."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls = 0

    async def __call__(self, tool: str, /, **arguments: Any) -> Any:
        self.calls += 1
        return await self._client.call_tool(tool, arguments)


Task = Callable[[Agent, Path], Awaitable[None]]


async def where_is_it_defined(agent: Agent, root: Path) -> None:
    found = answer(await agent("search", query="checksum", kind="definition"))
    (symbol,) = found["symbols"]
    assert symbol["node"] == "ingest/saltgauge/sentences.py::checksum"
    assert symbol["lines"].partition(":")[0].isdigit()


async def who_calls_it(agent: Agent, root: Path) -> None:
    found = answer(await agent("search", query=f"{QUALITY}::judge", kind="caller"))
    (use,) = found["uses"]
    assert (use["at"].partition(":")[0], use["in"]) == (QUALITY, "check")


async def where_does_it_say_that(agent: Agent, root: Path) -> None:
    found = answer(await agent("search", query='(text, "wrong checksum")', kind="text"))
    (line,) = found["results"]
    assert line["path"] == "ingest/saltgauge/sentences.py"
    assert "SentenceError(text" in line["excerpt"]


async def show_me_a_function(agent: Agent, root: Path) -> None:
    result = await agent("get_node", node=f"{QUALITY}::judge")
    (source,) = texts(result)
    assert source.startswith("def judge(")
    assert "max_gap" in source
    assert (answer(result)["freshness"], answer(result)["symbol"]) == ("fresh", "judge")


async def show_me_some_lines(agent: Agent, root: Path) -> None:
    result = await agent("get_node", node=QUALITY, lines="1:3")
    assert texts(result) == ["\n".join((root / QUALITY).read_text().split("\n")[:3]).rstrip()]
    assert answer(result)["lines"] == [1, 3]


async def what_would_a_change_affect(agent: Agent, root: Path) -> None:
    found = answer(await agent("search", query=f"{QUALITY}::judge", kind="impact"))
    reached = {use["at"].partition(":")[0]: use["distance"] for use in reversed(found["uses"])}
    assert reached[QUALITY] == 1
    assert reached["ingest/saltgauge/cli.py"] == 2


async def what_is_known_about_a_question(agent: Agent, root: Path) -> None:
    result = await agent("compose", query="mark spikes and gaps of readings", budget=2000)
    assert any(QUALITY in line for text in texts(result) for line in text.split("\n")[:2])


async def which_names_are_there(agent: Agent, root: Path) -> None:
    found = answer(await agent("search", query="Quality", kind="symbol"))
    called = {(one["path"], one["symbol"]) for one in found["results"][:2]}
    assert called == {
        ("dashboard/src/types.ts", "Quality"), ("ingest/saltgauge/readings.py", "Quality"),
    }  # fmt: skip


async def keep_what_was_learned(agent: Agent, root: Path) -> None:
    seen = answer(await agent("get_node", node=QUALITY, max_frames=0))["node_id"]
    note = {"node": QUALITY, "seen": seen, "type": "note", "content": "Spikes never count."}
    assert answer(await agent("put_frame", **note))["freshness"] == "fresh"


async def say_it_better(agent: Agent, root: Path) -> None:
    found = answer(await agent("get_node", node=QUALITY, type="note"))
    (old,) = found["frames"]
    note = {"node": QUALITY, "seen": found["node_id"], "type": "note", "content": "Spikes do not."}
    made = answer(await agent("put_frame", **note, replaces=[old["frame_id"]]))
    assert made["replaced"] == [old["frame_id"]]


async def what_changed_and_is_stale(agent: Agent, root: Path) -> None:
    (root / QUALITY).write_text((root / QUALITY).read_text() + "\nEND = 1\n")
    changed = answer(await agent("diff", old="@-1"))
    assert changed["modified"] == [QUALITY]
    told = answer(await agent("status"))
    assert {"path": QUALITY, "type": "note"}.items() <= told["not_fresh"][0].items()


TASKS: list[Task] = [
    where_is_it_defined, who_calls_it, where_does_it_say_that, show_me_a_function,
    show_me_some_lines, what_would_a_change_affect, what_is_known_about_a_question,
    which_names_are_there, keep_what_was_learned, say_it_better, what_changed_and_is_stale,
]  # fmt: skip


@pytest.fixture
def sample() -> Iterator[Path]:
    """The sample workspace with its outlines and an agent."""
    root = Path(tempfile.mkdtemp(prefix="mk-mcp-")) / "w"
    shutil.copytree(REPOSITORY / "sample_workspace", root)
    with Workspace.open(root) as workspace:
        workspace.scan()
        workspace.agent_add("alice", "writer")
        workspace.regenerate()
    yield root
    end_service(root)
    shutil.rmtree(root.parent, ignore_errors=True)


def test_tasks_take_one_or_two_calls_each(sample: Path) -> None:
    async def work() -> dict[str, int]:
        async with Client(
            make_server(Calls(sample, "alice")), read_timeout_seconds=PATIENCE
        ) as client:
            for task in TASKS:
                agent = Agent(client)
                await task(agent, sample)
                needed[task.__name__] = agent.calls
        return needed

    needed: dict[str, int] = {}
    asyncio.run(work())
    assert len(needed) == len(TASKS) == 11
    assert set(needed.values()) <= {1, 2}, needed
