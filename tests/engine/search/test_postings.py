"""Postings and the corpus in memory are right after anything that can happen to them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from indexer.compose.relevance import make_question
from indexer.core.terms import term_of
from indexer.engine.durable import code_checks
from indexer.engine.durable.repair import repair
from indexer.engine.frames import heads as head_cache
from indexer.engine.search.corpus import Corpus, KeptCorpus
from indexer.engine.search.stored_corpus import StoredCorpus
from indexer.store import database, postings
from indexer.store.migrations import MIGRATIONS
from tests.support.copies import as_made_here
from tests.support.engines import Engine
from tests.support.space import Space, python, settled


def found(engine: Engine, query: str) -> list[str]:
    return [item["path"] for item in engine.compose(query=query, types=["outline"])["items"]]


def state(corpus: Corpus, queries: tuple[str, ...]) -> list[Any]:
    ranked = [
        corpus.rank(make_question(query), None, lambda _: None, ("src",)) for query in queries
    ]
    return [
        list(corpus.everything()),
        corpus.digest().hexdigest(),
        sorted(corpus.at(["", "src", "src/f0.py", "src/f1.py"])),
        [(one.statistics, one.less, sorted(one.scores.items()), one.without) for one in ranked],
    ]


WORDS = ("harbour", "lantern", "ferry", "quarry")


def test_a_new_body_is_found_and_an_old_one_is_not(project: Space) -> None:
    assert found(project.engine, "harbour") == []
    project.write("src/one/a.py", python("harbour"))
    project.settle()
    assert found(project.engine, "harbour")[0] == "src/one/a.py"
    project.write("src/one/a.py", python("lantern"))
    project.settle()
    assert found(project.engine, "harbour") == []
    assert found(project.engine, "lantern")[0] == "src/one/a.py"


def test_a_corpus_whose_making_was_broken_off_is_made_anew(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = project.engine.frames
    kept = KeptCorpus(opened.heads, opened.postings, opened.code)
    kept.bring_up_to_date(project.engine.tree)
    project.write("src/one/a.py", python("harbour"))
    project.settle()

    def broken_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(KeptCorpus, "_put", broken_off)
        with pytest.raises(KeyboardInterrupt):
            kept.bring_up_to_date(project.engine.tree)
    kept.bring_up_to_date(project.engine.tree)
    fresh = KeptCorpus(opened.heads, opened.postings, opened.code)
    fresh.bring_up_to_date(project.engine.tree)
    assert state(kept, WORDS) == state(fresh, WORDS)


def test_a_time_is_taken_to_the_microsecond(project: Space) -> None:
    made = project.engine.get_frame(project.note("README.md", "now")["frame_id"])["created_at"]
    moment = datetime.fromisoformat(made)
    before, after = (moment + timedelta(microseconds=step) for step in (-2, 2))
    for since, shown in ((before, True), (after, False)):
        items = project.engine.compose(types=["note"], only=True, since=since.isoformat())["items"]
        assert bool(items) is shown


def test_what_was_found_is_kept_within_a_limit_until_something_is_written(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in (("a", "harbour ferry"), ("b", "harbour lantern")):
        project.write(f"src/one/{name}.py", python(words))
    project.settle()
    store, read = postings.PostingStore(project.engine.database), list[list[int]]()
    harbour, lantern, ferry, nobody = map(term_of, ("harbour", "lantern", "ferry", "quarry"))
    asked = postings.PostingStore._read

    def counted(self: postings.PostingStore, space: int, terms: list[int]) -> Any:
        read.append(terms)
        return asked(self, space, terms)

    monkeypatch.setattr(postings.PostingStore, "_read", counted)

    def find(*terms: int, space: int = postings.FILES) -> dict[int, int]:
        found = store.find(space, terms)
        assert found == asked(store, space, terms)
        return {term: len(numbers) for term, (numbers, _) in found.items()}

    assert find(harbour, nobody) == {harbour: 2, nobody: 0}
    assert find(nobody, lantern, harbour) == {nobody: 0, lantern: 1, harbour: 2}
    assert find(harbour, space=postings.BODIES) == {harbour: 0}
    assert read == [[harbour, nobody], [lantern], [harbour]]

    project.write("src/one/c.py", python("harbour"))
    project.settle()
    assert find(harbour) == {harbour: 3}

    # Room for two: what was asked for longest ago goes.
    monkeypatch.setattr(postings, "KEPT", 850)
    find(harbour)
    find(lantern)
    find(harbour)
    read.clear()
    find(ferry)
    find(harbour)
    find(lantern)
    assert read == [[ferry], [], [lantern]]


def test_what_is_written_while_it_is_read_is_not_missed(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked = postings.PostingStore(project.engine.database), postings.PostingStore._read
    harbour = term_of("harbour")

    def overtaken(self: postings.PostingStore, space: int, terms: list[int]) -> Any:
        found = asked(self, space, terms)
        project.write("src/one/a.py", python("harbour"))
        project.settle()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(postings.PostingStore, "_read", overtaken)
        assert not store.find(postings.FILES, [harbour])[harbour][0]
    assert len(store.find(postings.FILES, [harbour])[harbour][0]) == 1


def test_postings_are_stored_with_the_frames_or_not_at_all(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "SELECT count(*) FROM postings"
    before = project.engine.database.rows(count)
    project.write("src/one/a.py", python("harbour"))
    with monkeypatch.context() as patch:
        # The last thing in the transaction fails.
        patch.setattr("indexer.store.frames._frame_row", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            project.engine.regenerate()
    assert project.engine.database.rows(count) == before
    project.settle()
    assert project.engine.database.rows(count) != before
    project.valid()
    assert found(project.engine, "harbour")


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "remove", "move", "note", "reopen", "compact", "ask"]),
        st.integers(0, 5),
        st.sampled_from(WORDS),
    ),
    max_size=9,
)
EVERY_ACTION = [
    ("write", 2, "harbour"),
    ("note", 0, "lantern"),
    ("move", 1, "harbour"),
    ("ask", 0, "ferry"),
    ("reopen", 0, "ferry"),
    ("remove", 2, "quarry"),
    ("write", 0, "lantern"),
    ("compact", 0, "lantern"),
    ("write", 3, "quarry"),
]
# What goes last is followed by a corpus that is in memory since the second question.
GOING = [
    ("write", 2, "harbour"),
    ("ask", 0, "ferry"),
    ("note", 0, "lantern"),
    ("move", 1, "harbour"),
    ("remove", 2, "quarry"),
]
COMING = [
    ("reopen", 0, "ferry"),
    ("compact", 0, "lantern"),
    ("write", 0, "lantern"),
    ("write", 3, "quarry"),
]


@given(at_once=st.sampled_from([100, 1]), actions=ACTIONS)
@settings(phases=[Phase.explicit])
@example(100, COMING)
@example(1, GOING)
def test_following_what_moved_equals_starting_anew(
    at_once: int, actions: list[tuple[str, int, str]]
) -> None:
    """The corpus in memory after any edits is what a new process would load, or be told."""
    check_following(at_once, actions)


@pytest.mark.soak
@given(at_once=st.sampled_from([100, 1]), actions=ACTIONS)
@settings(max_examples=60)
@example(100, EVERY_ACTION)
@example(1, EVERY_ACTION)
def test_following_much_that_moved_equals_starting_anew(
    at_once: int, actions: list[tuple[str, int, str]]
) -> None:
    check_following(at_once, actions)


def check_following(at_once: int, actions: list[tuple[str, int, str]]) -> None:
    space = settled({"src/f0.py": python("ferry"), "src/f1.py": python("quarry")})
    with (
        contextlib.closing(space),
        mock.patch.object(head_cache, "AT_ONCE", at_once),
        mock.patch.object(postings, "TOGETHER", 2),
    ):
        for action, number, word in actions:
            path = f"src/f{number}.py"
            there = (space.root / path).exists()
            if action == "write":
                space.write(path, python(word))
            elif action == "remove" and there:
                (space.root / path).unlink()
            elif action == "move" and there:
                space.move(path, f"src/{word}/g{number}.py")
            elif action == "note" and there:
                space.engine.scan()
                space.note(path, f"note on {word}")
            elif action == "reopen":
                space.reopen()
            elif action == "compact":
                space.engine.compact(0)
            space.settle()
            space.engine.compose(query=None if action == "ask" else word)
            space.valid()
        # The first question of all is not asked of it.
        first, second = (space.engine.compose(query="all") for _ in range(2))
        assert first == second
        kept = space.engine.corpora.kept
        fresh = KeptCorpus(
            space.engine.frames.heads,
            postings.PostingStore(space.engine.database),
            space.engine.frames.code,
        )
        fresh.bring_up_to_date(space.engine.tree)
        tree = space.engine.tree
        with contextlib.closing(StoredCorpus(space.engine.frames, tree, tree)) as told:
            assert state(kept, WORDS) == state(fresh, WORDS) == state(told, WORDS)
        space.valid()


def test_an_index_from_before_gets_its_postings(
    project: Space, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = project.engine.compose(query="python outline")
    other = tmp_path / "old"
    files = ("README.md", "src/one/a.py", "src/one/b.py", "src/two/c.py")
    for path in files:
        (other / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project.root / path, other / path)
    # A store of the schema before postings, with the bodies and frames of this one.
    (other / ".merkle").mkdir()
    for name in ("format.json", "journal", ".gitignore", "cookies"):
        source = project.root / ".merkle" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, other / ".merkle" / name)
    as_made_here(other)
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", MIGRATIONS[:2])
        old = database.Database(other / ".merkle/index.duckdb")
        for table in ("root_log", "node_log", "remarks", "agent_log", "frame_log", "head_log"):
            _copy(project, old, table, "*")
        _copy(project, old, "bodies", "sha256, content")
        for table in ("input_lists", "memo"):
            _copy(project, old, table, "*")
        _copy(project, old, "listings", "path, stats, ids")
        with old.transaction() as connection:
            connection.execute("INSERT INTO meta SELECT 'journal', ?", [_journal(project)])
        old.close()
    monkeypatch.setattr(postings, "TOGETHER", 3)
    with Engine(other) as engine:
        # What the files say for themselves is found out by the next pass.
        engine.regenerate()
        assert engine.compose(query="python outline") == expected
        assert engine.validate()["errors"] == []
        assert engine.frames.postings.first_left() is None


def _copy(space: Space, target: database.Database, table: str, columns: str) -> None:
    rows = space.engine.database.rows(f"SELECT {columns} FROM {table} ORDER BY rowid")
    with target.transaction() as connection:
        database.append_rows(connection, table, rows)


def _journal(space: Space) -> str:
    return str(space.engine.frames.store.journal_number())


def test_repair_and_compact_keep_them_right(project: Space) -> None:
    for word in WORDS:
        project.write("src/one/a.py", python(word))
        project.settle()
    expected = project.engine.compose(query="quarry python")
    rows = "SELECT count(*) FROM postings"
    before = project.engine.database.rows(rows)[0][0]
    project.engine.compact(0)
    assert project.engine.compose(query="quarry python") == expected
    assert project.engine.database.rows(rows)[0][0] < before
    # Each term has one row now, and none of a body that was dropped.
    assert several_rows(project) == 0
    project.valid()
    project.write("src/one/b.py", python("harbour"))
    project.settle()
    assert found(project.engine, "harbour")[0] == "src/one/b.py"
    project.engine.close()
    (project.root / ".merkle/index.duckdb").unlink()
    repair(project.root)
    project.open()
    project.settle()
    assert found(project.engine, "harbour")[0] == "src/one/b.py"
    project.valid()


def test_a_compaction_that_is_broken_off_is_finished_by_the_next(project: Space) -> None:
    for word in WORDS:
        project.write("src/one/a.py", python(word))
        project.settle()
    expected = project.engine.compose(query="quarry python")
    steps = project.engine.begin_compact(0)
    for _ in range(5):
        assert not steps.step()
        # Others have their turn in between.
        assert project.engine.compose(query="quarry python") == expected
        project.valid()
    assert steps.document()["dropped"] > 0
    project.reopen()
    assert project.engine.compose(query="quarry python") == expected
    project.valid()
    assert several_rows(project) > 0
    assert project.engine.compact(0)["dropped"] == 0
    assert several_rows(project) == 0
    assert project.engine.compose(query="quarry python") == expected
    project.valid()


def several_rows(space: Space) -> int:
    """How many terms have more than one row of postings."""
    rows = space.engine.database.rows(
        "SELECT count(*) FROM (SELECT term FROM postings GROUP BY term, space HAVING count(*) > 1)"
    )
    return int(rows[0][0])


OF_TEXT = {
    "DELETE FROM postings WHERE space = 1": "postings",
    "UPDATE postings SET term = term + 1 WHERE space = 1": "postings",
    "UPDATE bodies SET length = length + 1 WHERE length > 0": "bodies",
    "INSERT INTO postings SELECT 7, 1, numbers, gains FROM postings WHERE space = 1 LIMIT 1":
    "postings",
}  # fmt: skip
OF_FILES = {
    "DELETE FROM code_symbols": ("code_symbols", "facts"),
    "DELETE FROM postings WHERE space = 0": ("postings", "postings"),
    "UPDATE postings SET term = term + 1 WHERE space = 0": ("postings", "postings"),
    "UPDATE code_symbols SET line = line + 1": ("code_symbols", "facts"),
    "UPDATE code_facts SET spans = ''::BLOB": ("code_facts", "facts"),
    "UPDATE code_facts SET spans = 'abc'::BLOB": ("code_facts", "facts"),
    "UPDATE code_uses SET uses = 'abc'::BLOB": ("code_uses", "facts"),
}
"""What is done to the index, and to which of its tables."""


def but_the_first_seldom(damages: Iterable[str]) -> list[Any]:
    """That any damage is found is seen in every run; that it is repaired, of one of them."""
    first, *others = damages
    return [first, *(pytest.param(each, marks=pytest.mark.soak) for each in others)]


@contextlib.contextmanager
def damaged(space: Space, damage: str, table: str) -> Iterator[None]:
    """Damage a table, and let it be what it was afterwards."""
    with space.engine.database.transaction() as connection:
        connection.execute(f"CREATE TEMP TABLE whole AS FROM {table}")
        connection.execute(damage)
    yield
    with space.engine.database.transaction() as connection:
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"INSERT INTO {table} FROM whole")
        connection.execute("DROP TABLE whole")


def check_repaired(space: Space, damage: str) -> None:
    with space.engine.database.transaction() as connection:
        connection.execute(damage)
    space.engine.close()
    repair(space.root)
    space.open()
    space.settle()
    space.valid()


def test_validate_finds_postings_that_are_not_those_of_the_text(project: Space) -> None:
    project.note("src/one/a.py", "mind the harbour wall")
    project.valid()
    for damage, table in OF_TEXT.items():
        with damaged(project, damage, table):
            codes = {error["code"] for error in project.engine.validate()["errors"]}
            assert codes == {"postings"}, damage
    project.valid()


@pytest.mark.parametrize("damage", but_the_first_seldom(OF_TEXT))
def test_repair_makes_postings_those_of_the_text(project: Space, damage: str) -> None:
    project.note("src/one/a.py", "mind the harbour wall")
    check_repaired(project, damage)


def test_validate_finds_files_that_are_known_for_what_they_do_not_say(project: Space) -> None:
    assert project.engine.references("a")["edges"] == []
    known = project.engine.validate()
    assert known["files_checked"] == known["files_known"] > 0
    for damage, (table, code) in OF_FILES.items():
        with damaged(project, damage, table):
            errors = project.engine.validate()["errors"]
            assert {error["code"] for error in errors} == {code}, damage
            assert "src/one/a.py" in {error["path"] for error in errors}, damage
    project.valid()


@pytest.mark.parametrize("damage", but_the_first_seldom(OF_FILES))
def test_repair_makes_files_known_for_what_they_say(project: Space, damage: str) -> None:
    assert project.engine.references("a")["edges"] == []
    check_repaired(project, damage)


def test_of_many_files_an_even_sample_is_made_again(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_checks, "FILES_CHECKED", 2)
    found = project.engine.validate()
    assert 1 <= found["files_checked"] <= 2 < found["files_known"]


def test_where_there_are_many_they_are_checked_in_parts(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "HELD", 1)
    project.note("src/one/a.py", "mind the harbour wall")
    project.valid()
    with project.engine.database.transaction() as connection:
        connection.execute("UPDATE postings SET gains = repeat('b', octet_length(gains))::BLOB")
    assert {error["code"] for error in project.engine.validate()["errors"]} == {"postings"}


def test_a_pack_brings_notes_that_are_found(project: Space, tmp_path: Path) -> None:
    project.note("src/one/a.py", "mind the harbour wall")
    project.engine.export_pack(tmp_path / "all.pack")
    other = project.clone()
    try:
        other.engine.scan()
        other.engine.import_pack(tmp_path / "all.pack", trust=True)
        (item,) = other.engine.compose(query="harbour wall")["items"]
        assert (item["path"], item["type"]) == ("src/one/a.py", "note")
        other.valid()
    finally:
        other.close()


def test_get_node_by_relevance(project: Space) -> None:
    project.note("src/one/a.py", "the harbour", frame_type="first")
    project.note("src/one/a.py", "harbour harbour, and a ferry", frame_type="second")
    project.note("src/one/a.py", "nothing of it", frame_type="third")

    def kinds(query: str) -> list[str]:
        node = project.engine.get_node("src/one/a.py", view="relevance", query=query)
        return [frame["type"] for frame in node["frames"]]

    assert kinds("ferry harbour")[0] == "second"
    assert kinds("nothing")[0] == "third"
    assert sorted(kinds("nothing")) == ["first", "outline", "second", "third"]
