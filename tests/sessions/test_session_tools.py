"""Calls and results: what an edit leaves alone, and which answers which."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.sessions import Placement, Session, import_session, make_content
from indexer.sessions.content import ContentError


def call(session: Session, city: str = "Rome", call_id: str | None = None) -> str:
    content = make_content("tool_io", payload={"city": city}, name="weather", role="assistant")
    given: dict[str, Any] = {"chat:call_id": call_id} if call_id else {}
    return session.append(content, Placement(role="assistant", attributes=given)).node_id


def result(session: Session, text: str = "sunny", call_id: str | None = None) -> str:
    content = make_content("tool_io", payload={"content": text}, name="weather", status="success")
    given: dict[str, Any] = {"chat:call_id": call_id} if call_id else {}
    return session.append(content, Placement(attributes=given)).node_id


def test_an_edit_keeps_kind_role_and_call_id(session: Session) -> None:
    asked = call(session, call_id="c1")
    content = make_content("tool_io", payload={"city": "Oslo"}, name="weather", direction="call")
    edit = session.edit(asked, content)
    node = session.view("@w").node(edit.node_id)
    assert node is not None
    assert (node.kind, node.role, node.content["call_id"]) == ("call", "assistant", "c1")
    (message,) = session.compile().messages
    assert (message.direction, message.call_id, message.content) == (
        "call", "c1", '{"city": "Oslo"}',
    )  # fmt: skip


def test_an_edit_cannot_turn_a_call_into_a_result(session: Session) -> None:
    asked, answered = call(session), result(session)
    before = session.export()
    for target, direction in ((asked, "result"), (answered, "call")):
        content = make_content("tool_io", payload={}, name="weather", direction=direction)
        with pytest.raises(ContentError, match=f"into a {direction}"):
            session.edit(target, content)
    assert session.export() == before


def test_results_answer_in_order_where_nobody_gave_ids(session: Session) -> None:
    call(session, "Rome")
    call(session, "Oslo", call_id="given")
    call(session, "Bern")
    result(session, "of Oslo", call_id="given")
    result(session, "of Rome")
    result(session, "of Bern")
    said = session.compile().messages
    answers = {m.call_id: m.content for m in said if m.direction == "result"}
    asked = {m.content: m.call_id for m in said if m.direction == "call"}
    assert {place: answers[call_id] for place, call_id in asked.items()} == {
        f'{{"city": "{city}"}}': f'{{"content": "of {city}"}}' for city in ("Rome", "Oslo", "Bern")
    }
    # A message is an object whose values may be anything.
    assert session.chat("openai")[1]["tool_call_id"] == "given"  # type: ignore[index]


def test_a_snapshot_brings_a_tools_call_back_as_what_it_was(session: Session) -> None:
    call(session, call_id="c1")
    result(session, call_id="c1")
    session.commit()
    again = import_session(session.export_snapshot(), "copy")
    assert [m.to_json() for m in again.compile().messages] == [
        m.to_json() for m in session.compile().messages
    ]
    assert again.chat("openai") == session.chat("openai")


def test_only_tools_have_a_direction() -> None:
    with pytest.raises(ContentError, match="direction"):
        make_content("dialogue", text="x", direction="call")
    with pytest.raises(ContentError, match="status"):
        make_content("tool_io", text="x", status="odd")
