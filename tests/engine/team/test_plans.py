"""A plan in a team counts what the team has as paid for, and takes nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from indexer.engine.make.run import NeedsYesError
from tests.support.asking import FILES, OUTLINED
from tests.support.engines import Engine
from tests.support.model_server import ModelServer
from tests.support.postgres import Postgres
from tests.support.team import Member
from tests.support.written import EVERYTHING, member_of


def scanned(members: list[Member], model: ModelServer, **options: str) -> Member:
    """A member that knows its files."""
    member_of(members, model, **options).open().scan()
    return members[-1]


def planned(member: Member) -> tuple[Any, dict[str, str | None]]:
    """The totals of a plan, and where each result is known."""
    document = member.open().regenerate(plan=True)
    assert all((one["action"] == "reuse") == bool(one["from"]) for one in document["plan"])
    return document["totals"], {one["path"]: one["from"] for one in document["plan"]}


def stored(engine: Engine) -> list[Any]:
    """How much of everything is in the index."""
    tables = [row[0] for row in engine.database.rows("SELECT table_name FROM duckdb_tables()")]
    counts = [(name, engine.database.rows(f"SELECT count(*) FROM {name}")) for name in tables]
    return [*sorted(counts), engine.records.journal.last]


def test_what_the_team_has_costs_nothing_in_a_plan(
    any_url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    first, second = (scanned(members, model) for _ in "12")
    totals, _ = planned(second)
    assert (totals["calls"], totals["team"], totals["team_problem"]) == (EVERYTHING, 0, None)
    first.full_pass()
    before = stored(second.open())
    totals, places = planned(second)
    # Folders too, up to the root: their keys are made from the texts that the team has.
    assert set(places.values()) == {"team"}
    assert (totals["calls"], totals["cost"], totals["team"], totals["reused"]) == (0, 0, 8, 0)
    assert stored(second.open()) == before
    made = second.full_pass()
    assert (made["calls"], made["shared"]["fetched"]) == (0, EVERYTHING)
    assert model.calls == EVERYTHING


def test_team_and_memo_are_told_apart(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (scanned(members, model) for _ in "12")
    first.full_pass()
    second.full_pass()
    original = FILES["src/one/a.py"]
    for member in (first, second):
        member.write("src/one/a.py", "x = 1\n")
    first.full_pass()
    totals, places = planned(second)
    assert places == dict.fromkeys(["src/one/a.py", "src/one", "src", ""], "team")
    assert (totals["calls"], totals["team"], totals["reused"]) == (0, 4, 0)
    second.full_pass()
    # Back again: known here, and nobody is asked.
    second.write("src/one/a.py", original)
    totals, places = planned(second)
    assert set(places.values()) == {"here"}
    assert (totals["team"], totals["reused"]) == (0, 4)
    # A file that nobody knows, beside one that the team knows.
    first.write("src/two/c.py", "y = 2\n")
    first.full_pass()
    for path, text in (("src/two/c.py", "y = 2\n"), ("src/one/b.py", "z = 3\n")):
        second.write(path, text)
    totals, places = planned(second)
    assert places == {
        "src/one/a.py": "here", "src/one/b.py": None, "src/one": None,
        "src/two/c.py": "team", "src/two": "team", "src": None, "": None,
    }  # fmt: skip
    assert (totals["calls"], totals["team"], totals["reused"]) == (4, 2, 1)


def test_tokens_of_what_is_left_are_counted_with_texts_of_the_team(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (scanned(members, model) for _ in "12")
    # Files come first: the folders are left.
    assert first.open().regenerate(max_calls=4)["calls"] == 4
    here, there = (
        {one["path"]: one for one in member.open().regenerate(plan=True)["plan"]}
        for member in (first, second)
    )
    assert [path for path, one in there.items() if one["from"] == "team"] == sorted(FILES)
    for path in ("src/one", "src/two"):
        assert there[path]["tokens"] == here[path]["tokens"] > 0
        assert not there[path]["estimated"]


def test_an_outline_of_the_team_makes_the_summary_known(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (scanned(members, model, types=OUTLINED) for _ in "12")
    first.full_pass()
    totals, _ = planned(second)
    assert (totals["calls"], totals["team"]) == (0, 8)


def test_a_question_before_a_large_run_counts_the_team_in(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (scanned(members, model, llm="ask_above_calls = 3") for _ in "12")
    with pytest.raises(NeedsYesError, match="up to 8 calls") as refused:
        second.full_pass()
    assert "team" not in refused.value.message
    first.open().regenerate(yes=True)
    second.write("src/two/c.py", "y = 2\n")
    with pytest.raises(NeedsYesError, match=r"up to 4 calls .*; 4 results come from the team"):
        second.full_pass()
    second.write("src/two/c.py", FILES["src/two/c.py"])
    # All of it is paid for: nobody has to be asked.
    assert second.full_pass()["calls"] == 0
    assert model.calls == EVERYTHING


def test_a_type_that_is_not_shared_is_planned_alone(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first = scanned(members, model)
    first.full_pass()
    member_of(members, model, "share = false\n").open().scan()
    totals, places = planned(members[-1])
    assert (totals["calls"], set(places.values())) == (EVERYTHING, {None})


def test_rows_that_are_not_believed_are_planned_as_work(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_TEAM_KEY", "the team's")
    first, second = (scanned(members, model) for _ in "12")
    first.full_pass()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE merkle_entries SET mac = decode(repeat('00', 32), 'hex')")
    totals, _ = planned(second)
    assert (totals["calls"], totals["team"]) == (EVERYTHING, 0)


def test_a_team_that_cannot_be_asked_is_said_and_fails_nothing(
    own_server: Postgres,
    model: ModelServer,
    members: list[Member],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    first, second = (scanned(members, model, llm="ask_above_calls = 3") for _ in "12")
    first.open().regenerate(yes=True)
    own_server.kill()
    totals, _ = planned(second)
    assert (totals["calls"], totals["team"]) == (EVERYTHING, 0)
    assert "cannot be reached" in totals["team_problem"]
    with pytest.raises(NeedsYesError, match="the team could not be asked"):
        second.full_pass()
    second.end()
    process = second.start("regenerate", "--plan")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    assert "the team could not be asked: " in out
    assert "up to 8 calls" in out


def test_people_see_what_comes_from_the_team(
    url: str, model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (scanned(members, model) for _ in "12")
    first.full_pass()
    second.write("src/two/c.py", "y = 2\n")
    second.end()
    out, err = second.start("regenerate", "--plan").communicate(timeout=90)
    assert "up to 4 calls" in out, err
    assert "0 known from earlier results, 4 from the team" in out
    rows = [line.split()[:3] for line in out.splitlines() if line.lstrip().startswith("team")]
    known = ("README.md", "src/one/a.py", "src/one/b.py", "src/one")
    assert rows == [["team", "summary", path] for path in known]
    made = json.loads(second.start("--json", "regenerate", "--plan").communicate(timeout=90)[0])
    assert made["totals"]["team"] == 4


_ALONE = """
import sys
from pathlib import Path
from tests.support.engines import Engine
with Engine(Path(sys.argv[1])) as engine:
    totals = engine.regenerate(plan=True)["totals"]
assert (totals["calls"], totals["team"], totals["team_problem"]) == (8, 0, None), totals
unwanted = {"indexer.engine.team.exchange", "indexer.shared.client", "psycopg", "sqlite3"}
loaded = unwanted & {*sys.modules}
assert not loaded, loaded
"""


def test_without_a_team_nothing_of_it_is_loaded(
    model: ModelServer, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MERKLE_SHARED_URL", raising=False)
    alone = scanned(members, model)
    alone.end()
    subprocess.run([sys.executable, "-c", _ALONE, str(alone.root)], check=True)
