"""Notes as people keep them: written in one go, listed, confirmed and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.fence import unfenced
from indexer.engine.frames.agents import AgentError
from indexer.engine.frames.notes import FrameRefusedError
from indexer.errors import MerkleError, UsageError
from tests.support.space import Space, settled

APP = "class Gauge:\n    def read(self):\n        return 1\n\n\ndef main():\n    return 2\n"
OTHER = "def other():\n    return 3\n"


@pytest.fixture
def book() -> Iterator[Space]:
    made = settled({"src/app.py": APP, "src/other.py": OTHER, "README.md": "# A\n"})
    yield made
    made.close()


def listed(space: Space, *arguments: Any, **named: Any) -> list[tuple[str, str | None, str]]:
    found = space.engine.notes(*arguments, **named)["notes"]
    return [(one["path"], one["symbol"], one["freshness"]) for one in found]


def test_a_note_registers_its_author_on_first_use(book: Space) -> None:
    first = book.engine.note("src/app.py::main", "why 2", agent="ada")
    assert (first["registered"], first["agent"], first["freshness"]) == (True, "ada", "fresh")
    again = book.engine.note("src/app.py", "more", agent="ada")
    assert (again["registered"], again["symbol"]) == (False, None)
    (known,) = book.engine.list_agents()["agents"]
    assert (known["id"], known["role"]) == ("ada", "writer")


REFUSED = [
    ("src/app.py", " \n", "ada"),
    ("src/app.py", "AKIA" + "IOSFODNN7EXAMPLX", "ada"),
    ("src/app.py::nothing", "x", "ada"),
    ("src/app.py", "x", "not legal"),
]


def test_a_note_that_is_refused_registers_nobody(book: Space) -> None:
    for node, content, agent in REFUSED:
        with pytest.raises(MerkleError):
            book.engine.note(node, content, agent=agent)
        assert book.engine.list_agents()["agents"] == []
        assert book.engine.notes()["found"] == 0


def test_a_reader_stays_a_reader(book: Space) -> None:
    book.engine.add_agent("ada", "reader")
    with pytest.raises(AgentError, match="cannot write"):
        book.engine.note("src/app.py", "x", agent="ada")


def test_notes_are_listed_stale_first_and_by_their_places(book: Space) -> None:
    book.note("src/other.py", "o")
    book.note("src/app.py::main", "m")
    book.note("src/app.py::Gauge.read", "r")
    book.note("README.md", "a")
    book.write("README.md", "# B\n")
    book.write("src/app.py", APP.replace("return 2", "return 3"))
    assert listed(book) == [
        ("README.md", None, "stale"), ("src/app.py", "main", "stale"),
        ("src/app.py", "Gauge.read", "fresh"), ("src/other.py", None, "fresh"),
    ]  # fmt: skip
    assert listed(book, stale=True) == listed(book)[:2]
    assert listed(book, "src") == listed(book)[1:]
    assert listed(book, "src/app.py::read") == [("src/app.py", "Gauge.read", "fresh")]
    found = book.engine.notes(limit=1)
    assert (len(found["notes"]), found["found"]) == (1, 4)
    assert found["notes"][0]["content"] == "a"
    assert found["notes"][0]["because"] == "the content it was written about changed"
    assert [one["line"] for one in book.engine.notes("src")["notes"]] == [6, 2, None]


def test_a_stale_note_is_confirmed_by_whoever_looks_again(book: Space) -> None:
    old = book.note("src/app.py::main", "still", meta={"mood": "good"})
    book.write("src/app.py", APP.replace("return 2", "return 3"))
    book.engine.add_agent("bob", "writer")
    new = book.engine.confirm_note(old["frame_id"][:10], agent="bob")
    assert (new["freshness"], new["symbol"]) == ("fresh", "main")
    assert new["replaced"] == [old["frame_id"]]
    (left,) = book.engine.notes()["notes"]
    assert (left["agent"], left["content"]) == ("bob", "still")
    kept = book.engine.get_frame(left["frame_id"])
    assert kept["meta"] == {"mood": "good", "written_by": "ann"}
    again = book.engine.confirm_note(left["frame_id"], agent="ann")
    assert (again["created"], again["frame_id"]) == (False, left["frame_id"])
    with pytest.raises(FrameRefusedError, match="was superseded by"):
        book.engine.confirm_note(old["frame_id"], agent="bob")


@pytest.mark.parametrize("node", ["src/app.py", "src", ""])
def test_a_confirmed_note_is_bound_to_what_it_was_bound_to(book: Space, node: str) -> None:
    old = book.note(node, "still")
    book.write("src/new.py", "")
    book.write("new.py", "")
    book.write("src/app.py", OTHER)
    assert listed(book)[0][2] == "stale"
    assert book.engine.confirm_note(old["frame_id"], agent="ann")["freshness"] == "fresh"
    (left,) = book.engine.notes()["notes"]
    before, after = (book.engine.get_frame(one)["inputs"] for one in (
        old["frame_id"], left["frame_id"]))  # fmt: skip
    assert before[0]["input"] == after[0]["input"]


def test_what_cannot_be_confirmed_is_refused(book: Space) -> None:
    gone = book.note("src/app.py::main", "still")
    book.write("src/app.py", "")
    with pytest.raises(UsageError, match="has no symbol 'main'"):
        book.engine.confirm_note(gone["frame_id"], agent="ann")
    (book.root / "src/app.py").unlink()
    book.engine.scan()
    with pytest.raises(FrameRefusedError, match="cannot be confirmed: the path is gone"):
        book.engine.confirm_note(gone["frame_id"], agent="ann")
    made = book.frame("src/other.py")["frame_id"]
    with pytest.raises(FrameRefusedError, match="is no note"):
        book.engine.confirm_note(made, agent="ann")
    with pytest.raises(AgentError):
        book.engine.confirm_note(gone["frame_id"], agent="nobody")


def test_a_withdrawn_note_counts_no_longer_and_stays_in_the_history(book: Space) -> None:
    old = book.note("src/app.py::main", "wrong")
    book.note("src/app.py", "right")
    book.engine.add_agent("bob", "writer")
    told: list[Any] = []
    book.engine.frame_subscribers.append(told.extend)
    done = book.engine.withdraw_note(old["frame_id"], agent="bob")
    assert (done["path"], done["symbol"], done["agent"]) == ("src/app.py", "main", "bob")
    assert [(one.action, one.because) for one in told] == [("superseded", "withdrawn by bob")]
    for _ in range(2):
        assert listed(book) == [("src/app.py", None, "fresh")]
        kept = book.engine.get_frame(old["frame_id"])
        assert (kept["freshness"], kept["because"]) == ("stale", "withdrawn by bob")
        assert kept["superseded_by"] == done["withdrawn_by"]
        assert kept["content"] == "wrong"
        book.valid()
        book.reopen()
    with pytest.raises(FrameRefusedError, match="was superseded"):
        book.engine.withdraw_note(old["frame_id"], agent="bob")
    with pytest.raises(FrameRefusedError, match="was withdrawn"):
        book.note("src/app.py", "new", replaces=[old["frame_id"]])
    shown = book.engine.compose(nodes=["src/app.py"], types=["note"])["messages"]
    assert [unfenced(one["content"]).split("\n\n")[1] for one in shown] == ["right"]


def test_a_withdrawn_note_can_be_written_and_withdrawn_again(book: Space) -> None:
    old = book.note("src/app.py", "wrong")
    book.engine.withdraw_note(old["frame_id"], agent="ann")
    again = book.note("src/app.py", "wrong")
    assert (again["frame_id"], listed(book)) == (old["frame_id"], [("src/app.py", None, "fresh")])
    book.engine.withdraw_note(old["frame_id"], agent="ann")
    assert listed(book) == []
    book.reopen()
    assert listed(book) == []


def test_a_withdrawal_survives_the_loss_of_the_database_and_goes_with_a_pack(
    book: Space, tmp_path: Path
) -> None:
    old = book.note("src/app.py", "wrong")
    other = book.clone()
    try:
        other.settle()
        other.note("src/app.py", "wrong")
        book.engine.withdraw_note(old["frame_id"], agent="ann")
        book.engine.export_pack(tmp_path / "pack")
        other.engine.import_pack(tmp_path / "pack")
        assert listed(other) == []
        other.valid()
    finally:
        other.close()
    book.engine.close()
    (book.root / ".merkle/index.duckdb").unlink()
    book.open()
    assert listed(book) == []


def test_a_reader_cannot_withdraw_and_a_readers_pack_does_not(book: Space, tmp_path: Path) -> None:
    old = book.note("src/app.py", "right")
    book.engine.add_agent("eve", "reader")
    with pytest.raises(AgentError, match="cannot write"):
        book.engine.withdraw_note(old["frame_id"], agent="eve")
    other = book.clone()
    try:
        other.settle()
        other.note("src/app.py", "right")
        other.engine.add_agent("eve", "writer")
        other.engine.withdraw_note(old["frame_id"], agent="eve")
        other.engine.export_pack(tmp_path / "pack")
        book.engine.import_pack(tmp_path / "pack")
    finally:
        other.close()
    assert listed(book) == [("src/app.py", None, "fresh")]
