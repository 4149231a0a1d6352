"""Logs that were recorded under the first rules: they replay, continue and render as they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer.core.canonical import content_hash
from indexer.core.clock import ManualClock
from indexer.errors import MerkleError
from indexer.sessions import Session, import_session, make_content
from indexer.sessions.documents import document_bytes
from indexer.sessions.sent import SentError
from indexer.sessions.stored import all_rows, counters_of, load_state
from indexer.sessions.stored_records import row_of

RECORDED = json.loads((Path(__file__).parent / "recorded" / "version_1.json").read_text())


@pytest.fixture
def old() -> Session:
    clock = ManualClock(1_700_000_100_000_000_000)
    return Session.replay(RECORDED["export"]["records"], clock=clock)


def test_a_log_of_the_first_version_replays_to_the_bytes_it_had(old: Session) -> None:
    assert old.state.version == 1
    assert old.export() == document_bytes(RECORDED["export"])
    assert old.render("@w").decode() == RECORDED["render"]
    assert old.export_snapshot() == document_bytes(RECORDED["snapshot"])
    assert import_session(RECORDED["export"], "copy").export() == old.export()


def test_it_loads_from_rows_as_it_was(old: Session) -> None:
    state = old.state
    blobs = {key: json.dumps(state.log.blobs[key]) for key in state.log.blobs}
    rows = [row_of(record) for record in state.records]
    again = Session(load_state(rows, all_rows(state), blobs, counters_of(state)))
    assert again.render("@w").decode() == RECORDED["render"]
    assert (again.state.version, again.tokens) == (1, old.tokens)


def test_what_is_added_to_it_follows_its_own_rules(old: Session) -> None:
    added = old.append(make_content("dialogue", text="more"))
    plain = {"content_type": "dialogue", "role": "user", "text": "more"}
    assert added.content_hash == content_hash(plain)
    result = old.append(make_content("tool_io", payload={"hits": 1}, name="grep"))
    node = old.view("@w").node(result.node_id)
    assert node is not None
    assert node.content == '{"hits": 1}'
    assert Session.replay(old.records).export() == old.export()


def test_a_new_session_hashes_nulls_and_shows_tools_whole(session: Session) -> None:
    added = session.append(make_content("dialogue", text="more"))
    plain = {"content_type": "dialogue", "role": "user", "text": "more", "name": None}
    assert added.content_hash == content_hash(plain)
    result = session.append(make_content("tool_io", payload={"hits": 1}, name="grep"))
    node = session.view("@w").node(result.node_id)
    assert node is not None
    assert node.content["tool_name"] == "grep"
    assert session.records[0].to_json()["format"] == "merkle-session/2"


def test_what_it_gives_out_is_whole_and_fenced_all_the_same(old: Session) -> None:
    calls = [m for m in old.compile().messages if m.direction is not None]
    assert [(m.name, m.direction, m.call_id) for m in calls] == [
        ("weather", "call", "c1"),
        ("weather", "result", "c1"),
    ]
    (context,) = [m for m in old.compile().messages if m.context]
    assert context.content.startswith("[data ")
    assert "And app.py?" not in context.content


def test_its_attempts_say_that_they_do_not_know_what_was_sent(old: Session) -> None:
    with pytest.raises(SentError, match="without what it sent"):
        old.sent("a1")


@pytest.mark.parametrize("form", ["merkle-session/3", None, 2])
def test_a_version_from_the_future_is_refused(form: Any) -> None:
    records = json.loads(json.dumps(RECORDED["export"]["records"]))
    records[0]["format"] = form
    with pytest.raises(MerkleError, match="unknown format"):
        Session.replay(records)
