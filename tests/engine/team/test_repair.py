"""What the team is still to be given survives the loss of the database."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from indexer.core.hashing import HASHES
from indexer.engine.durable.repair import repair
from indexer.engine.durable.salvage import due_results
from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import one_pass
from indexer.engine.models.calls import ModelCalls
from indexer.engine.models.model_pass import ModelPass
from indexer.engine.models.settings import load_llm_settings
from indexer.generators.llm.budget import Caps
from indexer.store.layout import Layout
from indexer.store.pack import read_pack, write_pack
from tests.support.asking import lose_database
from tests.support.model_server import ModelServer, held
from tests.support.postgres import Postgres
from tests.support.team import Member, files
from tests.support.written import EVERYTHING, member_of

AWAY = "postgresql://merkle@/merkle?host=/no/such/folder&port=1"


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERKLE_SHARED_TIMEOUT", "1s")


def damage_database(root: Path) -> None:
    (root / ".merkle" / "index.duckdb").write_bytes(b"this was a database once\n" * 500)


def pending(member: Member) -> int:
    count: int = member.open().shared_status()["pending"]
    return count


@pytest.mark.parametrize("lose", [lose_database, damage_database])
def test_answers_of_an_outage_are_due_after_a_repair(
    lose: Any,
    own_server: Postgres,
    model: ModelServer,
    members: list[Member],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    first, second = (member_of(members, model) for _ in "12")
    own_server.kill()
    assert first.full_pass()["calls"] == pending(first) == EVERYTHING
    first.end()
    lose(first.root)
    document = repair(first.root)
    assert document["due"] == EVERYTHING
    assert any("due to the team" in line for line in document["done"]) is document["repaired"]
    own_server.start()
    assert first.full_pass()["shared"]["pushed"] == EVERYTHING
    assert pending(first) == 0
    made = second.full_pass()
    assert (made["calls"], model.calls) == (0, EVERYTHING)
    assert second.bodies("summary") == first.bodies("summary")


def test_what_the_team_has_is_not_given_again(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first = member_of(members, model)
    first.full_pass()
    first.end()
    lose_database(first.root)
    # Nobody knows any more whether they arrived, so they are offered.
    assert repair(first.root)["due"] == EVERYTHING
    exchange = first.open().exchange
    assert exchange is not None
    given: list[int] = []
    put = exchange.client.put
    monkeypatch.setattr(
        exchange.client, "put", lambda entries: (given.append(len(entries)), put(entries))[1]
    )
    assert first.open().shared_push()["pending"] == 0
    assert given == []


def test_what_came_from_the_team_and_what_is_not_shared_is_not_due(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    member_of(members, model).full_pass()
    taker, loner = member_of(members, model), member_of(members, model, "share = false\n")
    for one in (taker, loner):
        one.full_pass()
        one.end()
        lose_database(one.root)
        assert repair(one.root)["due"] == 0


def test_a_member_that_only_reads_owes_nothing_after_a_repair(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_SHARED_READ_ONLY", "true")
    reader = member_of(members, model)
    made = reader.full_pass()
    assert made["calls"] == made["shared"]["computed"] == EVERYTHING
    reader.end()
    lose_database(reader.root)
    assert repair(reader.root)["due"] == 0


def test_a_database_that_lost_its_last_writes_knows_again_what_is_due(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first = member_of(members, model)
    first.open().scan()
    first.end()
    database = first.root / ".merkle" / "index.duckdb"
    shutil.copy(database, first.base / "before")
    first.full_pass()
    first.end()
    lose_database(first.root)
    shutil.copy(first.base / "before", database)
    assert pending(first) == EVERYTHING


def test_what_is_computed_again_is_due_again(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first, second = (Member(files(6)) for _ in "12")
    members += [first, second]
    made = first.full_pass()["regenerated"]
    first.end()
    damage_database(first.root)
    assert repair(first.root)["due"] == 0
    assert first.full_pass()["regenerated"] == made == pending(first)
    first.end()
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    assert first.full_pass()["shared"]["pushed"] == made
    assert second.full_pass()["regenerated"] == 0


def test_one_damaged_result_does_not_cost_those_behind_it(
    counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first = Member(files(6))
    members.append(first)
    first.full_pass()
    due = due_results_of(first)
    with first.open().database.transaction() as connection:
        connection.execute(
            "UPDATE bodies SET content = 'another' WHERE sha256 = ?",
            [bytes.fromhex(due[0]["content"])],
        )
    assert due_results_of(first) == due[1:] != []


def due_results_of(member: Member) -> list[Any]:
    member.end()
    return due_results(Layout(member.root), HASHES["xxh3_128"])


@pytest.mark.parametrize("lose", ["all", "part"])
def test_a_lost_journal_takes_nothing_from_the_queue(
    lose: str, url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is put aside with the journal, but what it says can still be read."""
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first, second = Member({"a.txt": "one"}), Member({"a.txt": "one"})
    members += [first, second]
    first.full_pass()
    first.write("a.txt", "two")
    first.full_pass()
    first.open().add_agent("ann", "writer")
    assert pending(first) == 3 + 2
    first.end()
    journal = first.root / ".merkle" / "journal"
    if lose == "all":
        shutil.rmtree(journal)
    else:
        segment = next(journal.iterdir())
        segment.write_bytes(segment.read_bytes().replace(b"ann", b"bob"))
    document = repair(first.root)
    assert document["due"] == 5
    assert document["quarantined"]
    assert repair(first.root)["repaired"] is False
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    assert first.open().shared_push()["pending"] == 0
    # Also what no file says any more.
    assert second.full_pass()["regenerated"] == 0
    assert first.open().validate()["valid"]


def test_compaction_leaves_what_is_due(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first, second = Member({"a.txt": "one"}), Member({"a.txt": "one"})
    members += [first, second]
    first.full_pass()
    first.write("a.txt", "two")
    first.full_pass()
    assert first.open().compact(0)["dropped"] == 0
    first.end()
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    assert first.open().shared_push()["pushed"] == 3 + 2
    assert second.full_pass()["regenerated"] == 0
    assert first.open().compact(0)["dropped"] == 2


def test_answers_that_only_the_database_has_stay_due(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first, second = (member_of(members, model) for _ in "12")
    first.full_pass()
    first.end()
    shutil.rmtree(first.root / ".merkle" / "journal")
    assert repair(first.root)["due"] == EVERYTHING
    # From here on the journal alone brings them back, and what is to be done with them.
    lose_database(first.root)
    assert repair(first.root)["due"] == EVERYTHING
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    assert first.open().shared_push()["pushed"] == EVERYTHING
    assert second.full_pass()["calls"] == 0


def test_a_pack_cannot_say_what_is_due(
    model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (member_of(members, model) for _ in "12")
    first.full_pass()
    pack, forged = first.base / "pack", first.base / "forged"
    first.open().export_pack(pack)
    write_pack(forged, ({**record, "due": True} for record in read_pack(pack)))
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    assert second.open().import_pack(forged, trust=True)["added"] == EVERYTHING
    assert pending(second) == 0


def test_answers_to_a_run_that_was_broken_off_are_due_too(
    model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", AWAY)
    first = member_of(members, model)
    engine = first.open()
    engine.scan()
    gate = threading.Event()
    model.always = held(gate)
    run = engine.begin_regenerate()
    while not model.calls:
        assert not run.step()
    gate.set()
    run.close()
    assert 0 < model.calls == pending(first)


def test_whoever_takes_an_answer_in_it_is_shared_as_its_own_type_says(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher has one set of calls for all types that models write."""
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    private = '\n[types.private]\nshare = false\nfile = { use = "llm", model = "gpt-4o-mini" }\n'
    engine = member_of(members, model, private).open()
    engine.scan()
    calls = ModelCalls(engine.in_flight, load_llm_settings(engine.root), Caps(100))
    types = engine.frames.types
    passes = (one_pass(engine, types[name], Outcome()) for name in ("private", "summary"))
    kept, shared = (ModelPass(one, calls, engine.intake, lambda: engine.tree) for one in passes)
    while not calls.under_way:
        kept.step()
    while len(calls.arrived()) < 4:
        calls.wait(60)
    shared.step()
    assert engine.database.rows("SELECT count(*) FROM model_results") == [(4,)]
    assert engine.shared_status()["entries"] == 0
    for one in (kept, shared):
        one.close()
    calls.close()
