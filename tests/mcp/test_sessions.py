"""The session tool: a conversation kept by an agent, action by action."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer import Workspace
from indexer.mcp.declarations import SESSION_ACTIONS, SESSION_READS
from indexer.mcp.session_calls import ACTIONS
from indexer.service.client import Client, ServiceError
from tests.support.wire import answer, call, refusal


def session(root: Path, action: str, agent: str | None = "alice", /, **arguments: Any) -> Any:
    """One action; what it came to."""
    told = answer(call(root, agent, "session", action=action, **arguments))
    assert told["action"] == action
    assert told["freshness"]
    return told["result"]


def test_every_action_is_there() -> None:
    assert set(ACTIONS) == set(SESSION_ACTIONS)
    assert set(SESSION_ACTIONS) > SESSION_READS


def test_a_conversation(served: Path) -> None:
    name = {"name": "talk"}
    session(served, "new", **name, budget=10_000)
    first = session(served, "append", **name, type="dialogue", role="user", text="What is it?")
    session(served, "append", **name, type="dialogue", role="assistant", text="A tide table.")
    session(served, "commit", **name)
    target = first["id"]
    session(served, "edit", **name, target=target, text="What is this?")
    session(served, "annotate", **name, target=target, priority="pinned")
    session(served, "commit", **name)
    assert target in session(served, "select", "bob", **name, selector="@t0 .cb")["ids"]
    changed = session(served, "diff", "bob", **name, snapshots=["@t-1", "@t0"])
    assert changed["added"]
    thread = json.loads(session(served, "render", "bob", **name)["thread"])
    assert "What is it?" in {block["content"] for block in thread}
    before = json.loads(session(served, "render", "bob", **name, snapshots=["@t-1"])["thread"])
    assert len(before) < len(thread)
    compiled = session(served, "compile", "bob", **name)
    assert compiled["messages"][0]["content"] == "What is this?"
    assert session(served, "show", "bob", **name)["cycle"] == 2
    with Workspace.open(served) as workspace:
        assert '"agent":"alice"' in workspace.session_export("talk")["data"].replace(" ", "")
    assert [each["name"] for each in session(served, "list", None)["sessions"]] == ["talk"]


def test_it_is_the_same_session_that_commands_see(served: Path) -> None:
    session(served, "new", name="shared")
    session(served, "append", name="shared", type="output", text="From an agent.")
    with Workspace.open(served) as workspace:
        workspace.session_append("shared", type="output", text="From a person.")
        workspace.session_commit("shared")
        expected = workspace.session_compile("shared")
    assert session(served, "compile", None, name="shared") == expected


@pytest.mark.parametrize("agent", ["bob", "nobody", None], ids=["reader", "unknown", "none"])
def test_only_writers_change_one(served: Path, agent: str | None) -> None:
    before = answer(call(served, None, "session", action="list"))["result"]
    for action in set(SESSION_ACTIONS) - SESSION_READS:
        arguments = {"action": action, "name": "forbidden", "type": "output", "text": "x"}
        error = refusal(call(served, agent, "session", **arguments))
        assert error["code"] == "agent", action
        assert "merkle agent add" in error["hint"]
    assert answer(call(served, None, "session", action="list"))["result"] == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": "append", "name": "x"}, "needs type"),
        ({"action": "append", "type": "output", "text": "x"}, "needs name"),
        ({"action": "diff", "name": "x", "snapshots": ["@t0"]}, "needs 2 snapshots"),
        ({"action": "render", "name": "x", "snapshots": ["@t0", "@t-1"]}, "needs 1 snapshots"),
        ({"action": "show", "name": "nothing like it"}, "nothing like it"),
        ({"action": "annotate", "name": "x", "target": "y"}, "needs priority"),
        ({"action": "select", "name": "x"}, "needs selector"),
        ({"action": "pull", "name": "x"}, "needs nodes"),
    ],
)
def test_refusals(served: Path, arguments: dict[str, Any], words: str) -> None:
    error = refusal(call(served, "alice", "session", **arguments))
    assert words in error["message"]


def test_workspace_context_is_pulled_in_with_its_labels(served: Path) -> None:
    session(served, "new", name="pulling")
    told = answer(
        call(served, "alice", "session", action="pull", name="pulling", nodes=["src"], budget=500)
    )
    assert told["freshness"] == "fresh"
    assert told["result"]["items"]
    asked = session(served, "pull", name="pulling", query="water", budget=500, ttl=1)
    assert {item["path"] for item in asked["items"]} >= {"README.md"}
    compiled = session(served, "compile", name="pulling")
    assert compiled["messages"]


def test_a_composition_can_be_recorded(served: Path) -> None:
    told = answer(call(served, "alice", "session", action="record", nodes=["src"], budget=500))
    assert told["freshness"] == "fresh"
    with Workspace.open(served) as workspace:
        again = workspace.replay(told["result"]["manifest_id"])
    assert again["messages"] == told["result"]["messages"]


def test_a_block_whose_answer_was_lost_is_not_added_twice(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(served, "new", name="once")
    original, losses = Client.post, [ServiceError("the service stopped answering")]

    def losing(client: Client, path: str, body: dict[str, Any], **options: Any) -> dict[str, Any]:
        found = original(client, path, body, **options)
        if path == "/v1/session-append" and losses:
            raise losses.pop()
        return found

    monkeypatch.setattr(Client, "post", losing)
    session(served, "append", name="once", type="output", text="x")
    assert not losses
    assert session(served, "show", name="once")["commits"] == 1
