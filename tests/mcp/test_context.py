"""compose, search and recorded manifests, as agents get them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from indexer import Workspace
from tests.support.wire import answer, call, inside, refusal, texts


def test_compose_keeps_to_its_budget_and_labels_every_item(served: Path) -> None:
    result = call(served, None, "compose", nodes=["src"], budget=300)
    found = answer(result)
    assert found["tokens"] <= found["budget"] == 300
    assert found["freshness"] == "fresh"
    assert texts(result)
    again = call(served, "bob", "compose", nodes=["src"], budget=300)
    assert (answer(again), texts(again)) == (found, texts(result))
    nothing = call(served, None, "compose", nodes=["src"], budget=0)
    assert (answer(nothing)["freshness"], texts(nothing)) == ("none", [])
    assert len(texts(call(served, None, "compose", max_frames=1, types=["outline"]))) == 1


def test_compose_is_what_python_and_the_command_get(served: Path) -> None:
    with Workspace.open(served) as workspace:
        # What is said about the texts is paid for from the same budget.
        expected = workspace.compose(
            ["README.md"], query="water", sources=["node", "parents"], budget=7800
        )
    arguments = {"nodes": ["README.md"], "query": "water", "sources": ["node", "parents"]}
    found = call(served, None, "compose", **arguments, ids="full")
    assert answer(found)["manifest_id"] == expected["manifest_id"]
    assert texts(found) == [one["content"].rstrip("\n") for one in expected["messages"]]
    for item, block in zip(
        sorted(expected["items"], key=lambda one: one["message"]), found.content[1:], strict=True
    ):
        about, fence, data, heading = block.text.split("\n")[:4]
        assert about == (f"frame {item['frame_id']}" if item["frame_id"] else "source")
        assert set(fence) == {"`"}
        assert data.startswith("[data ")
        assert heading.startswith(f"{item['path'] or '.'} (")


def test_search_finds_the_most_relevant_first(served: Path) -> None:
    result = call(served, None, "search", query="tide", limit=2)
    found = answer(result)
    assert len(found["results"]) == 2 <= found["found"]
    assert found["freshness"] == "fresh"
    assert len(texts(result)) == 2
    assert all("tide" in text.lower() for text in texts(result))
    assert {"path", "freshness", "frame_id", "type"} <= set(found["results"][0])
    none = answer(call(served, None, "search", query="zeppelin"))
    assert (none["found"], none["freshness"]) == (0, "none")
    refusal(call(served, None, "search", query="  "))
    refusal(call(served, None, "search"))


def test_what_is_stale_says_so(project: Path) -> None:
    seen = answer(call(project, "alice", "get_node", node="README.md"))["node_id"]
    note = {"node": "README.md", "seen": seen, "type": "note", "content": "About zeppelins."}
    answer(call(project, "alice", "put_frame", **note))
    fresh = answer(call(project, None, "search", query="zeppelins"))
    assert (fresh["freshness"], fresh["found"]) == ("fresh", 1)
    (project / "README.md").write_text("# Something else\n")
    stale = answer(call(project, None, "search", query="zeppelins"))
    assert stale["freshness"] == stale["results"][0]["freshness"] == "stale"
    assert stale["results"][0]["because"]
    composed = call(project, None, "compose", nodes=["README.md"], types=["note"])
    assert answer(composed)["freshness"] == "stale"
    assert answer(composed)["not_fresh"][0]["because"]
    assert ", stale)" in texts(composed)[0]
    strict = call(project, None, "compose", nodes=["README.md"], types=["note"], require_fresh=True)
    assert (texts(strict), answer(strict)["freshness"]) == ([], "none")


def test_a_recorded_manifest_is_a_resource(project: Path) -> None:
    with Workspace.open(project) as workspace:
        recorded = workspace.compose(["src"], budget=500, record=True)

    async def session(client: Client) -> Any:
        uri = f"merkle://manifest/{recorded['manifest_id']}"
        return json.loads((await client.read_resource(uri)).contents[0].text)

    (project / "src" / "main.py").write_text("def other():\n    return 2\n")
    found = inside(project, None, session)
    assert found["messages"] == recorded["messages"]
    assert found["manifest_id"] == recorded["manifest_id"]
    # Fresh as it was then, and it says that this is of then.
    assert (found["freshness"], found["freshness_as_of"]) == ("fresh", "recorded")


@pytest.mark.parametrize(
    "arguments",
    [{"nodes": ["gone"]}, {"order": "luck"}, {"sources": ["node"]}, {"sources": ["moon"]},
     {"query": ""}, {"budget": "much"}],
)  # fmt: skip
def test_refusals(served: Path, arguments: dict[str, Any]) -> None:
    assert refusal(call(served, None, "compose", **arguments))["hint"]


def test_manifests_can_be_compared(project: Path) -> None:
    with Workspace.open(project) as workspace:
        first = workspace.compose(["src"], record=True)["manifest_id"]
        second = workspace.compose(["README.md"], record=True)["manifest_id"]
    found = answer(call(project, None, "diff", old=first, new=second))
    assert found["freshness"] == "recorded"
    assert found["added"] or found["removed"]
