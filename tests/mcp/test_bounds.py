"""Every answer of every tool has a bound in tokens, whatever is in the workspace."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from indexer import Workspace
from indexer.core.tokens import TiktokenCounter
from indexer.mcp.answers import Answer, Entry, blocks_within, fenced
from indexer.mcp.calls import Calls
from indexer.mcp.declarations import BY_NAME
from indexer.mcp.server import make_server
from indexer.service.served import start_service
from tests.support.processes import REPOSITORY
from tests.support.waiting import PATIENCE
from tests.support.wire import answer, call, end_service, refusal, texts, unfenced

COUNTER = TiktokenCounter()
LONG = "\u6f6e\u6c50" * 100_000
"""A text of which each character is a token or more."""


def tokens(result: Any) -> int:
    """What a whole result costs whoever reads it."""
    assert result.structured_content is None
    return sum(COUNTER.count_text(block.text) for block in result.content)


@pytest.fixture(scope="module", params=[600, pytest.param(3000, marks=pytest.mark.soak)])
def hostile(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A workspace of long names, long notes, a block of 720 KB and much that is not fresh.

    Its long file has this many lines: to read and to search them takes most of the time.
    """
    root, runtime = (Path(tempfile.mkdtemp(prefix="mk-mcp-")) for _ in range(2))
    odd = root / ("\u202e\u200b" * 30 + "```")
    odd.mkdir()
    for number in range(60):
        (odd / f"{number:03}-{LONG[:60]}.py").write_text(
            f"def tide_{number}():\n    return tide_0()\n"
        )
    # Not of comments: the parser reads on to the last one at each of them.
    text = "'''\n" + f"# {'tide ' * 20}\n" * request.param + "'''\n"
    (root / "big.py").write_text("tide = 1\n" + text)
    types = "".join(f'[types.kind{n}]\nfile = {{ use = "llm", model = "m" }}\n' for n in range(14))
    (root / "merkle.toml").write_text(
        '[types.outline]\nfile = "outline"\nfolder = "summarize"\n' + types
    )
    with Workspace.open(root) as workspace:
        workspace.scan()
        workspace.agent_add("alice", "synthesis")
        workspace.regenerate(frame_type="outline")
        for number in range(40):
            said = f"tide {number} ```` " + LONG[: 3000 * (number % 7)]
            workspace.put_frame("big.py", said, frame_type=f"note{number}", agent="alice")
        workspace.session_new("talk")
        workspace.session_append("talk", type="dialogue", role="user", text="x" * 720_000)
        workspace.session_append("talk", type="dialogue", role="user", text="The last word.")
        workspace.session_commit("talk")
        (root / "big.py").write_text("tide = 2\n" + text)
        workspace.scan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        patch.setenv("MERKLE_WATCH_IDLE_EXIT", "60s")
        patch.setenv("MERKLE_SERVICE_READY", "no")
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        start_service(root, time.monotonic() + PATIENCE)
    yield root
    end_service(root)
    shutil.rmtree(root)
    shutil.rmtree(runtime)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("status", {}),
    ("get_node", {"node": ""}),
    ("get_node", {"node": "big.py"}),
    ("get_node", {"node": "big.py", "max_tokens": 700}),
    ("get_node", {"node": "big.py", "source": True}),
    ("get_node", {"node": "big.py", "source": True, "max_tokens": 300}),
    ("compose", {"query": "tide"}),
    ("compose", {"query": "tide", "budget": 1000}),
    ("compose", {"budget": 150, "ids": "full"}),
    ("compose", {"nodes": ["big.py"], "budget": 30_000}),
    ("search", {"query": "tide", "limit": 100}),
    ("search", {"query": "tide", "budget": 500, "ids": "full"}),
    ("search", {"query": "tide", "kind": "symbol"}),
    ("search", {"query": "tide_0", "kind": "reference"}),
    ("search", {"query": "big.py", "kind": "impact", "budget": 200}),
    ("search", {"query": "tide", "kind": "text"}),
    ("put_frame", {"node": "", "seen": None, "type": "note", "content": "About all."}),
    ("synthesize", {"node": "", "type": "outline"}),
    ("regenerate", {"plan": True}),
    ("explain", {"node": "big.py", "type": "outline"}),
    ("diff", {"old": "@-1"}),
    ("session", {"action": "list"}),
    ("session", {"action": "log", "name": "talk"}),
    ("session", {"action": "show", "name": "talk", "snapshots": ["@t0"]}),
    ("session", {"action": "render", "name": "talk"}),
    ("session", {"action": "render", "name": "talk", "budget": 300}),
    ("session", {"action": "compile", "name": "talk"}),
    ("session", {"action": "pull", "name": "talk", "query": "tide", "budget": 900}),
    ("session", {"action": "record", "query": "tide", "budget": 900}),
]  # fmt: skip


def test_every_tool_keeps_to_its_bound(hostile: Path) -> None:
    async def everything() -> list[Any]:
        server = make_server(Calls(hostile, "alice"))
        async with Client(server, read_timeout_seconds=PATIENCE) as client:
            root = answer(await client.call_tool("get_node", {"node": ""}))["node_id"]
            for name, given in CALLS:
                if "seen" in given:
                    given = {**given, "seen": root}
                results.append((name, given, await client.call_tool(name, given)))
        return results

    results: list[Any] = []
    for name, given, result in asyncio.run(everything()):
        bound = BY_NAME[name].budget(given)
        assert answer(result)["freshness"], (name, given)
        assert tokens(result) <= bound, (name, given)
        # A bound is there to be used: what was left out did not fit.
        if "left_out" in answer(result) and name in ("get_node", "compose"):
            assert tokens(result) > bound // 3, (name, given)
        texts(result)
    assert {name for name, _ in CALLS} == set(BY_NAME)


def test_status_stays_below_400_tokens(hostile: Path) -> None:
    for agent in ("alice", "nobody" * 50, None):
        result = call(hostile, agent, "status")
        assert tokens(result) < 400
        told = answer(result)
        assert {"state", "root", "files", "frames"} <= set(told)
        assert " of types" in told["left_out"]


def test_the_newest_of_a_session_is_shown_first(hostile: Path) -> None:
    result = call(hostile, None, "session", action="render", name="talk", budget=500)
    first, last = texts(result)
    assert last == "The last word."
    assert set(first) == {"x"}
    assert f"the first {len(first):,} of 720,000 characters" in result.content[1].text


def test_a_manifest_is_of_just_what_was_shown(hostile: Path) -> None:
    result = call(hostile, "alice", "session", action="record", query="tide", budget=2000)
    with Workspace.open(hostile) as workspace:
        kept = workspace.replay(answer(result)["manifest_id"])
    assert len(texts(result)) == len(kept["messages"]) > 0
    assert "left_out" not in answer(result)


def test_an_error_does_not_repeat_everything_that_was_sent(hostile: Path) -> None:
    result = call(hostile, None, "get_node", node="\u6f6e" * 300_000)
    assert len(refusal(result)["message"]) < 1100
    assert tokens(result) < 3000


@pytest.mark.parametrize("budget", [0, 10, 60])
def test_a_budget_that_nothing_fits_into(hostile: Path, budget: int) -> None:
    result = call(hostile, None, "get_node", node="big.py", max_tokens=budget)
    assert answer(result)["left_out"]
    # The least that can be said: how fresh it is, and that there is more.
    assert tokens(result) <= max(budget, 40)


@pytest.mark.parametrize(
    "inside", ["```", "a\n````\nb", "`" * 50, "", "\u202etxt.exe", "\r\n", "x\r"]
)
def test_nothing_ends_a_fence_but_the_fence(inside: str) -> None:
    shown = unfenced(fenced(inside, "about"))
    assert "\u202e" not in shown
    assert "\r" not in shown


def test_what_is_too_large_lets_others_pass() -> None:
    entries = [Entry("notes", {"n": 0}, LONG), Entry("notes", {"n": 1}, "short")]
    counted: list[int] = []

    def count(given: Any) -> list[int]:
        counted.append(sum(map(len, given)))
        return [COUNTER.count_text(text) for text in given]

    document, *shown = blocks_within(Answer({"freshness": "fresh"}, entries), 200, count)
    assert [unfenced(text) for text in shown] == ["short"]
    assert "1 of texts" in document
    # What is much too long is not even sent to be counted.
    assert max(counted) < 10_000
