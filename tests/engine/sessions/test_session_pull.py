"""Workspace context in a session: which frames, how fresh they were, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.core.fence import unfenced
from indexer.errors import UsageError
from indexer.sessions import import_session
from tests.support.space import Space, python


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space(clock=ManualClock(1_700_000_000_000_000_000))
    made.write("src/tide.py", python("tide", doc="Computes tides."))
    made.write("src/moon.py", python("moon", doc="Where the moon is."))
    made.settle()
    made.engine.session_new("talk")
    yield made
    made.close()


def blocks(space: Space, address: str = "@w") -> list[dict[str, Any]]:
    """Pulled blocks of a snapshot, as its document has them."""
    root = space.engine.session_show("talk", snapshot=address)["tree"]["root"]
    found: list[dict[str, Any]] = []
    pending = [root]
    while pending:
        node = pending.pop(0)
        pending = [*node.get("children", ()), *pending]
        if node["nodeType"] == "cb:context":
            found.append(node)
    return found


def test_a_snapshot_says_exactly_what_was_seen(space: Space) -> None:
    composed = space.engine.compose(["src/tide.py"])
    shown = sorted(composed["items"], key=lambda item: int(item["message"]))
    pulled = space.engine.session_pull("talk", ["src/tide.py"])
    assert [item["frame_id"] for item in pulled["items"]] == [item["frame_id"] for item in shown]
    assert pulled["manifest_id"] == composed["manifest_id"]
    space.engine.session_append("talk", type="dialogue", text="What is a tide?")
    thread = json.loads(space.engine.session_render("talk", snapshot="@w")["thread"])
    assert [m["content"] for m in thread] == [
        *(m["content"] for m in composed["messages"]),
        "What is a tide?",
    ]
    space.engine.session_commit("talk")
    space.write("src/tide.py", python("ebb"))
    for node, item in zip(blocks(space, "@c1"), shown, strict=True):
        assert node["merkle:frame_id"] == item["frame_id"]
        assert node["merkle:path"] == item["path"]
        assert node["merkle:freshness"] == item["freshness"] == "fresh"
        assert node["ttl"] == 1
    found = space.engine.session_select("talk", "@c1 .cb:context[merkle:freshness='fresh']")
    assert len(found["ids"]) == len(composed["items"])
    again = space.engine.session_pull("talk", ["src/tide.py"])
    (moved,) = [item for item in again["items"] if item["path"] == "src/tide.py"]
    assert moved["freshness"] == "stale"
    (block,) = [node for node in blocks(space) if node["id"] == moved["id"]]
    assert block["merkle:because"]


def test_every_block_names_the_frame_that_it_shows(space: Space) -> None:
    # The best match was stored last: the order of relevance is not that of the messages.
    space.write("a/first.py", python("one", doc="A tide is mentioned."))
    space.settle()
    space.write("z/tide.py", python("tide", doc="Tide upon tide, all about tide."))
    space.settle()
    composed = space.engine.compose([], query="tide")
    assert [item["message"] for item in composed["items"]] != [*range(len(composed["items"]))]
    pulled = space.engine.session_pull("talk", [], query="tide")
    texts = {node["id"]: str(node["content"]) for node in blocks(space)}
    for item in pulled["items"]:
        heading = unfenced(texts[item["id"]]).partition("\n")[0]
        name = f"{item['path'] or '.'}" + (f"::{item['symbol']}" if item["symbol"] else "")
        by = f" by {item['agent']})" if item["frame_id"] else ", lines "
        assert heading.startswith(f"{name} ({item['type']}{by}")
        assert (item["frame_id"] is None) == (item["content_id"] is not None)
    thread = json.loads(space.engine.session_render("talk", snapshot="@w")["thread"])
    assert [m["content"] for m in thread] == [m["content"] for m in composed["messages"]]
    assert {m["kind"] for m in thread} == {"context"}


def test_context_goes_after_its_time(space: Space) -> None:
    for given in ({}, {"ttl": 3}, {"ttl": 0}):
        space.engine.session_pull("talk", ["src/tide.py"], **given)
    counts = []
    for _ in range(5):
        space.engine.session_commit("talk")
        counts.append(len(blocks(space, "@t0")))
    one = counts[1]
    assert one > 0
    assert counts == [2 * one, one, one, 0, 0]


def test_a_pull_keeps_its_budget_and_that_of_the_session(space: Space) -> None:
    everything = space.engine.session_pull("talk", budget=5000)
    assert len(everything["items"]) > 1
    some = space.engine.session_pull("talk", budget=everything["tokens"] // 2)
    assert 0 < some["tokens"] <= everything["tokens"] // 2
    assert some["omitted"]
    space.engine.session_new("small", budget=everything["tokens"] - 1, on_budget="reject")
    length = space.engine.records.journal.last
    before = space.engine.session_export("small")
    with pytest.raises(UsageError, match="budget"):
        space.engine.session_pull("small", budget=5000)
    assert space.engine.records.journal.last == length
    assert space.engine.session_export("small") == before


def test_a_pull_is_one_journal_record_and_replays(space: Space) -> None:
    length = space.engine.records.journal.last
    assert len(space.engine.session_pull("talk", budget=5000)["items"]) > 1
    assert space.engine.records.journal.last == length + 1
    data = space.engine.session_export("talk")["data"]
    assert import_session(data, "copy").export().decode() == data
    space.reopen()
    assert space.engine.session_export("talk")["data"] == data
    assert space.engine.validate()["errors"] == []


def test_a_pull_that_is_asked_for_again_is_done_once(space: Space) -> None:
    with space.engine.sessions.requested("token", False):
        first = space.engine.session_pull("talk", budget=5000)
    length = space.engine.records.journal.last
    space.write("src/tide.py", python("ebb"))
    with space.engine.sessions.requested("token", True):
        again = space.engine.session_pull("talk", budget=5000)
    assert again["items"] == first["items"]
    assert space.engine.records.journal.last == length


def test_bad_requests_change_nothing(space: Space) -> None:
    length = space.engine.records.journal.last
    for name, nodes in (("nobody", ["src"]), ("talk", ["nowhere.py"])):
        with pytest.raises(UsageError):
            space.engine.session_pull(name, nodes)
    assert space.engine.records.journal.last == length


def test_compaction_keeps_what_a_session_has_seen(space: Space) -> None:
    pulled = space.engine.session_pull("talk", ["src/tide.py"], max_frames=1)
    assert [item["path"] for item in pulled["items"]] == ["src/tide.py"]
    space.engine.session_commit("talk")
    for name in ("tide", "moon"):
        space.write(f"src/{name}.py", python(f"{name}_again"))
    space.settle()
    assert isinstance(space._clock, ManualClock)
    space._clock.advance(3600)
    assert space.engine.compact(60.0)["dropped"] > 0

    def kept(path: str) -> dict[str, bool]:
        frames = space.engine.list_frames(path)["frames"]
        return {frame["frame_id"]: frame["has_body"] for frame in frames}

    assert kept("src/tide.py")[pulled["items"][0]["frame_id"]]
    assert not all(kept("src/moon.py").values())
