"""What was acknowledged survives the loss of the database, its WAL or bytes of either."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.durable.journal import Records
from indexer.engine.durable.repair import repair
from indexer.errors import CorruptError, ExitCode, MerkleError
from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.space import Space, python

PATHS = ("README.md", "src/one/a.py", "src/one/b.py", "src/two/c.py", "src/one")


def said(engine: Engine) -> dict[tuple[str, str], tuple[str, str]]:
    """Every acknowledged note as it is served: FrameID and content by path and type."""
    found = {}
    for path in PATHS:
        for frame in engine.get_node(path, agent="ann", max_frames=100)["frames"]:
            found[path, frame["type"]] = (frame["frame_id"], frame["content"])
    return found


def shown(engine: Engine) -> dict[str, Any]:
    """What readers are told of generated frames."""
    return {
        path: [
            (frame["frame_id"], frame["freshness"], frame["content"])
            for frame in engine.get_node(path, frame_type="outline")["frames"]
        ]
        for path in ("", "src", *PATHS)
    }


# Of the whole run: a worker that takes cases over comes back to this module more than once.
@pytest.fixture(scope="session")
def unfolded(template: Path) -> Iterator[Path]:
    """The project with notes, the last of them in the WAL, as a power cut would leave it."""
    project = Space(copy_of=template)
    for number, path in enumerate(PATHS):
        project.note(path, f"note {number} on {path}")
    project.reopen()
    for number, path in enumerate(PATHS):
        project.note(path, f"todo {number} on {path}", frame_type="todo")
    yield crashed(project, project.base)
    project.close()


@pytest.fixture
def noted(unfolded: Path) -> Iterator[Space]:
    """A copy of it, open."""
    space = Space(copy_of=unfolded)
    assert wal(space.root).stat().st_size > 0
    yield space
    space.close()


def crashed(space: Space, into: Path) -> Path:
    """The files as a power cut would leave them, the WAL among them."""
    target = into / "crashed"
    return copy_workspace(space.root, target)


@pytest.fixture
def place(noted: Space) -> Path:
    return crashed(noted, noted.base)


def database(root: Path) -> Path:
    return root / ".merkle/index.duckdb"


def wal(root: Path) -> Path:
    return root / ".merkle/index.duckdb.wal"


def test_acknowledged_notes_survive_a_crash(noted: Space, place: Path) -> None:
    assert wal(place).stat().st_size > 0
    with Engine(place) as engine:
        assert said(engine) == said(noted.engine)
        assert engine.records.redone == 0
        assert engine.validate()["errors"] == []


def test_acknowledged_notes_survive_deletion_of_the_database_file(
    noted: Space, place: Path
) -> None:
    before = said(noted.engine)
    database(place).unlink()
    wal(place).unlink()
    with Engine(place) as engine:
        assert engine.records.redone > 0
        engine.scan()
        assert said(engine) == before
        assert len(engine.list_frames("src/one/a.py")["frames"]) == 2
        engine.regenerate()
        assert shown(engine) == shown(noted.engine)
        assert engine.validate()["valid"]


def test_a_database_deleted_without_its_wal_is_noticed_or_healed(noted: Space, place: Path) -> None:
    database(place).unlink()
    check_noticed_or_right(noted, place)


def test_acknowledged_notes_survive_deletion_of_the_wal(noted: Space, place: Path) -> None:
    wal(place).unlink()
    with Engine(place) as engine:
        assert engine.records.redone > 0
        engine.scan()
        assert said(engine) == said(noted.engine)
        engine.regenerate()
        assert shown(engine) == shown(noted.engine)
        assert engine.validate()["valid"]


def check_noticed_or_right(noted: Space, place: Path) -> str:
    """Damage is refused with exit code 4, found by validate, or changes nothing that is served.

    Then repair brings everything back, and throws nothing away.
    """
    before, outlines = said(noted.engine), shown(noted.engine)
    outcome, problem = "unharmed", None
    try:
        with Engine(place) as engine:
            engine.scan()
            engine.regenerate()
            # Whatever is served is right, also where the damage is found only by looking for it.
            assert said(engine) == before
            assert shown(engine) == outlines
            outcome = "healed" if engine.records.redone else "unharmed"
            if not engine.validate()["valid"]:
                outcome = "found"
    except MerkleError as error:
        outcome, problem = "refused", error
    assert problem is None or problem.exit_code is ExitCode.CORRUPT, repr(problem)
    told = repair(place)
    assert told["repaired"] or outcome not in ("refused", "found"), (outcome, told)
    for moved in told["quarantined"]:
        assert Path(moved).exists()
    with Engine(place) as engine:
        engine.scan()
        engine.regenerate()
        assert said(engine) == before
        assert shown(engine) == outlines
        assert engine.validate()["valid"]
    return outcome


def flip(path: Path, at: int, bits: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ bits]))


def check_flips(noted: Space, which: str, count: int, seed: int) -> list[str]:
    chance, outcomes = random.Random(seed), []
    clean = crashed(noted, noted.base)
    target = database(clean) if which == "database" else wal(clean)
    size = target.stat().st_size
    for number in range(count):
        copy = noted.base / f"copy-{number}"
        copy_workspace(clean, copy)
        try:
            damaged = database(copy) if which == "database" else wal(copy)
            # Half of them near the beginning, where the headers are.
            at = chance.randrange(size if number % 2 else min(size, 16 << 10))
            flip(damaged, at, 1 << chance.randrange(8))
            outcomes.append(check_noticed_or_right(noted, copy))
        finally:
            shutil.rmtree(copy)
    return outcomes


@pytest.mark.parametrize("which", ["wal", "database"])
def test_flipped_bytes_are_noticed_and_never_served(noted: Space, which: str) -> None:
    assert len(check_flips(noted, which, 1, seed=1)) == 1


@pytest.mark.soak
@pytest.mark.parametrize("which", ["wal", "database"])
def test_flipped_bytes_at_a_few_places_are_too(noted: Space, which: str) -> None:
    assert len(check_flips(noted, which, 3, seed=1)) == 3


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("which", ["wal", "database"])
@pytest.mark.parametrize("part", [1, 2])
def test_flipped_bytes_at_100_places_are_noticed_and_never_served(
    noted: Space, which: str, part: int
) -> None:
    assert len(check_flips(noted, which, 50, seed=100 + part)) == 50


def test_a_truncated_wal_or_database_is_noticed_or_healed(noted: Space) -> None:
    clean = crashed(noted, noted.base)
    for path, part in ((wal(clean), 2), (database(clean), 2)):
        copy = noted.base / "cut"
        copy_workspace(clean, copy)
        damaged = copy / path.relative_to(clean)
        os.truncate(damaged, path.stat().st_size // part)
        check_noticed_or_right(noted, copy)
        shutil.rmtree(copy)


# -- the journal


def segment(root: Path) -> Path:
    (found,) = (root / ".merkle/journal").glob("*.log")
    return found


def test_a_journal_ahead_of_the_database_is_redone(noted: Space) -> None:
    before = crashed(noted, noted.base)
    noted.note("README.md", "later", frame_type="later")
    expected = said(noted.engine)
    shutil.rmtree(before / ".merkle/journal")
    shutil.copytree(noted.root / ".merkle/journal", before / ".merkle/journal")
    with Engine(before) as engine:
        assert engine.records.redone == 1
        assert said(engine) == expected
        assert engine.validate()["valid"]
    with Engine(before) as engine:
        assert engine.records.redone == 0


def test_nobody_reads_before_the_journal_is_redone(
    noted: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = crashed(noted, noted.base)
    noted.note("README.md", "later", frame_type="later")
    shutil.rmtree(before / ".merkle/journal")
    shutil.copytree(noted.root / ".merkle/journal", before / ".merkle/journal")
    really, redo, seen = Records.open, threading.Event(), list[object]()

    def slowly(self: Records, *arguments: Any, **named: Any) -> None:
        assert redo.wait(60)
        really(self, *arguments, **named)

    monkeypatch.setattr(Records, "open", slowly)
    with Engine(before) as engine:
        opening = threading.Thread(target=lambda: engine.records)
        reading = threading.Thread(
            target=lambda: seen.append(engine.frames.heads.notes_at(PATHS[0]))
        )
        opening.start()
        reading.start()
        # Time in which a reader that does not wait is done.
        reading.join(0.2)
        assert not seen
        redo.set()
        for thread in (opening, reading):
            thread.join(60)
        ((*_, ((kind, _), _)),) = seen
        assert kind == "later"


def test_a_database_ahead_of_the_journal_is_damage_and_repair_loses_nothing(
    noted: Space, place: Path
) -> None:
    log = segment(place)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-3]))
    with Engine(place) as engine, pytest.raises(CorruptError) as refused:
        engine.get_node("src")
    assert refused.value.exit_code is ExitCode.CORRUPT
    told = repair(place)
    assert any("came from the database" in line for line in told["done"])
    with Engine(place) as engine:
        assert said(engine) == said(noted.engine)
        engine.regenerate()
        assert engine.validate()["valid"]


def test_a_deleted_journal_is_damage_and_repair_loses_nothing(noted: Space, place: Path) -> None:
    noted.note("README.md", "later words", frame_type="note")
    fresh = noted.base / "again"
    copy_workspace(noted.root, fresh)
    shutil.rmtree(fresh / ".merkle/journal")
    with Engine(fresh) as engine, pytest.raises(CorruptError):
        engine.get_node("src")
    repair(fresh)
    with Engine(fresh) as engine:
        assert said(engine) == said(noted.engine)
        # The older note came back before the one that was said last.
        history = engine.list_frames("README.md", frame_type="note", content=True)["frames"]
        assert {frame["content"]: (frame["head"], frame["live"]) for frame in history} == {
            "later words": (True, True), "note 0 on README.md": (False, True),
        }  # fmt: skip
        assert engine.list_agents() == noted.engine.list_agents()
        assert engine.validate()["valid"]


def test_a_damaged_record_is_put_aside_and_taken_from_the_database(
    noted: Space, place: Path
) -> None:
    log = segment(place)
    data = log.read_bytes()
    at = data.index(b"note 1 on")
    flip(log, at, 1)
    told = repair(place)
    assert told["repaired"]
    assert any(Path(moved).name.startswith("journal") for moved in told["quarantined"])
    with Engine(place) as engine:
        assert said(engine) == said(noted.engine)
        assert engine.validate()["valid"]


def test_a_damaged_record_and_no_database_is_said_to_be_gone(noted: Space, place: Path) -> None:
    expected = said(noted.engine)
    lost = expected.pop(("src/one/a.py", "note"))
    flip(segment(place), segment(place).read_bytes().index(lost[1].encode()), 1)
    database(place).unlink()
    wal(place).unlink()
    told = repair(place)
    assert any("journal records" in line for line in told["gone"])
    with Engine(place) as engine:
        assert said(engine) == expected
        assert engine.validate()["valid"]


def test_repair_of_what_is_whole_changes_nothing(noted: Space) -> None:
    noted.engine.close()
    before = segment(noted.root).read_bytes()
    told = repair(noted.root)
    assert (told["repaired"], told["done"], told["quarantined"]) == (False, [], [])
    assert segment(noted.root).read_bytes() == before
    noted.open()


def test_every_refusal_comes_before_the_append(noted: Space) -> None:
    last = noted.engine.records.journal.last
    for call in (
        lambda: noted.note("no/such"),
        lambda: noted.note("src", frame_type="outline"),
        lambda: noted.note("src", "\ud800"),
        lambda: noted.note("src", seen="zz"),
        lambda: noted.engine.put_frame("src", "x", frame_type="note", agent="nobody"),
    ):
        with pytest.raises(MerkleError):
            call()
    assert noted.engine.records.journal.last == last


def test_journal_holds_what_cannot_be_computed_and_nothing_else(noted: Space) -> None:
    noted.write("src/one/a.py", python("z"))
    noted.settle()
    kinds = [record["kind"] for _, record in noted.engine.records.journal.records()]
    assert kinds == ["format", "agent", *["frame"] * 10]
    json.dumps(kinds)
