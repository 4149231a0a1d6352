"""C-Trees of a real service: over HTTP, and in the stream of events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from indexer.errors import MerkleError
from indexer.service import ctree_events
from tests.service.test_events import stream
from tests.support.space import Space


def told(lines: Any, last: str) -> list[dict[str, Any]]:
    """The events about C-Trees, up to the first of a kind."""
    found = []
    for line in lines:
        if line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            if event["event"].startswith("ctree_"):
                found.append(event)
            if event["event"] == last:
                return found
    raise AssertionError("the stream ended")


NAME = "a talk/1"


def followed(service: Any) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """What a stream tells of a session as it grows, and what both routes say of it then."""
    ask = service.client.post
    with stream(service.client.address) as lines:
        ask("/v1/session-new", {"name": NAME})
        law = {"type": "instruction", "text": "Be brief.", "id": "l"}
        ask("/v1/session-append", {"name": NAME, **law})
        message = {"role": "user", "content": [{"type": "text", "text": "one"}] * 2}
        ask("/v1/session-append-message", {"name": NAME, "message": message, "form": "openai"})
        ask("/v1/session-edit", {"name": NAME, "target": "l", "text": "Be kind."})
        ask("/v1/session-commit", {"name": NAME})
        events = told(lines, ctree_events.SNAPSHOT)
    place = f"/v1/sessions/{quote(NAME, safe='')}/ctrees"
    return events, service.client.get(place), service.client.get(f"{place}/tree")


def test_a_session_is_told_as_it_grows_and_can_be_asked_for(
    sample: Path, services: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    events, document, tree = followed(service)
    assert [event["event"] for event in events] == [ctree_events.NODE] * 4 + [ctree_events.SNAPSHOT]
    assert {event["session"] for event in events} == {NAME}
    first = events[0]["node"]
    assert (first["id"], first["type"], first["pinned"]) == ("l", "instruction", True)
    assert events[3]["node"]["node_type"] == "cb:edit"
    snapshot = events[-1]
    assert snapshot["cycle"] == 1
    compiler = snapshot["payload"]["compiler"]
    assert sorted(compiler["stages"]) == ["FROZEN", "HEADER", "RAW", "SPEC"]
    assert document["compiler"] == compiler
    assert document["snapshot"]["node_count"] == snapshot["payload"]["node_count"] == 3
    assert (tree["hashes"], tree["compiler"]) == (compiler["hashes"], None)
    assert tree["selection"]["selected"] == 3
    for wrong in ("/v1/sessions/nobody/ctrees", "/v1/sessions/a/ctrees?stage=RAW"):
        with pytest.raises(MerkleError):
            service.client.get(wrong)


def test_of_a_long_session_the_stages_are_not_sent_unasked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctree_events, "MOST", 1)
    space = Space()
    space.engine.session_new("long")
    payloads = []
    for text in ("one", "two"):
        space.engine.session_append("long", type="dialogue", text=text)
        sealed = space.engine.session_commit("long")
        (event,) = ctree_events.ctree_events(space.engine, "long", sealed)
        payloads.append(event["payload"])
    space.close()
    assert payloads[0]["compiler"]["stages"]["RAW"]["node_count"] == 1
    assert payloads[1] == {"node_count": 2, "compiler": None}
