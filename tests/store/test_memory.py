"""How much memory the database takes, and that legal data fits into it."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import threading
from pathlib import Path
from unittest import mock

import duckdb
import pytest

from indexer.engine.durable.repair import repair
from indexer.store import memory
from indexer.store.database import Database
from indexer.store.memory import Room, most_memory
from indexer.store.query import run_query
from tests.support.space import Space

SMALL = 10_000_000
"""A limit at rest that a few texts go beyond, as many do beyond the real one."""
SMALLER = 6_000_000
"""One for fewer still."""
LONG = functools.partial(pytest.param, marks=pytest.mark.soak)


def long_text(number: int) -> str:
    """As long as a note may be."""
    line = f"note {number} says the same again and again\n"
    return line * ((1 << 20) // len(line))


def limit(database: Database) -> str:
    return str(database.rows("SELECT current_setting('memory_limit')")[0][0])


def test_the_limit_is_a_share_of_what_there_is(tmp_path: Path) -> None:
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory.AT_REST <= most_memory() <= there // 2
    (tmp_path / "memory.max").write_text("1000000000\n")
    assert most_memory(tmp_path) == 500_000_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.limit_in_bytes").write_text("800000000\n")
    assert most_memory(tmp_path) == 400_000_000
    (tmp_path / "memory.limit_in_bytes").write_text("1000\n")
    assert most_memory(tmp_path) == memory.AT_REST


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every index is too large to be kept as a whole."""
    monkeypatch.setattr(memory, "KEPT_WHOLE", 0)


@pytest.mark.usefixtures("large")
def test_room_is_taken_only_while_it_is_needed(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.duckdb")
    rest = limit(database)
    assert rest == f"{memory.AT_REST / (1 << 20):.1f} MiB"
    with database.transaction():
        assert limit(database) != rest
        with database.roomy() as cursor:
            assert cursor.execute("SELECT current_setting('memory_limit')").fetchone() != (rest,)
        assert limit(database) != rest
    assert limit(database) == rest
    assert not run_query(database, "SELECT * FROM duckdb_settings()", 1000, 5.0)[2]
    database.close()


def test_room_is_waited_for_where_readers_have_taken_everything() -> None:
    connection = duckdb.connect(":memory:", config={"threads": "2"})
    room = Room(connection, 100_000_000, lambda: memory.KEPT_WHOLE + 1, 16 << 20)
    held: list[duckdb.DuckDBPyConnection] = []
    for rows, size in ((20_000, 100), (2_000, 100), (200, 10), (20, 1), (1, 1)):
        with contextlib.suppress(duckdb.OutOfMemoryException):
            while True:
                reader = connection.cursor()
                reader.execute(f"SELECT repeat('x', {size}) || i FROM range({rows}) t(i)")
                held.append(reader)
    with pytest.raises(duckdb.OutOfMemoryException):
        connection.execute("SET memory_limit = '90MB'")
    leaving = threading.Timer(0.2, lambda: [reader.close() for reader in held])
    leaving.start()
    for _ in range(2):
        with room.taken():
            asked = connection.execute("SELECT current_setting('memory_limit')").fetchone()
            assert asked == ("95.3 MiB",)
    leaving.join()
    assert connection.execute("SELECT current_setting('memory_limit')").fetchone() == ("16.0 MiB",)


def test_the_limit_of_a_small_index_never_changes(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.duckdb")
    database.serve()
    most = limit(database)
    with mock.patch.object(Room, "_set", autospec=True, side_effect=Room._set) as changes:
        with database.transaction():
            assert limit(database) == most
        assert limit(database) == most
        # What was small has grown.
        with mock.patch.object(memory, "KEPT_WHOLE", 0), database.transaction():
            assert limit(database) == most
        assert limit(database) == f"{memory.SERVED / (1 << 20):.1f} MiB"
        # And is small again: whoever needs room next leaves it as it is.
        with database.transaction():
            assert limit(database) == most
        assert limit(database) == most
    assert {call.args[1] for call in changes.call_args_list} == {most_memory(), memory.SERVED}
    database.close()


@pytest.mark.usefixtures("large")
def test_a_service_rests_with_less(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.duckdb")
    database.serve()
    rest = f"{memory.SERVED / (1 << 20):.1f} MiB"
    assert limit(database) == rest
    with database.transaction():
        assert limit(database) != rest
    assert limit(database) == rest
    database.close()


def test_what_is_spilled_is_private_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "index.duckdb"
    Database(path).close()
    spill = tmp_path / "spill"
    assert not spill.exists()
    spill.mkdir()
    (spill / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(b"of one that was killed")
    database = Database(path)
    assert list(spill.iterdir()) == []
    assert stat.S_IMODE(spill.stat().st_mode) == 0o700
    database.close()
    assert not spill.exists()


@mock.patch("indexer.core.tokens.count_tokens", lambda _, text, **__: len(text) // 4)
def check_long_notes(notes: int) -> None:
    """What texts take of the database; counting their tokens would take as long again."""
    space = Space()
    try:
        space.write("a.py", "x = 1\n")
        space.settle()
        for number in range(notes):
            space.note("a.py", long_text(number), agent=f"a{number}")
        space.reopen()
        assert space.engine.validate()["errors"] == []
        assert space.engine.get_node("a.py", max_frames=notes + 9)["frame_count"] == notes + 1
        space.engine.compact()
        space.engine.close()
        database = space.root / ".merkle" / "index.duckdb"
        database.write_bytes(b"broken" * 1000)
        assert repair(space.root)["records"] >= notes
        space.open()
        space.valid()
        shown = space.engine.get_node("a.py", max_frames=notes + 9)["frames"]
        assert {long_text(number) for number in range(notes)} <= {one["content"] for one in shown}
    finally:
        space.close()


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("notes", "rest"), [(4, SMALLER), LONG(12, SMALL)])
def test_texts_beyond_the_limit_at_rest(
    notes: int, rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "AT_REST", rest)
    check_long_notes(notes)


def check_concatenation(files: int) -> None:
    space = Space()
    try:
        space.declare('[types.outline]\nfile = "outline"\nfolder = "concatenate"\n')
        text = "".join(f"def function_{n}(argument_{n}: int) -> int: ...\n" for n in range(400))
        for number in range(files):
            space.write(f"a/b/c/d{number % 7}/e{number}.py", f"def only_{number}(): ...\n{text}")
        space.settle()
        space.reopen()
        assert space.engine.status()["frames"]["stale"] == 0
        space.valid()
    finally:
        space.close()


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("files", "rest"), [(20, SMALLER), LONG(60, SMALL)])
def test_one_text_of_a_whole_tree(files: int, rest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "AT_REST", rest)
    check_concatenation(files)


@pytest.mark.soak
@pytest.mark.usefixtures("large")
def test_ten_times_as_many_long_texts() -> None:
    check_long_notes(720)


@pytest.mark.soak
@pytest.mark.usefixtures("large")
def test_one_text_of_a_tree_ten_times_as_large() -> None:
    check_concatenation(6000)
