"""`merkle agent`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indexer.cli.agent import ROLES
from indexer.engine.frames import agents

pytestmark = pytest.mark.usefixtures("kept_open")


def test_the_roles_are_the_engines() -> None:
    assert ROLES == agents.ROLES


def test_agents_are_added_changed_and_listed(anywhere: Path, merkle: Any) -> None:
    at = ("-C", anywhere, "agent")
    assert "no agents" in merkle(*at, "list").out
    added = merkle(*at, "add", "alice", "--role", "writer", "--json")
    assert added.code == 0
    assert added.json == {"agents": [{"id": "alice", "role": "writer", "can": ["read", "write"]}]}
    assert merkle(*at, "list", "--json").json == added.json
    assert merkle(*at, "--json", "list").json == added.json
    line = ["add", "alice", "--role", "synthesis", "--can", "synthesize", "--can", "read"]
    assert merkle(*at, *line).out == "alice  synthesis  read, synthesize\n"
    assert merkle(*at, "list").out == "alice  synthesis  read, synthesize\n"


def test_refusals(scanned: Path, merkle: Any) -> None:
    at = ("-C", scanned, "--json", "agent")
    for line in (
        ["add", "merkle:outline", "--role", "writer"], ["add", "a b", "--role", "writer"],
        ["add", "evil\x1b[31m", "--role", "writer"],
    ):  # fmt: skip
        ran = merkle(*at, *line)
        assert (ran.code, ran.json["error"]["code"]) == (2, "usage"), line
        assert "letters, digits" in ran.json["error"]["message"]
    ran = merkle(*at, "add", "bob", "--role", "reader", "--can", "write")
    assert (ran.code, ran.json["error"]["code"]) == (2, "agent")
    for line in (["add", "bob"], ["add", "bob", "--role", "king"], ["nothing"], []):
        ran = merkle(*at, *line)
        assert (ran.code, ran.json["error"]["code"]) == (2, "usage"), line
        assert " agent" in ran.json["error"]["hint"]
    assert merkle(*at, "list").json == {"agents": []}
