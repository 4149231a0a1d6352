"""Growth: history is cut, the file gives space back, and nothing that is wanted goes with it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from indexer.core.frames import BodyHash
from indexer.engine.durable import compact
from indexer.engine.durable.compact import Compaction
from indexer.engine.tree.history import UnknownRootError
from indexer.store import forgetting, rewrite
from indexer.store.database import REWRITTEN, Database, Row
from indexer.store.own_folder import NotOursError
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY
from tests.support.processes import run as run_forked
from tests.support.space import Space, python


def module(number: int, edition: int) -> str:
    """A module whose outline differs from edition to edition."""
    return "\n".join(
        python(f"f{number}_{part}", value=edition, doc=f"Does {part} in edition {edition}.")
        for part in range(8)
    )


def fill(space: Space) -> None:
    space.fill({f"pkg{n % 6}/m{n}.py": module(n, 0) for n in range(60)})
    space.settle()


def save(space: Space, edition: int) -> None:
    space.write("pkg1/m1.py", module(1, edition))
    space.settle()


def size(space: Space) -> int:
    """How large the index is once everything is folded into its file."""
    space.engine.database.checkpoint()
    return (space.root / ".merkle" / "index.duckdb").stat().st_size


def inode(space: Space) -> int:
    """Which file the index is."""
    return (space.root / ".merkle" / "index.duckdb").stat().st_ino


@pytest.fixture
def space() -> Iterator[Space]:
    """An empty workspace."""
    made = Space()
    yield made
    made.close()


# Of the whole run: a worker that takes cases over comes back to this module more than once.
@pytest.fixture(scope="session")
def after_saves() -> Iterator[Path]:
    """A workspace of which the last five roots are kept, after a dozen saves, to be copied."""
    space = Space()
    space.declare("[history]\nkeep_count = 5\n")
    fill(space)
    for edition in range(1, 13):
        save(space, edition)
    space.engine.close()
    yield space.root
    shutil.rmtree(space.base)


@pytest.fixture
def edited(after_saves: Path) -> Iterator[Space]:
    """A copy of it, open."""
    space = Space(copy_of=after_saves)
    yield space
    space.close()


@pytest.mark.soak
@pytest.mark.parametrize(("saves", "kept"), [(80, 27), (300, 100)])
def test_after_many_saves_and_compact_the_index_is_at_most_twice_a_fresh_one(
    space: Space, saves: int, kept: int
) -> None:
    check_growth(space, saves, kept)


def test_after_saves_and_compact_the_index_is_at_most_twice_a_fresh_one(edited: Space) -> None:
    edited.note("pkg1/m1.py", "said of the last edition")
    check_compacted(edited, 12, 5, "said of the last edition")


def check_growth(space: Space, saves: int, kept: int) -> None:
    space.declare(f"[history]\nkeep_count = {kept}\n")
    fill(space)
    space.note("pkg1/m1.py", "said of the first edition")
    for edition in range(1, saves + 1):
        save(space, edition)
        # As after every command.
        space.engine.database.checkpoint()
    check_compacted(space, saves, kept, "said of the first edition")


def check_compacted(space: Space, saves: int, kept: int, said: str) -> None:
    grown = size(space)
    told = space.engine.compact()
    fresh = space.clone()
    try:
        fresh.settle()
        assert size(space) <= 2 * size(fresh)
        assert size(space) < grown
    finally:
        fresh.close()
    assert told["forgotten_roots"] == saves + 1 - kept
    assert told["bytes_before"] == grown
    assert told["bytes_after"] < grown
    space.valid()
    space.reopen()
    space.valid()
    assert set(space.labels().values()) == {"fresh"}
    assert space.frame("pkg1/m1.py", "note")["content"] == said


def test_folded_after_saves_a_small_index_is_no_larger_than_a_fresh_one(edited: Space) -> None:
    edited.engine.compact()
    save(edited, 20)
    # The library writes the last block of every table that grew beside the one it replaces.
    folded = size(edited)
    fresh = edited.clone()
    try:
        fresh.settle()
        assert folded <= size(fresh)
    finally:
        fresh.close()
    edited.valid()


@pytest.mark.parametrize(("small", "block"), [(0, 1 << 18), (1 << 30, 1 << 14)])
def test_only_a_small_index_has_small_blocks(
    edited: Space, small: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "_SMALL", small)
    for _ in range(2):
        edited.engine.compact()
        rows = edited.engine.database.rows("SELECT block_size FROM pragma_database_size()")
        assert rows == [(block,)]
    edited.valid()


def test_kept_roots_keep_what_they_name(edited: Space) -> None:
    def told() -> object:
        return (
            edited.engine.log()["roots"][:5],
            [edited.engine.diff(f"@-{ago}", "@-0") for ago in range(5)],
            [edited.engine.explain(path) for path, _ in edited.engine.tree.walk()],
        )

    before = told()
    edited.engine.compact()
    assert told() == before
    roots = edited.engine.sql("SELECT lower(hex(node_id)) FROM node_log WHERE path = 'pkg1/m1.py'")
    shown = edited.engine.list_frames("pkg1/m1.py", frame_type="outline", content=True)["frames"]
    named = {frame["node_id"] for frame in shown if frame["content"]}
    assert named == {row[0] for row in roots["rows"]}
    assert len(named) == 5


def test_diff_beyond_the_horizon_says_so(edited: Space) -> None:
    old = edited.engine.log()["roots"][-1]["root"]
    edited.engine.compact()
    for beyond in ("@-5", old):
        with pytest.raises(UnknownRootError) as caught:
            edited.engine.diff(beyond, "@-0")
        assert "were forgotten" in (caught.value.hint or "")
    assert len(edited.engine.log()["roots"]) == 5
    assert edited.engine.diff("@-4", "@-0")["modified"] == ["pkg1/m1.py"]


def test_what_a_manifest_names_outlives_the_history(edited: Space) -> None:
    manifest = edited.engine.compose(["pkg1/m1.py"], record=True)
    for edition in range(20, 30):
        save(edited, edition)
    edited.engine.compact()
    again = edited.engine.replay(manifest["manifest_id"])
    assert again["messages"] == manifest["messages"]
    edited.valid()


def test_a_note_can_still_be_bound_to_what_was_read_within_the_history(edited: Space) -> None:
    seen = edited.engine.get_node("pkg3/m3.py")["node_id"]
    edited.engine.compact()
    edited.write("pkg3/m3.py", module(3, 7))
    edited.settle()
    # Recorded long before the history begins, and current when it does.
    written = edited.note("pkg3/m3.py", "about what was there", seen=seen)
    assert written["freshness"] == "stale"


def test_what_is_written_between_two_steps_is_in_the_new_file(edited: Space) -> None:
    work = Compaction(edited.engine.frames, edited.engine.trees)
    notes, before = 0, inode(edited)
    while not work.step():
        if notes < 60:
            edited.note("pkg2/m2.py", f"note {notes}")
            notes += 1
    work.close()
    assert inode(edited) != before
    edited.reopen()
    shown = edited.engine.list_frames("pkg2/m2.py", frame_type="note", content=True)["frames"]
    assert [frame["content"] for frame in shown] == [f"note {n}" for n in reversed(range(notes))]
    edited.valid()


def test_the_file_does_not_change_places_under_a_reader(edited: Space) -> None:
    rows = edited.engine.database.stream("SELECT seq FROM root_log ORDER BY seq")
    first, before = next(rows), inode(edited)
    assert edited.engine.compact()["forgotten_roots"] == 8
    assert inode(edited) == before
    assert [first, *rows] == [(seq,) for seq in range(1, 14)]
    edited.engine.compact()
    assert inode(edited) != before
    edited.valid()


def test_what_was_left_of_a_rewriting_is_removed(edited: Space) -> None:
    edited.engine.close()
    left = [edited.root / ".merkle" / f"index.duckdb{ending}" for ending in REWRITTEN]
    for path in left:
        path.write_text("half")
    edited.open()
    assert not any(path.exists() for path in left)


def test_a_link_in_the_place_of_a_rewriting_is_refused(edited: Space) -> None:
    edited.engine.close()
    outside = edited.base / "outside"
    outside.write_text("mine")
    planted = edited.root / ".merkle" / f"index.duckdb{REWRITTEN[0]}"
    planted.symlink_to(outside)
    with pytest.raises(NotOursError):
        edited.open()
    assert outside.read_text() == "mine"
    planted.unlink()
    edited.open()


OLD = """
INSERT INTO frame_log SELECT 1, unhex(sha256('f' || range)), 'pkg1/m' || range % 1000, 'outline',
  'merkle:outline', unhex(sha256('b' || range)), unhex(sha256('c' || range)),
  unhex(sha256('n' || range)), NULL, '{}', 0 FROM range(100000);
INSERT INTO head_log SELECT 1, 'pkg1/m' || range % 1000, 'outline', 'merkle:outline',
  unhex(sha256('f' || range)), unhex(sha256('b' || range)), unhex(sha256('c' || range)),
  NULL, NULL, 'generated' FROM range(100000);
INSERT INTO bodies SELECT unhex(sha256('c' || range)), 'body of ' || range, range + 1000, 3,
  ('0x' || sha256('c' || range)[1:8])::UINTEGER FROM range(100000);
"""
"""A hundred thousand frames, with their heads and bodies."""


def test_a_note_reads_no_more_rows_when_there_are_many_old_frames(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(space)
    read = 0

    def counted(database: Database, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        nonlocal read
        found = rows(database, statement, parameters)
        read += len(found)
        return found

    def streamed(database: Database, statement: str) -> Iterator[Row]:
        nonlocal read
        for row in stream(database, statement):
            read += 1
            yield row

    rows, stream = Database.rows, Database.stream
    monkeypatch.setattr(Database, "rows", counted)
    monkeypatch.setattr(Database, "stream", streamed)

    def note_as_a_command(text: str) -> int:
        nonlocal read
        space.reopen()
        read = 0
        assert space.note("pkg1/m1.py", text)["created"]
        return read

    note_as_a_command("registers the agent, too")
    few = note_as_a_command("with none")
    with space.engine.database.transaction() as connection:
        connection.execute(OLD)
    assert note_as_a_command("with many") == few
    assert not space.note("pkg1/m1.py", "with many")["created"]
    shown = space.engine.list_frames("pkg1/m1.py", frame_type="note", content=True)["frames"]
    assert [one["content"] for one in shown][:2] == ["with many", "with none"]


def test_short_hashes_in_order_find_what_is_stored_and_nothing_else(
    edited: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "MANY_HASHES", 5)

    def stored(sql: str) -> list[Row]:
        return edited.engine.database.rows(sql)

    def has(content: bytes) -> bool:
        return edited.engine.frames.store.has_body(BodyHash(content))

    edited.note("pkg2/m2.py", "said before")
    edited.engine.compact()
    hashes = [short for (short,) in stored("SELECT short FROM body_hashes ORDER BY rowid")]
    bodies = [content for (content,) in stored("SELECT sha256 FROM bodies WHERE content NOT NULL")]
    assert hashes == sorted(int.from_bytes(content[:4], "big") for content in bodies)
    assert stored("SELECT count(short) FROM bodies") == [(0,)]
    edited.reopen()
    assert not edited.note("pkg2/m2.py", "said before")["created"]
    assert edited.note("pkg3/m3.py", "said before")["created"]
    assert edited.note("pkg2/m2.py", "said since")["created"]
    # The same text twice is one body; the new one has its short hash in its own row.
    assert stored("SELECT count(short), count(*) FROM bodies") == [(1, len(bodies) + 1)]
    assert not has(bytes(32))
    # What only begins alike is another one.
    assert not any(has(content[:4] + bytes(28)) for content in bodies)
    assert all(has(content) for (content,) in stored("SELECT sha256 FROM bodies"))
    for edition in range(20, 30):
        save(edited, edition)
    edited.engine.compact()
    # A body that was dropped and comes back is stored again.
    gone = {content for content in bodies if not has(content)}
    assert gone
    save(edited, 8)
    assert {content for content in gone if has(content)}
    edited.valid()


def test_a_note_is_looked_for_in_no_history(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new note costs is its node's: no log that grows with every save is searched."""
    fill(space)
    space.note("pkg1/m1.py", "registers the agent, too")
    space.reopen()
    asked: list[str] = []
    rows, stream = Database.rows, Database.stream

    def told(database: Database, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        asked.append(statement)
        return rows(database, statement, parameters)

    def streamed(database: Database, statement: str) -> Iterator[Row]:
        asked.append(statement)
        return stream(database, statement)

    monkeypatch.setattr(Database, "rows", told)
    monkeypatch.setattr(Database, "stream", streamed)
    assert space.note("pkg1/m1.py", "another")["created"]
    assert asked
    logs = ("frame_log", "input_lists", "memo ", "node_log", "postings", "model_results")
    # What is known of one note by its id is found among the notes, not among all frames.
    own = "WHERE n.frame_id IN (SELECT unnest(?::BLOB[]))"
    searched = [each for each in asked if any(log in each for log in logs) and own not in each]
    assert searched == []
    # Bodies by a number that the library has in its statistics, or by the short hash.
    bodies = [each for each in asked if "FROM bodies" in each and "number)" not in each]
    assert all("FROM bodies WHERE short = $1" in each for each in bodies)
    assert len(bodies) == 1
    assert len([each for each in asked if "head_log" in each]) <= 3


def scanned_hashes(space: Space, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many rows the library looks at to find out whether a text is stored."""
    rows, scanned = Database.rows, 0

    def told(database: Database, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        nonlocal scanned
        plan = rows(database, f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)[0][1]
        scanned += sum(map(int, re.findall(r'"rows_scanned": *([0-9]+)', plan)))
        return []

    with monkeypatch.context() as patch:
        patch.setattr(Database, "rows", told)
        assert not space.engine.frames.store.has_body(BodyHash(bytes(range(100, 132))))
    assert scanned
    return scanned


@pytest.mark.soak
def test_a_note_among_a_million_frames_costs_what_it_costs_among_few(
    record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = Space(), Space()
    try:
        for space in (few, many):
            fill(space)
            space.note("pkg1/m1.py", "registers the agent, too")
        with many.engine.database.transaction() as connection:
            connection.execute(OLD.replace("100000", "1000000"))
        # As compacting does it.
        forgetting.Forgetting(many.engine.database).put_hashes_in_order()
        spent: dict[Space, list[float]] = {few: [], many: []}
        # In turns, so that what else the machine does falls on both.
        for number in range(15):
            for space, times in spent.items():
                space.reopen()
                started = time.process_time()
                space.note("pkg1/m1.py", f"note {number}")
                times.append(time.process_time() - started)
        ratio = min(spent[many]) / min(spent[few])
        record_property("ratio", round(ratio, 2))
        assert ratio < 1.25, spent
        # One part of those in order, and the few that came since.
        assert scanned_hashes(many, monkeypatch) <= forgetting.MANY_HASHES + 100
    finally:
        few.close()
        many.close()


KILLED = """
import os, sys
from pathlib import Path
from typing import Any
import indexer.store.database as database
from indexer.store.rewrite import Rewriting
from tests.support.engines import Engine

moment = sys.argv[2]
steps, replace, sync = Rewriting.steps, os.replace, database.sync_folder

def dying_steps(self):
    for number, _ in enumerate(steps(self)):
        if moment == f"copied {number}":
            os._exit(9)
        yield
    if moment == "copied":
        os._exit(9)

def dying_replace(old, new):
    if moment == "before renaming":
        os._exit(9)
    replace(old, new)
    if moment == "renamed":
        os._exit(9)

def dying_sync(folder):
    sync(folder)
    if moment == "durable":
        os._exit(9)

Rewriting.steps, os.replace, database.sync_folder = dying_steps, dying_replace, dying_sync
with Engine(Path(sys.argv[1])) as engine:
    engine.compact()
os._exit(0)
"""

SELDOM = [
    pytest.param(moment, marks=pytest.mark.soak)
    for moment in ("copied 0", "copied 3", "copied 9", "copied", "before renaming", "durable")
]


@pytest.mark.parametrize("moment", ["renamed", *SELDOM])
def test_a_kill_between_any_two_steps_leaves_a_working_index(edited: Space, moment: str) -> None:
    edited.note("pkg1/m1.py", "kept")
    root = edited.engine.log()["roots"][0]
    edited.engine.close()
    code, _, told = run_forked(["-c", KILLED, str(edited.root), moment], cwd=REPOSITORY)
    assert code == 9, f"it was not killed there: {told}"
    with Engine(edited.root) as engine:
        assert engine.log()["roots"][0] == root
        assert engine.validate()["errors"] == []
        assert engine.get_node("pkg1/m1.py", frame_type="note")["frames"][0]["content"] == "kept"
        assert engine.compact()["bytes_after"] < 5 << 20
        assert engine.validate()["errors"] == []
    edited.open()


def test_readers_who_stay_cost_one_copy_and_the_old_file_is_kept(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = []

    class Counted(rewrite.Rewriting):
        def __init__(self, *given: Any) -> None:
            copies.append(given)
            super().__init__(*given)

    monkeypatch.setattr(compact, "Rewriting", Counted)
    monkeypatch.setattr(Database, "take_place", lambda self: False)
    before = project.engine.compact(0)["bytes_before"]
    assert before > 0
    assert len(copies) == 1
    project.valid()
