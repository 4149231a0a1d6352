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
from tests.support.wire import answer, call, refusal, texts


def session(root: Path, action: str, agent: str | None = "alice", /, **arguments: Any) -> Any:
    """One action; what it came to."""
    told = answer(call(root, agent, "session", action=action, **arguments))
    assert told["action"] == action
    assert told["freshness"]
    return told


def shown(root: Path, action: str, **arguments: Any) -> list[str]:
    """The texts that an action shows."""
    return texts(call(root, "bob", "session", action=action, **arguments))


def test_every_action_is_there() -> None:
    assert {*ACTIONS, "record"} == set(SESSION_ACTIONS)
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
    thread = shown(served, "render", **name)
    assert "What is it?" in thread
    assert len(shown(served, "render", **name, snapshots=["@t-1"])) < len(thread)
    assert shown(served, "compile", **name) == ["What is this?", "A tide table."]
    assert '"nodeType"' in shown(served, "show", **name, snapshots=["@t0"])[0]
    assert session(served, "show", "bob", **name)["cycle"] == 2
    told = session(served, "log", "bob", **name)["records"]
    assert {record["author"] for record in told} == {"alice"}
    assert [each["name"] for each in session(served, "list", None)["sessions"]] == ["talk"]


def test_sessions_are_kept_by_agents_too(served: Path) -> None:
    name = {"name": "trunk"}
    session(served, "new", **name)
    said = session(served, "append", **name, type="dialogue", text="draft")["id"]
    session(served, "set", **name, target=said, text="final", ttl=5)
    done = session(
        served, "set", **name, target=said,
        headers={"priority": 3, "attributes": {"data_n": 1}, "no_ttl": True},
    )  # fmt: skip
    assert (done["priority"], done["expires"], done["attributes"]) == (3, None, {"data_n": 1})
    session(served, "commit", **name)
    session(served, "fork", **name, other="branch", snapshots=["@t0"])
    session(served, "append", name="branch", type="dialogue", text="elsewhere")
    session(served, "commit", name="branch")
    merged = session(served, "merge", **name, other="branch")
    assert (merged["turns"], merged["conflicts"]) == (1, [])
    session(served, "annotate", **name, target=said, priority="skip", reason="old news")
    session(served, "rename", name="branch", other="twig")
    session(served, "delete", name="twig")
    assert session(served, "restore", name="twig", other="leaf")["name"] == "leaf"
    session(served, "delete", name="leaf")
    records = session(served, "log", "bob", **name)["records"]
    assert [r["op"] for r in records[:2]] == ["annotate", "merge"]
    assert records[0]["reason"] == "old news"
    session(served, "delete", **name)


def test_it_is_the_same_session_that_commands_see(served: Path) -> None:
    session(served, "new", name="shared")
    session(served, "append", name="shared", type="output", text="From an agent.")
    with Workspace.open(served) as workspace:
        workspace.session_append("shared", type="output", text="From a person.")
        workspace.session_commit("shared")
        expected = workspace.session_compile("shared")
    result = call(served, None, "session", action="compile", name="shared")
    assert texts(result) == [message["content"] for message in expected["messages"]]
    assert answer(result)["token_count"] == expected["token_count"]


def test_a_provider_s_form_the_budget_and_the_tree(served: Path) -> None:
    name = {"name": "formed"}
    session(served, "new", **name)
    session(served, "append", **name, type="instruction", text="Be brief.")
    said = session(served, "append", **name, type="dialogue", role="user", text="Why?")["id"]
    for form in ("openai", "anthropic"):
        result = call(served, None, "session", action="compile", format=form, **name)
        with Workspace.open(served) as workspace:
            expected = workspace.session_compile("formed", form=form)
        assert len(texts(result)) == len(expected["messages"])
        assert answer(result).get("system") == expected.get("system")
    assert session(served, "budget", None, **name)["max_tokens"] is None
    assert session(served, "budget", budget=90, **name)["max_tokens"] == 90
    shown = session(served, "tree", None, **name)
    assert said[:12] in json.dumps(shown["tree"])
    assert len(shown["nodes"]) == 2
    session(served, "delete", **name)


@pytest.mark.parametrize("agent", ["bob", "nobody", None], ids=["reader", "unknown", "none"])
def test_only_writers_change_one(served: Path, agent: str | None) -> None:
    before = answer(call(served, None, "session", action="list"))
    for action in set(SESSION_ACTIONS) - SESSION_READS:
        arguments = {"action": action, "name": "forbidden", "type": "output", "text": "x"}
        arguments |= {"budget": 5000} if action == "budget" else {}
        error = refusal(call(served, agent, "session", **arguments))
        assert error["code"] == "agent", action
        assert "merkle agent add" in error["hint"]
    assert answer(call(served, None, "session", action="list")) == before


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
        ({"action": "fork", "name": "x"}, "needs other"),
        ({"action": "merge", "name": "x"}, "needs other"),
        ({"action": "set", "name": "x", "target": "y", "headers": {"id": "z"}}, "cannot be set"),
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
    assert told["items"]
    asked = session(served, "pull", name="pulling", query="water", budget=500, ttl=1)
    assert {item["path"] for item in asked["items"]} >= {"README.md"}
    compiled = session(served, "compile", name="pulling")
    assert compiled["messages"]


def test_a_composition_can_be_recorded(served: Path) -> None:
    result = call(served, "alice", "session", action="record", nodes=["src"], budget=500)
    told = answer(result)
    assert told["freshness"] == "fresh"
    with Workspace.open(served) as workspace:
        again = workspace.replay(told["manifest_id"])
    assert [message["content"].rstrip("\n") for message in again["messages"]] == texts(result)


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
