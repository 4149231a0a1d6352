"""Agents at work while their service is killed again and again."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest
from mcp import Client

from indexer import Workspace
from tests.support.waiting import PATIENCE
from tests.support.wire import answer, end_service, service_pid, stdio

ROUNDS = 60
KILLS = 5


@pytest.mark.soak
def test_what_was_acknowledged_survives_every_kill(project: Path) -> None:
    chance = random.Random(20)
    acknowledged: dict[str, set[str]] = {"alice": set(), "carol": set()}
    done = asyncio.Event()

    async def work(who: str) -> None:
        server = stdio(project, "--agent", who)
        async with Client(server, read_timeout_seconds=PATIENCE) as client:
            for number in range(ROUNDS):
                node = answer(await client.call_tool("get_node", {"node": "README.md"}))
                note = {"node": "README.md", "seen": node["node_id"], "type": f"note{number % 7}",
                        "content": f"{who} {number}", "ids": "full"}  # fmt: skip
                stored = answer(await client.call_tool("put_frame", note))
                acknowledged[who].add(stored["frame_id"])

    async def kill() -> None:
        killed: set[int | None] = set()
        while len(killed) < KILLS and not done.is_set():
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            pid = service_pid(project)
            if pid is not None and pid not in killed:
                await asyncio.to_thread(end_service, project, signal.SIGKILL)
                killed.add(pid)

    async def everything() -> None:
        killer = asyncio.create_task(kill())
        await asyncio.gather(work("alice"), work("carol"))
        done.set()
        await killer

    asyncio.run(everything())
    with Workspace.open(project) as workspace:
        frames = workspace.list_frames("README.md")["frames"]
        for who, ids in acknowledged.items():
            kept = {frame["frame_id"] for frame in frames if frame["agent"] == who}
            assert kept == ids
            assert len(ids) == ROUNDS
        assert workspace.validate(content=True)["valid"]
