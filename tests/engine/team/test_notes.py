"""Notes through a team's store: signed, their authors', checked when they come, agreed to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.core.frames import FrameId, body_hash, key_of_note
from indexer.engine.team.notes import (
    UnsignedNotesError,
    as_note,
    due_notes,
    note_exchange,
)
from indexer.shared.base import Entry
from indexer.shared.client import Client, Membership
from tests.support.team import Member

FILES = {"a.py": "def a():\n    return 1\n", "b.py": "def b():\n    return 2\n"}
SECRET = "AKIA" + "QX7ZK2MB4NR6TL3W"
Joins = Callable[..., Member]


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file, or where a test asks for it a database of a real server."""
    monkeypatch.setenv("MERKLE_TEAM_KEY", "a key of the team")
    if getattr(request, "param", "") == "postgresql":
        return str(request.getfixturevalue("url"))
    return f"sqlite://{tmp_path}/team.db"


@pytest.fixture
def joins(store: str, members: list[Member]) -> Joins:
    def join(notes: bool = True) -> Member:
        declared = f'[shared]\nurl = "{store}"\nnotes = {str(notes).lower()}\n'
        members.append(Member(FILES, declared))
        members[-1].open().scan()
        return members[-1]

    return join


def write(member: Member, node: str, text: str, agent: str = "ann", **more: Any) -> str:
    return str(member.open().note(node, text, agent=agent, **more)["frame_id"])


def said(member: Member) -> list[tuple[str, str | None, str]]:
    found = member.open().notes()["notes"]
    return [(one["path"], one["symbol"], f"{one['agent']}: {one['content']}") for one in found]


def put(store: str, line: dict[str, Any], key: str = "a key of the team") -> None:
    """What a member, or somebody without the key, could put there."""
    body = json.dumps(line, sort_keys=True, separators=(",", ":"))
    named = key_of_note(FrameId(bytes.fromhex(line["frame_id"])))
    client = Client(Membership(store, "team", False, 5, 60, key))
    client.put([Entry(named, 9, body_hash(body), body)])
    client.close()


def remove(store: str) -> None:
    for end in ("", "-wal", "-shm"):
        Path(store.partition("://")[2] + end).unlink(missing_ok=True)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
def test_notes_reach_the_others_as_their_authors(joins: Joins) -> None:
    one, other = joins(), joins()
    write(one, "a.py::a", "mind the unit")
    write(one, "b.py", "start here", agent="bob")
    assert one.open().shared_push()["notes"] == 2
    assert one.open().shared_push()["notes"] == 0
    write(other, "a.py", "mine", agent="cat")
    pulled = other.open().shared_pull()
    assert (pulled["notes"], pulled["refused"]) == (2, 0)
    assert said(other) == [
        ("a.py", None, "cat: mine"), ("a.py", "a", "ann: mind the unit"),
        ("b.py", None, "bob: start here"),
    ]  # fmt: skip
    assert {one["id"] for one in other.open().list_agents()["agents"]} == {"ann", "bob", "cat"}
    assert other.open().shared_pull()["notes"] == 0
    assert other.open().validate()["errors"] == []
    # Notes are no results: nothing was computed, so there are none.
    assert (pulled["pulled"], pulled["known"]) == (0, 0)


def test_what_was_replaced_or_withdrawn_counts_no_longer_elsewhere(joins: Joins) -> None:
    one, other = joins(), joins()
    old, wrong, more = (write(one, "a.py", text) for text in ("old", "wrong", "wrong too"))
    one.open().shared_push()
    other.open().shared_pull()
    assert len(said(other)) == 3
    write(one, "a.py", "new", replaces=[old])
    one.open().withdraw_note(wrong, agent="ann")
    one.open().shared_push()
    other.open().shared_pull()
    assert sorted(text for *_, text in said(other)) == ["ann: new", "ann: wrong too"]
    one.open().withdraw_note(more, agent="ann")
    one.open().shared_push()
    other.open().shared_pull()
    assert [text for *_, text in said(other)] == ["ann: new"]


def test_whoever_follows_is_told_of_what_came(joins: Joins) -> None:
    one, other = joins(), joins()
    old = write(one, "a.py", "old")
    told: list[tuple[str, str, str]] = []
    other.open().frame_subscribers.append(
        lambda events: told.extend((each.action, each.path, each.because) for each in events)
    )
    one.open().shared_push()
    other.open().shared_pull()
    assert told == [("written", "a.py", "noted by ann")]
    one.open().withdraw_note(old, agent="ann")
    one.open().shared_push()
    other.open().shared_pull()
    assert told[1:] == [("superseded", "a.py", "noted by ann")]


def test_status_tells_what_is_due_and_when_it_last_went(joins: Joins) -> None:
    one, silent = joins(), joins(notes=False)
    write(one, "a.py", "first")
    before = one.open().shared_status()
    assert (before["notes_due"], before["notes_exchanged_at"]) == (1, None)
    one.open().shared_push()
    write(one, "b.py", "second")
    after = one.open().shared_status()
    assert after["notes_due"] == 1
    assert after["notes_exchanged_at"] is not None
    # What came from the team is not due to it.
    other = joins()
    other.open().shared_pull()
    assert other.open().shared_status()["notes_due"] == 0
    status = silent.open().shared_status()
    assert (status["notes_due"], status["notes_exchanged_at"]) == (None, None)


def test_a_pull_from_a_replaced_store_lets_everything_be_due_again(
    joins: Joins, store: str
) -> None:
    one = joins()
    write(one, "a.py", "first")
    one.open().shared_push()
    one.open().shared_pull()
    assert one.open().shared_status()["notes_due"] == 0
    remove(store)
    one.open().shared_pull()
    assert one.open().shared_status()["notes_due"] == 1


@pytest.mark.parametrize("others", [0, 1])
def test_a_store_that_is_replaced_before_its_log_was_read_is_given_everything_too(
    joins: Joins, store: str, others: int
) -> None:
    one, other = joins(), joins()
    engine, client = one.open(), Client(Membership(store, "team", team_key="a key of the team"))
    notes = note_exchange(engine, client)
    notes.take()
    write(one, "a.py", "first")
    assert notes.give().sent == 1
    remove(store)
    for number in range(others):
        write(other, "b.py", f"of another store {number}", agent="bob")
        other.open().shared_push()
    assert notes.take().added == others
    assert notes.give().sent == 1
    # From now on the log tells which store it is, and nothing is offered again.
    notes.take()
    assert one.open().shared_status()["notes_due"] == 0
    assert notes.standing.given == due_notes(engine.frames.store, 0)[1]
    other.open().shared_pull()
    assert ("a.py", None, "ann: first") in said(other)
    client.close()


@pytest.mark.parametrize("others", [0, 1])
def test_a_store_that_is_set_back_to_before_a_note_is_given_it_again(
    joins: Joins, store: str, others: int
) -> None:
    one, other = joins(), joins()
    file = Path(store.partition("://")[2])
    write(other, "b.py", "before", agent="bob")
    other.open().shared_push()
    engine, client = one.open(), Client(Membership(store, "team", team_key="a key of the team"))
    notes = note_exchange(engine, client)
    notes.take()
    saved = sqlite3.connect(file).serialize()
    write(one, "a.py", "lost there")
    for number in range(others):
        write(other, "b.py", f"meanwhile {number}", agent="bob")
        other.open().shared_push()
    assert notes.give().sent == 1
    client.close()
    remove(store)
    file.write_bytes(saved)
    notes.take()
    assert notes.give().sent == 1
    assert notes.give().sent == 0
    notes.take()
    assert one.open().shared_status()["notes_due"] == 0
    client.close()


def test_what_a_store_shows_of_ours_is_not_due_to_it(joins: Joins, store: str) -> None:
    one = joins()
    engine, client = one.open(), Client(Membership(store, "team", team_key="a key of the team"))
    notes = note_exchange(engine, client)
    for text in ("first", "second"):
        write(one, "a.py", text)
    notes.give()
    # Read for the first time: all of it is ours, so no moment comes in which it counts as due.
    assert notes.take().added == 0
    assert one.open().shared_status()["notes_due"] == 0
    client.close()


def test_what_is_due_is_found_without_going_through_all_frames(
    joins: Joins, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = joins()
    for text in ("first", "second"):
        write(one, "a.py", text)
    one.open().shared_push()
    latest = write(one, "a.py", "third", replaces=[write(one, "a.py", "old")])
    monkeypatch.delattr("indexer.store.frames.FrameStore.all_frames")
    engine = one.open()
    standing = note_exchange(engine, engine.exchange.client).standing
    lines, _ = due_notes(engine.frames.store, standing.given)
    assert [(line["frame_id"], line["body"], len(line["replaces"])) for line in lines] == [
        (latest, "third", 1)
    ]


def test_nothing_is_sent_or_taken_unless_the_user_says_so(joins: Joins) -> None:
    silent, one, deaf = joins(notes=False), joins(), joins(notes=False)
    write(silent, "a.py", "mine")
    assert silent.open().shared_push()["notes"] == 0
    write(one, "a.py", "ours")
    assert one.open().shared_push()["notes"] == 1
    assert deaf.open().shared_pull()["notes"] == 0
    assert said(deaf) == []
    assert joins().open().shared_pull()["notes"] == 1


def test_without_a_key_notes_are_refused_with_a_hint(
    joins: Joins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MERKLE_TEAM_KEY")
    member = joins()
    write(member, "a.py", "mine")
    for call in (member.open().shared_push, member.open().shared_pull):
        with pytest.raises(UnsignedNotesError, match="no team key") as refused:
            call()
        assert "MERKLE_TEAM_KEY" in (refused.value.hint or "")


def test_a_note_that_may_hold_a_secret_stays_here(joins: Joins) -> None:
    member = joins()
    write(member, "a.py", f"the key is {SECRET}", allow_secrets=True)
    done = member.open().shared_push()
    assert (done["notes"], done["withheld"]) == (0, 1)


def test_what_others_put_there_is_checked(joins: Joins, store: str, tmp_path: Path) -> None:
    one, other = joins(), joins()
    write(one, "a.py", "fine")
    file = tmp_path / "lines"
    one.open().export_notes(file)
    line = json.loads(file.read_text())
    put(store, line | {"body": "forged"})
    found = other.open().shared_pull()
    assert (found["notes"], found["reasons"]) == (0, {"note": 1})
    put(store, line | {"meta": {"key": SECRET}, "frame_id": line["frame_id"]})
    assert other.open().shared_pull()["notes"] == 0
    assert said(other) == []
    assert other.open().list_agents()["agents"] == []


def test_a_note_without_the_teams_seal_is_refused(joins: Joins, store: str, tmp_path: Path) -> None:
    one, other = joins(), joins()
    write(one, "a.py", "fine")
    file = tmp_path / "lines"
    one.open().export_notes(file)
    put(store, json.loads(file.read_text()), key="another key")
    found = other.open().shared_pull()
    assert (found["notes"], found["reasons"]) == (0, {"seal": 1})


def test_a_reader_here_gains_nothing_by_it(joins: Joins) -> None:
    one, other = joins(), joins()
    other.open().add_agent("ann", "reader")
    write(one, "a.py", "fine")
    one.open().shared_push()
    other.open().shared_pull()
    assert said(other) == []


def test_a_result_that_looks_like_a_note_is_a_result() -> None:
    line = {"agent": "x", "frame_id": "00" * 32}
    body = json.dumps(line, separators=(",", ":"))
    entry = Entry(key_of_note(FrameId(b"\1" * 32)), 0, body_hash(body), body)
    assert as_note(entry) is None
    assert as_note(entry._replace(body='{"agent":')) is None
    assert as_note(entry._replace(key=key_of_note(FrameId(bytes(32))))) == line
