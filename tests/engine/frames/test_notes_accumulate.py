"""Notes accumulate: every one counts by its own basis, until another says that it replaces it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indexer.engine.durable.repair import repair
from indexer.engine.frames.notes import FrameRefusedError
from indexer.store import database, migrations
from indexer.store.database import Database
from indexer.store.frames import FrameStore
from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.space import Space, python

FILE = "src/one/a.py"


def notes(engine: Engine, path: str = FILE) -> dict[str, str]:
    """What the notes about a node say, each with its freshness."""
    found = engine.get_node(path, frame_type="note")
    assert found["frame_count"] == len(found["frames"])
    return {frame["content"]: frame["freshness"] for frame in found["frames"]}


def composed(engine: Engine, path: str = FILE) -> set[str]:
    """What a composition of one node shows of its notes."""
    shown = engine.compose([path], sources=["node"], types=["note"], require_fresh=True)
    return {text for message in shown["messages"] for text in TEXTS if text in message["content"]}


TEXTS = ("on content", "on outline", "second on content", "by bob", "better")


def test_four_notes_by_one_agent_are_all_read_each_by_its_own_basis(project: Space) -> None:
    engine = project.engine
    project.note(FILE, "on content")
    project.note(FILE, "on outline", on="outline")
    worse = project.note(FILE, "worse", on="outline")
    project.note(FILE, "second on content")
    assert set(notes(engine)) == {"on content", "on outline", "worse", "second on content"}
    assert engine.get_node(FILE)["frame_count"] == 5
    assert engine.status()["types"]["note"]["fresh"] == 4

    better = project.note(FILE, "better", on="outline", replaces=[worse["frame_id"]])
    assert better["replaced"] == [worse["frame_id"]]
    project.note(FILE, "by bob", agent="bob", on="outline")
    # The body moves and the outline does not.
    project.write(FILE, python("a", value=7))
    project.settle()
    assert notes(engine) == {
        "on content": "stale", "second on content": "stale",
        "on outline": "fresh", "better": "fresh", "by bob": "fresh",
    }  # fmt: skip
    assert composed(engine) == {"on outline", "better", "by bob"}
    found = engine.compose(query="outline better bob", types=["note"], require_fresh=True)
    assert {item["path"] for item in found["items"]} == {FILE}
    assert len(found["items"]) == 3

    old = engine.get_frame(worse["frame_id"])
    assert (old["content"], old["superseded_by"]) == ("worse", better["frame_id"])
    assert old["freshness"] == "stale"
    listed = {one["frame_id"]: one for one in engine.list_frames(FILE, content=True)["frames"]}
    assert listed[worse["frame_id"]]["because"] == f"superseded by {better['frame_id'][:12]}"
    live = [one["content"] for one in listed.values() if one["live"] and one["type"] == "note"]
    assert len(live) == 5

    project.move(FILE, "src/one/moved.py")
    assert engine.scan()["carried"] == 5
    project.settle()
    assert notes(engine, "src/one/moved.py") == {
        # Bound to the content before last, and said so.
        "on content": "stale", "second on content": "stale",
        "on outline": "fresh", "better": "fresh", "by bob": "fresh",
    }  # fmt: skip
    assert composed(engine, "src/one/moved.py") == {"on outline", "better", "by bob"}
    project.reopen()
    assert composed(project.engine, "src/one/moved.py") == {"on outline", "better", "by bob"}
    project.valid()


def test_mine_replaces_what_the_same_agent_wrote_and_nothing_else(project: Space) -> None:
    for text in ("one", "two"):
        project.note(FILE, text)
    project.note(FILE, "a review", frame_type="review")
    project.note(FILE, "by bob", agent="bob")
    done = project.note(FILE, "three", replace_mine=True)
    assert len(done["replaced"]) == 2
    assert notes(project.engine) == {"three": "fresh", "by bob": "fresh"}
    assert project.note(FILE, "three", replace_mine=True)["replaced"] == []
    # Said again, an older one counts again, and the one that replaced it still does.
    project.note(FILE, "one")
    assert set(notes(project.engine)) == {"one", "three", "by bob"}
    project.note(FILE, "one", replace_mine=True)
    assert set(notes(project.engine)) == {"one", "by bob"}
    (head,) = project.engine.get_head(FILE, frame_type="note", agent="ann")["heads"]
    assert project.engine.get_frame(head["frame_id"])["content"] == "one"


def test_another_agents_note_leaves_no_head_behind(project: Space) -> None:
    first = project.note(FILE, "one")
    project.note(FILE, "two", agent="bob", replaces=[first["frame_id"][:8]])
    for _ in range(2):
        assert notes(project.engine) == {"two": "fresh"}
        heads = project.engine.get_head(FILE, frame_type="note")["heads"]
        assert [head["agent"] for head in heads] == ["bob"]
        assert project.engine.status()["types"]["note"]["total"] == 1
        project.reopen()
    rows = project.engine.sql("SELECT agent, live FROM notes ORDER BY agent")["rows"]
    assert rows == [["ann", False], ["bob", True]]


def test_what_cannot_be_replaced_is_refused_and_nothing_is_stored(project: Space) -> None:
    first = project.note(FILE, "one")["frame_id"]
    second = project.note(FILE, "two", replaces=[first])["frame_id"]
    elsewhere = project.note("README.md", "elsewhere")["frame_id"]
    outline = project.frame(FILE)["frame_id"]
    for named, said in (
        (first, f"superseded by {second[:12]}"),
        (elsewhere, "about another"),
        (outline, "a generator keeps it"),
        ("0" * 64, "no frame has"),
    ):
        with pytest.raises(Exception, match=said):
            project.note(FILE, "three", replaces=[named])
    with pytest.raises(FrameRefusedError, match="empty"):
        project.note(FILE, " \n")
    assert set(notes(project.engine)) == {"two"}


def test_what_was_replaced_elsewhere_does_not_come_back_with_the_old_name(project: Space) -> None:
    project.note(FILE, "one")
    project.move(FILE, "src/one/b2.py")
    project.settle()
    (there,) = project.engine.get_node("src/one/b2.py", frame_type="note")["frames"]
    project.note("src/one/b2.py", "two", replaces=[there["frame_id"]])
    project.move("src/one/b2.py", FILE)
    project.settle()
    assert notes(project.engine) == {"two": "fresh"}
    project.valid()


@pytest.fixture
def replaced(project: Space) -> Space:
    """Two notes that count, one that was replaced, and one that was said again after that."""
    project.declare('[types.outline]\nfile = "outline"\nfolder = "summarize"\n'
                    '[types.note]\nfolder = "concatenate"\n')  # fmt: skip
    one = project.note(FILE, "one")["frame_id"]
    two = project.note(FILE, "two", replaces=[one])["frame_id"]
    project.note(FILE, "one", replaces=[two])
    project.note(FILE, "three")
    project.settle()
    return project


def standing(engine: Engine) -> Any:
    """What is true of every note, in the order in which they were said."""
    listed = engine.list_frames(FILE, frame_type="note", content=True)["frames"]
    (head,) = engine.get_head(FILE, frame_type="note")["heads"]
    return (
        sorted((one["content"], one["live"], one["superseded_by"] or "") for one in listed),
        head["frame_id"],
        [one["content"] for one in engine.get_node("src", frame_type="note")["frames"]],
    )


def test_policies_see_every_fresh_note_in_an_order_that_history_does_not_decide(
    replaced: Space,
) -> None:
    (folder,) = replaced.engine.get_node("src", frame_type="note")["frames"]
    assert "one" in folder["content"]
    assert "three" in folder["content"]
    assert "\ntwo\n" not in folder["content"]
    other = replaced.clone()
    try:
        other.settle()
        other.note(FILE, "three")
        other.note(FILE, "one")
        other.settle()
        (same,) = other.engine.get_node("src", frame_type="note")["frames"]
        assert same["frame_id"] == folder["frame_id"]
        assert other.freshness("src", "note") == "fresh"
        other.valid()
    finally:
        other.close()


def test_replaced_notes_survive_everything(replaced: Space, tmp_path: Path) -> None:
    before = standing(replaced.engine)
    replaced.engine.compact(0)
    assert standing(replaced.engine) == before
    replaced.reopen()
    assert standing(replaced.engine) == before
    pack = tmp_path / "all.pack"
    replaced.engine.export_pack(pack)
    clone = replaced.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        clone.settle()
        assert standing(clone.engine) == before
        again = tmp_path / "again.pack"
        clone.engine.export_pack(again)
        assert again.read_bytes() == pack.read_bytes()
    finally:
        clone.close()
    replaced.engine.close()
    for lost in ("index.duckdb", "journal"):
        place = tmp_path / lost / "w"
        copy_workspace(replaced.root, place)
        target = place / ".merkle" / lost
        if target.is_dir():
            for part in target.iterdir():
                part.unlink()
            target.rmdir()
        else:
            target.unlink()
        repair(place)
        with Engine(place) as engine:
            engine.regenerate()
            assert standing(engine) == before
            assert engine.validate()["valid"]
    replaced.open()


def test_an_index_of_before_has_all_its_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads were one per type and agent, and notes that came as history had never been one."""
    before = database.MIGRATIONS[: database.MIGRATIONS.index(migrations._NOTES)]
    file = tmp_path / "index.duckdb"
    with monkeypatch.context() as older:
        older.setattr(database, "MIGRATIONS", before)
        opened = Database(file)
        with opened.transaction() as connection:
            for number, head in ((1, True), (2, True), (3, False)):
                one, of = f"'\\x0{number}'::BLOB", "'a.py', 'note', 'ann'"
                connection.execute(
                    f"INSERT INTO frame_log VALUES ({number}, {one}, {of}, {one}, {one}, {one},"
                    " NULL, '{}', 0)"
                )
                if head:
                    connection.execute(
                        f"INSERT INTO head_log VALUES ({number}, {of}, {one}, {one}, {one}, NULL,"
                        " NULL, 'written')"
                    )
            connection.execute(
                "INSERT INTO head_log VALUES (1, 'a.py', 'outline', 'merkle:outline', 'x', 'x',"
                " 'x', NULL, NULL, 'generated')"
            )
        opened.close()
    opened = Database(file)
    store = FrameStore(opened)
    assert [note.head.frame_id for note in store.live_notes("a.py")] == [b"\x01", b"\x02"]
    assert [note.live for note in store.all_note_states().values()] == [True, True, False]
    assert [key for key, _ in store.each_head()] == [("a.py", "outline", "merkle:outline")]
    assert len(opened.rows("SELECT * FROM heads")) == 2
    opened.close()
