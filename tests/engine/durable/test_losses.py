"""What was acknowledged and is gone is said; what is damaged is found and repaired."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.engine.durable.repair import repair
from indexer.engine.tree.history import UnknownRootError
from indexer.errors import CorruptError, ExitCode, MerkleError
from indexer.store.binding import ForeignIndexError
from indexer.store.database import DamagedError, Database
from indexer.store.layout import DamagedFormatError, Layout, NewerFormatError, read_format
from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.everything import KEPT, fill, read, write_everything, write_more


# Of the whole run: a worker that takes cases over comes back to this module more than once.
@pytest.fixture(scope="session")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with something of every kind, as a kill leaves it: with its log unfolded."""
    made, crashed = (tmp_path_factory.mktemp("losses") / name for name in ("made", "crashed"))
    made.mkdir()
    fill(made)
    write_everything(made)
    with Engine(made) as engine:
        write_more(engine)
        yield copy_workspace(made, crashed)


@pytest.fixture
def root(crashed: Path, tmp_path: Path) -> Path:
    return copy_workspace(crashed, tmp_path / "w")


@pytest.fixture(scope="session")
def kept(crashed: Path) -> dict[str, str]:
    """What cannot be computed again, as it is read from an intact copy."""
    with Engine(copy_workspace(crashed, crashed.with_name("intact"))) as engine:
        return read(engine, KEPT)


def roots(engine: Engine) -> list[str]:
    return [each["root"] for each in reversed(engine.log(1000)["roots"])]


@pytest.fixture(scope="session")
def all_roots(crashed: Path) -> list[str]:
    """Every root that was recorded, as an intact copy has them."""
    with Engine(copy_workspace(crashed, crashed.with_name("whole"))) as engine:
        return roots(engine)


@pytest.mark.parametrize("share", [0.0, 0.15, pytest.param(0.3, marks=pytest.mark.soak)])
def test_roots_that_went_with_the_log_are_told(
    root: Path, all_roots: list[str], share: float
) -> None:
    before = all_roots
    log = Layout(root).wal
    os.truncate(log, int(log.stat().st_size * share))
    with Engine(root) as engine:
        after = roots(engine)
        assert after == before[: len(after)]
        assert len(after) < len(before)
        gone = {"first": len(after) + 1, "last": len(before), "root": before[-1]}
        for told in (engine.log(1)["lost"], engine.status()["lost"]):
            assert [{key: one[key] for key in gone} for one in told] == [gone]
        (warning,) = engine.validate()["warnings"]
        assert warning["code"] == "lost_roots"
        assert str(len(before)) in warning["message"]
        assert engine.validate()["valid"]
        with pytest.raises(UnknownRootError) as refused:
            engine.diff(before[-1], "@-0")
        if before[-1] not in after:
            assert "has lost" in refused.value.hint
        # Its number is not given again, and what was lost stays said.
        (root / "later").write_text("x")
        engine.scan()
        assert engine.log(1)["roots"][0]["seq"] == len(before) + 1
        assert engine.diff("@-1", "@-0")["added"] == ["later"]
    with Engine(root) as engine:
        assert len(engine.log()["lost"]) == 1
        assert engine.validate()["valid"]
    assert repair(root)["repaired"] is False


def test_a_loss_is_forgotten_with_the_history_it_was_in(root: Path) -> None:
    os.truncate(Layout(root).wal, 0)
    (root / "merkle.toml").write_text("[history]\nkeep_count = 2\n")
    with Engine(root) as engine:
        for number in range(3):
            (root / "later").write_text(str(number))
            engine.scan()
        engine.compact()
        assert len(engine.log()["roots"]) == 2
        assert engine.log()["lost"] == []
        assert engine.validate()["valid"]


def test_a_kill_is_no_loss(root: Path) -> None:
    with Engine(root) as engine:
        assert engine.log()["lost"] == []
        assert engine.validate()["warnings"] == []


def damage_a_table(root: Path, table: str) -> None:
    """Flip a byte of a block of the file that holds a column of one table, and no other block."""
    layout = Layout(root)
    with Engine(root) as engine:
        engine.database.checkpoint()
        rows = engine.database.rows(f"SELECT DISTINCT block_id FROM pragma_storage_info('{table}')")
    blocks = [block for (block,) in rows if block is not None and block >= 0]
    size, header = 1 << 18, 3 * 4096
    with layout.database.open("r+b") as file:
        for block in blocks[:1]:
            at = header + block * size + 40
            before = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([before[0] ^ 4]), at)
    assert blocks, "the table is in the file"


# What models answered is read by nothing but the reading of everything.
@pytest.mark.parametrize(
    "table",
    [
        "model_results",
        pytest.param("session_versions", marks=pytest.mark.soak),
        pytest.param("manifest_log", marks=pytest.mark.soak),
        pytest.param("bodies", marks=pytest.mark.soak),
    ],
)
def test_a_flipped_byte_in_any_table_is_found_and_repaired(
    root: Path, kept: dict[str, str], crashed: Path, tmp_path: Path, table: str
) -> None:
    damage_a_table(root, table)
    with Engine(root) as engine, pytest.raises(CorruptError):
        engine.validate()
    told = repair(root)
    assert told["repaired"]
    with Engine(root) as engine:
        assert engine.validate()["valid"]
        assert read(engine, KEPT) == kept


def test_without_a_journal_damage_of_one_kind_costs_no_other(
    root: Path, kept: dict[str, str]
) -> None:
    damage_a_table(root, "model_results")
    shutil.rmtree(Layout(root).journal)
    assert repair(root)["repaired"]
    with Engine(root) as engine:
        assert engine.validate()["valid"]
        found = read(engine, KEPT)
    assert {name for name in kept if found[name] != kept[name]} == {"answers"}


def test_the_history_survives_damage_elsewhere(root: Path, all_roots: list[str]) -> None:
    damage_a_table(root, "session_versions")
    told = repair(root)
    assert "the history of roots came from the database" in told["done"]
    with Engine(root) as engine:
        assert roots(engine) == all_roots
        assert engine.diff("@-1", "@-0")["modified"]
        assert engine.log()["lost"] == []


def test_a_history_that_is_gone_is_said_with_its_numbers(root: Path, all_roots: list[str]) -> None:
    last = len(all_roots)
    Layout(root).database.write_bytes(b"no database" * 1000)
    Layout(root).wal.unlink()
    told = repair(root)
    said = f"roots 1 to {last} were recorded, and the database has lost them"
    assert said in told["gone"]
    with Engine(root) as engine:
        assert [one["seq"] for one in engine.log()["roots"]] == [last + 1]
        assert engine.validate()["valid"]


def test_a_damaged_journal_costs_nothing_that_the_database_has(
    root: Path, kept: dict[str, str], all_roots: list[str]
) -> None:
    log = Layout(root).journal / "000001.log"
    with log.open("r+b") as file:
        at = log.read_bytes().index(b"of edition 1")
        os.pwrite(file.fileno(), b"X", at)
    told = repair(root)
    assert told["repaired"]
    with Engine(root) as engine:
        assert roots(engine) == all_roots
        assert read(engine, KEPT) == kept
        assert engine.validate()["valid"]
    assert repair(root)["repaired"] is False


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_repair_that_was_killed_is_done_again(
    root: Path, kept: dict[str, str], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Between the journal that is written anew and the number that the database has of it."""
    from indexer.engine.durable import repair as repairing

    log = Layout(root).journal / "000001.log"
    with log.open("r+b") as file:
        os.pwrite(file.fileno(), b"X", log.read_bytes().index(b"of edition 1"))
    note, calls = repairing.note_applied, []

    def dying(layout: Layout, number: int | None) -> None:
        calls.append(number)
        if moment == "after" and number is not None:
            raise KeyboardInterrupt
        note(layout, number)
        if moment == "before":
            raise KeyboardInterrupt

    monkeypatch.setattr(repairing, "note_applied", dying)
    with pytest.raises(KeyboardInterrupt):
        repair(root)
    assert calls
    monkeypatch.setattr(repairing, "note_applied", note)
    assert repair(root)["repaired"]
    with Engine(root) as engine:
        assert read(engine, KEPT) == kept
        assert engine.validate()["valid"]


# -- what the index says of itself


FORMATS = [
    (b'"format": 1', b'"format": 3'),
    (b"xxh3_128", b"xxh1_128"),
    (b'{"format"', b'z"format"'),
    (b'"hash"', b'"iash"'),
    (b'"ids": ["', b'"ids": ["f'),
    (b"}", b"\xf9"),
]


def damage_the_format(root: Path, old: bytes, new: bytes) -> bytes:
    """What is in the file from now on, once it is known as damage."""
    file = Layout(root).format_file
    damaged = file.read_bytes().replace(old, new, 1)
    if old.startswith(b'"ids"'):
        # Every id that it is known by.
        recorded = json.loads(file.read_bytes())
        damaged = json.dumps({**recorded, "ids": ["f" * 32]}).encode()
    file.write_bytes(damaged)
    with pytest.raises((DamagedFormatError, NewerFormatError)) as refused:
        Engine(root)
    assert "merkle repair" in refused.value.hint
    return damaged


def test_a_damaged_format_is_known_as_damage(root: Path) -> None:
    whole = Layout(root).format_file.read_bytes()
    for old, new in FORMATS:
        assert damage_the_format(root, old, new) != whole
        Layout(root).format_file.write_bytes(whole)


@pytest.mark.parametrize(
    ("old", "new"),
    [FORMATS[0], *(pytest.param(*each, marks=pytest.mark.soak) for each in FORMATS[1:])],
)
def test_a_damaged_format_is_known_as_damage_and_repaired(
    root: Path, kept: dict[str, str], old: bytes, new: bytes
) -> None:
    damaged = damage_the_format(root, old, new)
    told = repair(root)
    assert told["repaired"]
    (aside,) = told["quarantined"]
    assert Path(aside).read_bytes() == damaged
    with Engine(root) as engine:
        assert read(engine, KEPT) == kept
        assert engine.validate()["valid"]


def test_the_note_of_another_folder_vouches_for_nothing(root: Path, tmp_path: Path) -> None:
    """What came with a copy or a clone is refused as before, by `repair` too."""
    copied = tmp_path / "copied"
    shutil.copytree(root, copied, symlinks=True)
    for damage in (b"", b"garbage"):
        Layout(copied).format_file.write_bytes(damage or Layout(root).format_file.read_bytes())
        with pytest.raises(MerkleError) as refused:
            repair(copied)
        assert not isinstance(refused.value, DamagedFormatError)
    shutil.copy(Layout(root).format_file, Layout(copied).format_file)
    with pytest.raises(ForeignIndexError):
        read_format(copied)


# -- a library that does not answer twice


def test_a_damaged_database_is_asked_nothing_more(root: Path) -> None:
    """A second question that needs a damaged index would never be answered."""
    damage_a_table(root, "bodies")
    database = Database(Layout(root).database)
    try:
        for _ in range(3):
            with pytest.raises(DamagedError) as refused:
                database.read_all()
            assert refused.value.exit_code is ExitCode.CORRUPT
        with pytest.raises(DamagedError):
            database.rows("SELECT 1")
    finally:
        database.close()
