"""A database below a folder whose name is not UTF-8."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.store import memory, utf8_folder
from indexer.store.database import DamagedError, Database, put_meta
from indexer.store.layout import initialise
from indexer.store.utf8_folder import UnnameableError, Utf8Folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="such names are Linux's")

SPILLS = (
    "CREATE TEMP TABLE big AS SELECT md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS text"
    " FROM range(300000)"
)
SMALL = 10_000_000
"""The memory that a database may use where this is more."""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff\xfe"))
    folder.mkdir()
    return folder


def open_below(folder: Path) -> list[str]:
    """What this process has open there."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        # The folder that is being listed is gone again.
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [each for each in found if each.startswith(str(folder))]


def note(database: Database, value: str) -> None:
    with database.transaction() as connection:
        put_meta(connection, "noted", value)


def noted(database: Database) -> list[tuple[str]]:
    return database.rows("SELECT value FROM meta WHERE key = 'noted'")


def test_a_name_in_utf8_is_used_as_it_is(tmp_path: Path) -> None:
    place = Utf8Folder(tmp_path / "käse")
    assert place.path == tmp_path / "käse"
    place.close()


def test_what_is_written_is_in_the_folder_and_comes_back(odd: Path) -> None:
    database = Database(odd / "index.duckdb")
    assert str(odd) in open_below(odd)
    note(database, "folded")
    database.close()
    assert os.listdir(odd) == ["index.duckdb"]
    database = Database(odd / "index.duckdb")
    note(database, "in the WAL")
    database.close(fold=False)
    assert sorted(os.listdir(odd)) == ["index.duckdb", "index.duckdb.wal"]
    database = Database(odd / "index.duckdb")
    assert noted(database) == [("in the WAL",)]
    database.checkpoint()
    database.close()
    assert open_below(odd) == []


def test_what_does_not_fit_into_memory_goes_beside_it(
    odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where the index is large.
    monkeypatch.setattr(memory, "KEPT_WHOLE", 0)
    monkeypatch.setattr(memory, "AT_REST", SMALL)
    database = Database(odd / "index.duckdb")
    with database.reading() as cursor:
        cursor.execute(SPILLS)
        assert list((odd / "spill").iterdir())
        assert cursor.execute("SELECT count(DISTINCT text) FROM big").fetchone() == (300000,)
    database.close()
    assert os.listdir(odd) == ["index.duckdb"]


def test_another_process_is_refused_in_our_words(odd: Path) -> None:
    database = Database(odd / "index.duckdb")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from indexer.store.database import Database, DatabaseError\n"
        "try:\n"
        "    Database(Path(sys.argv[1]) / 'index.duckdb')\n"
        "except DatabaseError as error:\n"
        "    print(ascii(error.message))\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, os.fsencode(odd)], capture_output=True, text=True
    )
    assert "lock" in other.stdout, other.stderr
    note(database, "still mine")
    database.close()


def test_damage_is_told_as_damage_with_the_name_made_visible(odd: Path) -> None:
    (odd / "index.duckdb").write_bytes(b"this was a database once\n" * 500)
    with pytest.raises(DamagedError, match=r"odd-\\xff\\xfe.*not a valid DuckDB"):
        Database(odd / "index.duckdb")


def test_where_no_other_name_can_be_had_nothing_is_changed(
    odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utf8_folder, "_BY_DESCRIPTOR", odd / "nothing")
    with pytest.raises(UnnameableError, match="is not UTF-8") as refused:
        initialise(odd)
    assert "rename" in refused.value.hint
    assert os.listdir(odd) == []
    with pytest.raises(UnnameableError):
        Database(odd / "index.duckdb")
    assert (os.listdir(odd), open_below(odd)) == ([], [])
