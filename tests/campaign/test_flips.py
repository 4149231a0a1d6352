"""One flipped bit in any file of `.merkle`: found where a reading would show it, and repaired."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from indexer.store.layout import Layout
from tests.support.campaign import Ran, Tally, merkle, run_python, sized
from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.everything import KEPT, fill, write_everything, write_more
from tests.support.everything import READ as READ_SECTIONS

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PARTS = 6
READ = """
import json, sys
from pathlib import Path
from indexer.errors import MerkleError
from tests.support.engines import Engine
from tests.support.everything import KEPT, READ, read

try:
    with Engine(Path(sys.argv[1])) as engine:
        print(json.dumps(read(engine, KEPT if sys.argv[2:] else READ)))
except MerkleError as error:
    print(json.dumps({"": f"error: {error.code} ({int(error.exit_code)})"}))
"""

OFTEN = ("index.duckdb", "index.duckdb", "index.duckdb.wal", "journal/000001.log")
"""What is worth flipping most of the time; every file gets its turns."""

AGAIN = frozenset(READ_SECTIONS) - frozenset(KEPT)
"""What is computed again, or told to be gone, when the database has lost its newest batches."""


class Original(NamedTuple):
    """A workspace with its log unfolded, and what a reader is told of it."""

    root: Path
    told: dict[str, str]


@pytest.fixture(scope="module")
def original() -> Iterator[Original]:
    base = Path(tempfile.mkdtemp(prefix="mkflip"))
    made, crashed = base / "made", base / "crashed"
    made.mkdir()
    fill(made)
    write_everything(made)
    engine = Engine(made)
    write_more(engine)
    copy_workspace(made, crashed)
    engine.close()
    (crashed / ".merkle/service.log").write_text("it listens\n")
    (crashed / ".merkle/starting").touch()
    copy_workspace(crashed, base / "read")
    told = readings(base / "read")
    assert not any(value.startswith("error") for value in told.json.values()), told
    yield Original(crashed, told.json)
    shutil.rmtree(base, ignore_errors=True)


def readings(root: Path, *kept: str) -> Ran:
    return run_python([sys.executable, "-c", READ, root, *kept])


def files(root: Path) -> list[Path]:
    """Every file of the index that holds anything."""
    found = [each for each in Layout(root).folder.rglob("*") if each.is_file()]
    return sorted(each for each in found if each.stat().st_size)


def flip_one(root: Path, chance: random.Random) -> str:
    """Flip one bit somewhere; where."""
    folder = Layout(root).folder
    often = [folder / name for name in OFTEN]
    target = chance.choice(often if chance.random() < 0.7 else files(root))
    content = bytearray(target.read_bytes())
    places = range(len(content))
    if target.name == "index.duckdb" and chance.random() < 0.8:
        # Where there is something: an unused block may hold anything.
        used = [at for at in places if content[at]]
        at = chance.choice(used)
    else:
        at = chance.choice(places)
    bit = chance.randrange(8)
    content[at] ^= 1 << bit
    # In place, as a disk does it.
    with target.open("r+b") as file:
        os.pwrite(file.fileno(), bytes([content[at]]), at)
    return f"{target.relative_to(folder)} byte {at} bit {bit}"


@pytest.mark.parametrize("part", range(PARTS))
def test_flipped_bytes(
    original: Original, tmp_path: Path, tally: Callable[[str], Tally], part: int
) -> None:
    row = tally("flipped bytes")
    for number in range(sized(4, 50)):
        chance = random.Random(1000 * part + number)
        row.runs += 1
        place = Path(tempfile.mkdtemp(prefix="mkflip"))
        try:
            one_flip(original, place, chance, row)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def one_flip(original: Original, place: Path, chance: random.Random, row: Tally) -> None:
    root = copy_workspace(original.root, place / "w")
    where = flip_one(root, chance)
    # The same place on disk, so that the index counts as made here: what is read, what is checked
    # and what is repaired are three copies of one damage.
    damaged = place / "damaged"
    shutil.copytree(root / ".merkle", damaged, symlinks=True)
    found = row.saw(merkle(root, "--json", "validate"), f"validate, {where}")
    again(root, damaged)
    told = row.saw(readings(root), f"reading, {where}")
    again(root, damaged)
    if found.code == 0 and (shown := shown_wrong(original.told, told)):
        # The newest batches may be gone with the log: then that is what is said.
        status = row.saw(merkle(root, "--json", "status"), f"status, {where}")
        is_said = status.json["lost"] or status.json["frames"]["missing"] + not_fresh(status.json)
        if not AGAIN.issuperset(shown) or not is_said:
            row.fail("missed", f"{where}: validate says nothing, {shown} differ")
        row.count("losses told")
        again(root, damaged)
    mended = row.saw(merkle(root, "--json", "repair"), f"repair, {where}")
    row.told["unharmed" if found.code == 0 else f"exit {found.code}"] += 1
    if mended.code != 0:
        row.fail("unrepaired", f"{where}: exit {mended.code}: {mended.out[-600:]}")
        return
    after = row.saw(merkle(root, "--json", "validate"), f"validate after repair, {where}")
    if after.code != 0:
        row.fail("unrepaired", f"{where}: validate afterwards: {after.out[-600:]}")
    kept = row.saw(readings(root, "kept"), f"reading after repair, {where}")
    lost = [name for name in KEPT if kept.json.get(name) != original.told[name]]
    row.count("acknowledged", len(KEPT))
    if lost:
        row.fail("lost", f"{where}: {lost} after repair: {mended.out[-600:]}")


def again(root: Path, damaged: Path) -> None:
    """Put the damaged index back, file by file: the folder stays the one that was bound."""
    folder = Layout(root).folder
    for each in sorted(folder.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    shutil.copytree(damaged, folder, symlinks=True, dirs_exist_ok=True)


def shown_wrong(intact: dict[str, str], told: Ran) -> list[str]:
    """Which readings gave something else than before, or nothing."""
    if told.code != 0:
        return ["everything"]
    return [name for name, value in told.json.items() if value != intact.get(name)]


def not_fresh(status: dict[str, Any]) -> int:
    """How many frames are there and not shown to be fresh."""
    return int(status["frames"]["total"]) - int(status["frames"]["fresh"])
