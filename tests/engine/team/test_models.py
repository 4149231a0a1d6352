"""What a model wrote for one member, no other member pays for."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indexer.core.frames import MemoKey
from indexer.engine.durable.repair import repair
from tests.support.asking import declaration, lose_database
from tests.support.model_server import ModelServer, fails, held, questions
from tests.support.paid import Full, has_answers
from tests.support.postgres import Postgres
from tests.support.service import Service
from tests.support.team import Member
from tests.support.waiting import wait_until
from tests.support.written import CONTENT, EVERYTHING, member_of


def finished(process: Any) -> Any:
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, out + err
    return json.loads(out)


def test_the_second_clone_makes_no_model_call(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (member_of(members, model) for _ in "12")
    made = first.full_pass()
    assert made["calls"] == model.calls == made["shared"]["pushed"] == EVERYTHING
    again = second.full_pass()
    assert (again["calls"], again["regenerated"], model.calls) == (0, 0, EVERYTHING)
    assert again["shared"]["fetched"] == EVERYTHING
    assert {event["action"] for event in again["events"]} == {"reused"}
    assert second.bodies("summary") == first.bodies("summary")
    assert second.open().validate()["valid"]


def test_what_came_from_the_team_is_journalled_like_what_was_paid_here(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (member_of(members, model) for _ in "12")
    first.full_pass()
    second.full_pass()
    bodies = second.bodies("summary")
    second.end()
    monkeypatch.delenv("MERKLE_SHARED_URL")
    lose_database(second.root)
    repair(second.root)
    made = second.full_pass()
    assert (made["calls"], model.calls) == (0, EVERYTHING)
    assert second.bodies("summary") == bodies


def test_a_pass_that_asks_no_model_takes_what_the_team_has(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`merkle watch --once` pays for nothing unasked, and needs not to here."""
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (member_of(members, model) for _ in "12")
    assert finished(first.start("--json", "watch", "--once"))["generated"] == 0
    first.full_pass()
    made = finished(second.start("--json", "watch", "--once"))
    assert (made["generated"], made["reused"], model.calls) == (0, EVERYTHING, EVERYTHING)
    assert second.bodies("summary") == first.bodies("summary")


def test_machines_that_start_at_once_ask_each_question_once(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    gate = threading.Event()
    model.always = held(gate)
    for _ in range(3):
        member_of(members, model, llm="concurrency = 2")
    running = [one.start("--json", "regenerate") for one in members]
    # All four files are under way before any is answered, and nobody asks for one twice.
    model.wait_for(4)
    gate.set()
    documents = [finished(process) for process in running]
    asked = Counter(questions(model.bodies))
    assert len(asked) == model.calls == EVERYTHING
    assert sum(one["regenerated"] for one in documents) == EVERYTHING
    assert all(one["regenerated"] + one["reused"] == EVERYTHING for one in documents)
    bodies = members[0].bodies("summary")
    assert all(one.bodies("summary") == bodies for one in members[1:])


@pytest.mark.soak
def test_one_dies_while_a_model_thinks_and_another_asks_again(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_SHARED_LEASE", "1s")
    gate = threading.Event()
    model.then(*(held(gate) for _ in range(4)))
    dying, other = (member_of(members, model) for _ in "12")
    first = dying.start("regenerate")
    model.wait_for(4)
    second = other.start("--json", "regenerate")
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=30)
    document = finished(second)
    gate.set()
    assert document["regenerated"] == EVERYTHING
    assert model.calls == 4 + EVERYTHING


def test_an_outage_costs_no_answer(
    own_server: Postgres,
    model: ModelServer,
    members: list[Member],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    first, second = (member_of(members, model) for _ in "12")
    own_server.kill()
    made = first.full_pass()
    assert made["calls"] == EVERYTHING
    assert "cannot be reached" in made["shared"]["problem"]
    assert first.open().shared_status()["pending"] == EVERYTHING
    first.end()
    own_server.start()
    assert first.open().shared_push()["pending"] == 0
    assert second.full_pass()["calls"] == 0
    assert model.calls == EVERYTHING


def test_a_question_that_failed_is_free_for_others(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    model.always = fails(400, "no")
    first, second = (member_of(members, model) for _ in "12")
    assert first.full_pass()["failed"]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM merkle_leases").fetchone() == (0,)
    model.always = None
    assert second.full_pass()["regenerated"] == EVERYTHING


def test_a_type_that_is_not_shared_is_paid_for_by_each(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    declared = declaration(model.url) + "share = false\n"
    members += [Member(CONTENT, declared), Member(CONTENT, declared)]
    for one in members:
        assert one.full_pass()["calls"] == EVERYTHING
    assert members[0].open().shared_status()["entries"] == 0


def test_a_tampered_answer_is_asked_for_again(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_TEAM_KEY", "the team's")
    first, second = (member_of(members, model) for _ in "12")
    first.full_pass()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE merkle_entries SET mac = decode(repeat('00', 32), 'hex')"
            " WHERE key = (SELECT min(key) FROM merkle_entries)"
        )
    made = second.full_pass()
    assert (made["calls"], made["shared"]["refused"]) == (1, 1)
    assert second.bodies("summary") == first.bodies("summary")


def asked_in_background(service: Service) -> threading.Thread:
    client = service.client

    def work() -> None:
        # It ends with the service, in one way or another.
        with contextlib.suppress(Exception):
            client.post("/v1/regenerate", {"node": "src"})

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_answers_that_only_the_journal_could_take_reach_the_team(
    url: str,
    model: ModelServer,
    members: list[Member],
    monkeypatch: pytest.MonkeyPatch,
    runtime_dir: Path,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    gates = [threading.Event() for _ in range(3)]
    model.then(*(held(gate) for gate in gates))
    first = Member(CONTENT, declaration(model.url) + 'scope = ["src"]\n')
    second = Member(CONTENT, declaration(model.url) + 'scope = ["src"]\n')
    members += [first, second]
    service = Service(first.root, runtime_dir, {})
    try:
        service.ready()
        full = Full(service)
        running = asked_in_background(service)
        model.wait_for(3)
        full.database()
        for number, gate in enumerate(gates):
            gate.set()
            has_answers(first.root, number + 1)
        running.join(60)
        service.stop()
    finally:
        service.kill()
    # The database learns from the journal what it missed, that the team is to get it included.
    assert first.open().records.redone == 3
    assert first.open().shared_status()["pending"] == 3
    assert first.full_pass()["calls"] == model.calls - 3 == 3
    assert first.open().shared_status()["pending"] == 0
    assert second.full_pass()["calls"] == 0
    assert model.calls == 6


def test_a_stop_with_answers_under_way_is_a_gift_to_the_team(
    url: str,
    model: ModelServer,
    members: list[Member],
    monkeypatch: pytest.MonkeyPatch,
    runtime_dir: Path,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    gate = threading.Event()
    model.then(*[held(gate)] * 3)
    first = member_of(members, model)
    second = member_of(members, model)
    service = Service(first.root, runtime_dir, {})
    try:
        service.ready()
        running = asked_in_background(service)
        model.wait_for(3)
        service.signal(signal.SIGINT)
        gate.set()
        assert service.wait() == 0
        running.join(60)
    finally:
        service.kill()
    assert second.full_pass()["calls"] == EVERYTHING - 3
    assert model.calls == EVERYTHING


def test_a_lease_lasts_as_long_as_its_question_whatever_else_is_computed(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_SHARED_LEASE", "1s")
    engine = member_of(members, model).open()
    exchange = engine.exchange
    assert exchange is not None
    asked, computed = MemoKey(b"a" * 32), MemoKey(b"b" * 32)
    assert exchange.lease([asked]) == {asked}
    exchange.compute_ours({computed: 0}, lambda entry: None, lambda keys: [])

    def expires() -> Any:
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT expires_at FROM merkle_leases WHERE key = %s", [asked]
            ).fetchall()
        return rows[0][0]

    before = expires()
    wait_until(lambda: expires() > before, "the lease is renewed")
    exchange.let_go([asked])
