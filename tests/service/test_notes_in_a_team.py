"""Services of one team know each other's notes without any command, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indexer.core.frames import FrameId, body_hash, key_of_note
from indexer.shared.base import BEGINNING, Entry
from indexer.shared.client import Client, Membership
from tests.shared.conftest import any_url, database, server, url
from tests.support.postgres import Postgres
from tests.support.service import Service
from tests.support.waiting import wait_until

__all__ = ["any_url", "database", "server", "url"]

KEY = "a key of the team"
LOOKS = "import indexer.engine.team.courier as c; c.LOOK_EVERY = {}\n"
OFTEN = LOOKS.format(0.1)
ONLY_TOLD = LOOKS.format(3600)
Starts = Callable[..., Service]


@pytest.fixture(autouse=True)
def user_shares_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of this machine has agreed, in the environment."""
    monkeypatch.setenv("MERKLE_TEAM_KEY", KEY)
    monkeypatch.setenv("MERKLE_SHARED_NOTES", "true")


@pytest.fixture
def starts(services: Starts) -> Iterator[Starts]:
    """Start services that end with the test: they would give the next one's store their notes."""
    started: list[Service] = []

    def start(root: Path, **options: Any) -> Service:
        started.append(services(root, **options))
        return started[-1].ready()

    yield start
    for service in started:
        service.kill()


@pytest.fixture
def clone(shm: Path) -> Callable[[], Path]:
    """Workspaces with the same content."""
    made = iter(range(10))

    def make() -> Path:
        root = shm / f"clone-{time.monotonic_ns()}-{next(made)}"
        root.mkdir()
        (root / "a.py").write_text("def a():\n    return 1\n")
        return root

    return make


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """A server that a test may kill."""
    if os.environ.get("MERKLE_TEST_PG_URL"):
        pytest.skip("a server that is named is not ours to kill")
    started = Postgres()
    yield started
    started.stop()


def write(service: Service, text: str, agent: str = "ann") -> str:
    return str(
        service.client.post("/v1/note", {"node": "a.py", "content": text, "agent": agent})[
            "frame_id"
        ]
    )


def said(service: Service) -> list[str]:
    found = service.client.post("/v1/notes", {})["notes"]
    return sorted(f"{one['agent']}: {one['content']}" for one in found)


def shows(service: Service, *wanted: str) -> None:
    wait_until(lambda: said(service) == sorted(wanted), f"the notes are {sorted(wanted)}")


def team(service: Service) -> dict[str, Any]:
    return dict(service.client.post("/v1/shared-status", {}))


def nothing_is_due(service: Service) -> None:
    wait_until(lambda: team(service)["notes_due"] == 0, "every note was given")


def test_services_see_each_others_notes(
    clone: Callable[[], Path], starts: Starts, any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    # A server tells; a file is looked at.
    inject = OFTEN if any_url.startswith("sqlite") else ONLY_TOLD
    one, other = (starts(clone(), inject=inject) for _ in range(2))
    wait_until(lambda: team(other)["notes_exchanged_at"], "it has asked once")
    wrong = write(one, "mind the unit")
    shows(other, "ann: mind the unit")
    write(other, "in metres", agent="bob")
    shows(one, "ann: mind the unit", "bob: in metres")
    one.client.post("/v1/withdraw-note", {"frame": wrong, "agent": "ann"})
    shows(other, "bob: in metres")
    for service in (one, other):
        nothing_is_due(service)
        assert service.health()["team"] is None
        agents = service.client.post("/v1/agents", {})["agents"]
        assert {each["id"]: each["role"] for each in agents} == {"ann": "writer", "bob": "writer"}
        assert service.client.post("/v1/validate", {})["errors"] == []
    other.goes_idle()
    assert other.stop() == one.stop() == 0


def test_a_note_survives_a_kill_between_its_acknowledgement_and_its_giving(
    clone: Callable[[], Path], starts: Starts, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    never = "import time; import indexer.engine.team.notes as n\n"
    never += "n.NoteExchange.give = lambda *_: time.sleep(3600)\n"
    root = clone()
    one = starts(root, inject=never)
    write(one, "kept")
    assert team(one)["notes_due"] == 1
    one.kill()
    one = starts(root)
    nothing_is_due(one)
    shows(starts(clone()), "ann: kept")


def test_a_server_that_is_away_delays_and_loses_nothing(
    clone: Callable[[], Path],
    starts: Starts,
    own_server: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    root = clone()
    one, other = starts(root), starts(clone())
    write(one, "before")
    shows(other, "ann: before")
    own_server.kill()
    began = time.monotonic()
    write(one, "meanwhile")
    assert time.monotonic() - began < 3
    wait_until(lambda: "cannot be reached" in (one.health()["team"] or ""), "trouble is told")
    assert said(one) == ["ann: before", "ann: meanwhile"]
    # What is due is due after a restart too, and a silent team keeps no service from ending.
    assert one.stop() == 0
    one = starts(root)
    assert team(one)["notes_due"] == 1
    own_server.start()
    shows(other, "ann: before", "ann: meanwhile")
    wait_until(lambda: one.health()["team"] is None, "the trouble is over")


def test_a_service_ends_while_the_server_does_not_answer(
    clone: Callable[[], Path],
    starts: Starts,
    own_server: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    one = starts(clone())
    write(one, "first")
    nothing_is_due(one)
    assert own_server._process is not None
    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'merkle'"
    standing = [own_server._process.pid, *(pid for (pid,) in own_server.execute(ours))]
    for pid in standing:
        os.kill(pid, signal.SIGSTOP)
    try:
        write(one, "second")
        assert said(one) == ["ann: first", "ann: second"]
        began = time.monotonic()
        assert one.stop() == 0
        assert time.monotonic() - began < 2
    finally:
        for pid in standing:
            os.kill(pid, signal.SIGCONT)


def test_a_replaced_store_is_given_everything_again(
    clone: Callable[[], Path],
    starts: Starts,
    any_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    one = starts(clone(), inject=OFTEN)
    for text in ("first", "second"):
        write(one, text)
    nothing_is_due(one)
    if any_url.startswith("sqlite"):
        for end in ("", "-wal", "-shm"):
            Path(any_url.partition("://")[2] + end).unlink(missing_ok=True)
    else:
        with psycopg.connect(any_url) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    shows(starts(clone(), inject=OFTEN), "ann: first", "ann: second")


def test_what_is_forged_or_unsigned_is_refused_and_stops_no_other(
    clone: Callable[[], Path], starts: Starts, any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    one, other = (starts(clone(), inject=OFTEN) for _ in range(2))
    write(one, "first")
    shows(other, "ann: first")
    client = Client(Membership(any_url, "team", team_key=KEY))
    line = json.loads(client.news(BEGINNING, 9).entries[0].body)

    def put(line: dict[str, Any], key: str | None) -> None:
        body = json.dumps(line, sort_keys=True, separators=(",", ":"))
        named = key_of_note(FrameId(bytes.fromhex(line["frame_id"])))
        hostile = Client(Membership(any_url, "team", team_key=key))
        hostile.put([Entry(named, 9, body_hash(body), body)], notes=True)
        hostile.close()

    put(line | {"frame_id": "11" * 32}, None)
    put(line | {"frame_id": "22" * 32}, "another key")
    put(line | {"frame_id": "33" * 32, "body": "forged"}, KEY)
    put(line | {"frame_id": "44" * 32, "agent": "merkle:outline"}, KEY)
    put({"agent": [], "frame_id": "55" * 32}, KEY)
    write(one, "second")
    shows(other, "ann: first", "ann: second")
    # Two by their seals, three by what they say.
    wait_until(lambda: team(other)["refused"] == 5, "five are counted")
    agents = other.client.post("/v1/agents", {})["agents"]
    assert [each["id"] for each in agents] == ["ann"]
    client.close()


def test_notes_go_from_when_the_settings_say_so_until_they_do_not(
    clone: Callable[[], Path],
    starts: Starts,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    trusted: None,
) -> None:
    monkeypatch.delenv("MERKLE_SHARED_NOTES")
    root = clone()

    def declare(notes: str) -> None:
        (root / "merkle.toml").write_text(f'[shared]\nurl = "{url}"\nnotes = {notes}\n')

    def sessions() -> int:
        with psycopg.connect(url) as connection:
            ours = "application_name = 'merkle' AND datname = current_database()"
            question = f"SELECT count(*) FROM pg_stat_activity WHERE {ours}"
            return int(connection.execute(question).fetchall()[0][0])

    declare("false")
    one = starts(root)
    write(one, "mine until now")
    assert team(one)["notes_due"] is None
    declare("true")
    wait_until(lambda: team(one)["notes_due"] == 0, "it was given")
    client = Client(Membership(url, "team", team_key=KEY))
    assert len(client.news(BEGINNING, 9).entries) == 1
    before = sessions()
    declare("false")
    wait_until(lambda: sessions() < before, "its connection is closed")
    write(one, "mine again")
    assert len(client.news(BEGINNING, 9).entries) == 1
    client.close()


def test_without_a_key_nothing_goes_and_the_service_says_so(
    clone: Callable[[], Path], starts: Starts, any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    monkeypatch.delenv("MERKLE_TEAM_KEY")
    one = starts(clone(), inject=OFTEN)
    write(one, "mine")
    wait_until(lambda: "no team key" in (one.health()["team"] or ""), "it says so")
    client = Client(Membership(any_url, "team"))
    assert client.news(BEGINNING, 9).entries == []
    client.close()
