"""Rows, then the journal, then the commit: what the database refuses is nowhere."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.durable.journal import UnappliedError
from indexer.engine.durable.repair import repair
from indexer.engine.search.manifests import manifest_record
from indexer.errors import ExitCode, MerkleError
from indexer.store import journal
from indexer.store.journal import Journal
from tests.support.asking import lose_database
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, run
from tests.support.space import Space

IMPOSSIBLE = manifest_record({"root": "00", "tokens": -1, "items": []}, {}, 0)
"""A record that no table takes."""

KILLED = """
import os, signal, sys
from pathlib import Path
from indexer.store.database import Database
from indexer.store.journal import Journal
from tests.support.engines import Engine

def die():
    os.kill(os.getpid(), signal.SIGKILL)

moment, append = sys.argv[2], Journal.append

def killed_append(self, records):
    if moment == "rows":
        die()
    number = append(self, records)
    if moment == "journal":
        die()
    return number

with Engine(Path(sys.argv[1])) as engine:
    engine.scan()
    engine.list_agents()
    Journal.append = killed_append
    engine.put_frame("README.md", "the last words", frame_type="last", agent="ann")
    if moment == "commit":
        die()
"""


def agent(name: str, role: str = "writer") -> dict[str, Any]:
    return {"kind": "agent", "id": name, "role": role, "can": ["read", "write"]}


def agents(engine: Engine) -> dict[str, str]:
    return {one["id"]: one["role"] for one in engine.list_agents()["agents"]}


def test_what_the_database_refuses_is_not_in_the_journal(project: Space) -> None:
    project.note("README.md", "kept")
    last = project.engine.records.journal.last
    with pytest.raises(MerkleError, match="-1"):
        project.engine.records.write([agent("bob"), IMPOSSIBLE])
    assert project.engine.records.journal.last == last
    assert agents(project.engine) == {"ann": "writer"}
    project.note("README.md", "written after it", frame_type="later")
    project.reopen()
    assert project.engine.records.redone == 0
    assert project.frame("README.md", "later")["content"] == "written after it"
    project.valid()


def test_what_the_journal_refuses_is_not_in_the_database(project: Space) -> None:
    project.note("README.md", "kept")
    project.engine.records.journal.close()
    with pytest.raises(MerkleError, match="closed"):
        project.note("README.md", "lost", frame_type="later")
    assert project.engine.get_node("README.md", frame_type="later")["frames"] == []
    project.reopen()
    assert project.engine.get_node("README.md", frame_type="later")["frames"] == []
    assert project.frame("README.md", "note")["content"] == "kept"
    project.valid()


@pytest.mark.parametrize(("moment", "redone"), [("rows", None), ("journal", 1), ("commit", 0)])
def test_killed_between_any_two_steps_it_is_whole_or_not_there(
    project: Space, moment: str, redone: int | None
) -> None:
    project.note("README.md", "kept")
    project.engine.close()
    code, _, err = run(["-c", KILLED, os.fspath(project.root), moment], cwd=REPOSITORY)
    assert code == -signal.SIGKILL, err
    project.open()
    assert project.engine.records.redone == (redone or 0)
    found = project.engine.get_node("README.md", frame_type="last")["frames"]
    assert [frame["content"] for frame in found] == ([] if redone is None else ["the last words"])
    assert project.frame("README.md", "note")["content"] == "kept"
    project.valid()


def ahead(root: Path, *records: dict[str, Any]) -> int:
    """Put records into a closed workspace's journal alone; the first one's number."""
    opened = Journal.open(root / ".merkle/journal")
    opened.append(records)
    opened.close()
    return opened.last - len(records) + 1


MISFITS = [
    IMPOSSIBLE,
    {"kind": "agent"},
    {"kind": "frame", "path": 7},
    {
        "kind": "frame", "path": "README.md", "type": "note", "agent": "ann", "body": "what?",
        "inputs": {"/on": "content", "/kind": "dream", "/content_id": "00" * 16},
    },
    {"kind": "memo", "key": "zz", "content": "", "generation": 0, "body": ""},
    {"kind": "memo", "key": "00" * 32, "content": "00" * 32, "generation": -5, "body": "x"},
    {"kind": "invalidate", "keys": {"00": "many"}, "heads": []},
    {"kind": "session", "name": "s", "records": [{"seq": 4}]},
    {"kind": "session", "name": "s", "records": []},
]  # fmt: skip


@pytest.mark.parametrize("database", ["kept", "lost"])
def test_records_that_cannot_be_applied_are_put_aside_and_kept(
    project: Space, database: str
) -> None:
    project.note("README.md", "kept")
    project.engine.close()
    first = ahead(project.root, agent("before"), *MISFITS, agent("after"))
    if database == "lost":
        lose_database(project.root)
    with Engine(project.root) as engine, pytest.raises(UnappliedError, match="record") as refused:
        engine.list_agents()
    assert refused.value.exit_code is ExitCode.CORRUPT
    assert refused.value.hint is not None
    assert "repair" in refused.value.hint
    told = repair(project.root)
    assert told["repaired"]
    numbers = range(first + 1, first + 1 + len(MISFITS))
    for number in numbers:
        assert any(line.startswith(f"journal record {number}: ") for line in told["gone"]), number
    (aside,) = (Path(one) for one in told["quarantined"] if Path(one).name.startswith("journal"))
    kept = dict(journal.salvage(aside).records)
    assert [kept[number] for number in numbers] == MISFITS
    project.open()
    assert project.engine.records.redone == 0
    assert agents(project.engine) == {"ann": "writer", "before": "writer", "after": "writer"}
    assert project.frame("README.md", "note")["content"] == "kept"
    project.note("README.md", "more", frame_type="later")
    project.settle()
    project.valid()
    project.engine.close()
    assert repair(project.root)["done"] == []
    # Nor are they in the way when everything is made from the journal again.
    lose_database(project.root)
    project.open()
    project.engine.scan()
    assert project.frame("README.md", "later")["content"] == "more"


def test_a_record_of_a_later_release_is_not_put_aside(project: Space) -> None:
    project.note("README.md", "kept")
    project.engine.close()
    ahead(project.root, {"kind": "dream"})
    with pytest.raises(MerkleError, match="unknown kind 'dream'"):
        repair(project.root)
    assert [record["kind"] for _, record in journal.salvage(
        project.root / ".merkle/journal").records][-1] == "dream"  # fmt: skip
