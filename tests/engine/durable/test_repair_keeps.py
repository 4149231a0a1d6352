"""`repair` loses nothing that the database or the journal still has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexer.core.frames import MemoKey, body_hash
from indexer.engine.durable.repair import repair
from indexer.errors import CorruptError
from indexer.store import journal
from indexer.store.journal import Journal
from tests.engine.durable.test_write_order import agents
from tests.support.engines import Engine
from tests.support.space import Space

KEY = MemoKey(bytes(range(32)))


def paid(generation: int, body: str) -> dict[str, Any]:
    """The record of an answer that a model gave."""
    return {
        "kind": "model", "key": KEY.hex(), "generation": generation,
        "content": body_hash(body).hex(), "body": body, "meta": {"model": "m"},
    }  # fmt: skip


def cut(root: Path, records: int) -> None:
    """Let a journal end that many records early."""
    folder = root / ".merkle/journal"
    kept = [record for _, record in journal.salvage(folder).records][:-records]
    for file in folder.iterdir():
        file.unlink()
    opened = Journal.open(folder)
    opened.append(kept)
    opened.close()


def answers(engine: Engine) -> list[tuple[int, str]]:
    """Every answer that is stored for the key, by generation."""
    return [
        (result.generation, engine.frames.store.bodies([result.content])[result.content])
        for key, result in engine.frames.store.paid()
        if key == KEY
    ]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_every_paid_answer_survives_and_the_newest_counts(project: Space, lost: int) -> None:
    write = project.engine.records.write
    write([paid(0, "the first answer")])
    write([{"kind": "invalidate", "keys": {KEY.hex(): 1}, "heads": []}])
    write([paid(1, "the second answer")])
    project.engine.close()
    cut(project.root, lost)
    assert repair(project.root)["repaired"]
    project.open()
    assert answers(project.engine) == [(0, "the first answer"), (1, "the second answer")]
    newest = body_hash("the second answer")
    assert project.engine.frames.heads.memo(KEY) == (1, newest)
    result = project.engine.frames.heads.model(KEY)
    assert result is not None
    assert (result.generation, result.content) == (1, newest)
    # From the new journal alone it is the same.
    assert [r["generation"] for r in journalled(project.root, "model")] == [0, 1]


def journalled(root: Path, kind: str) -> list[Any]:
    records = [record for _, record in journal.salvage(root / ".merkle/journal").records]
    return [record for record in records if record["kind"] == kind]


def test_the_present_role_survives_in_a_database_ahead_of_the_journal(project: Space) -> None:
    project.engine.add_agent("bob", "writer")
    project.engine.add_agent("bob", "reader")
    project.engine.close()
    cut(project.root, 1)
    assert repair(project.root)["repaired"]
    project.open()
    assert agents(project.engine)["bob"] == "reader"


def test_the_present_role_survives_in_a_journal_ahead_of_the_database(project: Space) -> None:
    project.engine.add_agent("bob", "writer")
    project.note("README.md", "something to lose")
    project.engine.close()
    opened = Journal.open(project.root / ".merkle/journal")
    opened.append([{"kind": "agent", "id": "bob", "role": "reader", "can": ["read"]}])
    opened.close()
    # A damaged record makes repair write the journal anew, with what the database has.
    segment = project.root / ".merkle/journal/000001.log"
    segment.write_bytes(segment.read_bytes().replace(b"something to lose", b"somebody to lose"))
    assert repair(project.root)["repaired"]
    project.open()
    assert agents(project.engine)["bob"] == "reader"
    assert project.frame("README.md", "note")["content"] == "something to lose"


def test_lists_of_inputs_in_a_circle_end_with_an_error(project: Space) -> None:
    project.settle()
    chain = project.engine.explain("src")
    assert chain["chain"]
    store, head = project.engine.frames.store, project.engine.frames.heads
    (inputs,) = {
        stored.frame.inputs
        for stored in store.history("src")
        if stored.frame.frame_id.hex() == chain["frame_id"]
    }
    with project.engine.database.transaction() as connection:
        connection.execute("UPDATE input_lists SET base = hash, list = ? WHERE hash = ?",
                           [json.dumps({}), inputs])  # fmt: skip
    head.forget()
    with pytest.raises(CorruptError, match="based on itself") as refused:
        project.engine.explain("src")
    assert refused.value.hint is not None
    assert "repair" in refused.value.hint
