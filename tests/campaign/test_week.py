"""A week of editing under a service: the index stays within twice the size of a fresh one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.engine.durable.compact import SAVES_BETWEEN, compacting_pays
from indexer.store.database import Database
from tests.engine.durable.test_growth import module, size
from tests.support.campaign import Tally, sized
from tests.support.space import Space

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

SAVES = sized(300, 5000)
FILES = 600
FOLDED_EVERY = 50
STOPPED_EVERY = 129
"""Saves between two stops, which fold; the number has nothing in common with `SAVES_BETWEEN`."""


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space()
    yield made
    made.close()


def taken(folder: Path) -> int:
    """Bytes of everything in the index's folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def folded(space: Space) -> int:
    """The same, if the service were stopped now."""
    copy = space.base / "stopped"
    shutil.copytree(space.root / ".merkle", copy)
    Database(copy / "index.duckdb").close()
    try:
        return taken(copy)
    finally:
        shutil.rmtree(copy)


def test_a_week_of_editing(space: Space, tally: Callable[[str], Tally]) -> None:
    row = tally("saves, size of the index")
    space.fill({f"pkg{n % 12}/m{n}.py": module(n, 0) for n in range(FILES)})
    space.settle()
    space.note("pkg1/m1.py", "said of the first edition")
    # As a service that has folded its first pass; the first saves do not pay for it.
    space.engine.database.checkpoint()
    index = space.root / ".merkle"
    largest = largest_folded = looked = 0
    for edition in range(1, SAVES + 1):
        # Mostly the same few files, as one edits.
        number = edition % 7 if edition % 5 else edition % FILES
        space.write(f"pkg{number % 12}/m{number}.py", module(number, edition))
        space.settle()
        row.runs += 1
        largest = max(largest, taken(index))
        # Often before the first compaction, which makes the blocks of a small index smaller.
        if edition % FOLDED_EVERY == 0 or edition <= SAVES_BETWEEN:
            largest_folded = max(largest_folded, folded(space))
        if edition % STOPPED_EVERY == 0:
            space.reopen()
            largest_folded = max(largest_folded, taken(index))
            looked = 0
        head = space.engine.trees.head()
        assert head is not None
        # As a service does it when it is idle.
        if head.seq - looked >= SAVES_BETWEEN:
            looked = head.seq
            if compacting_pays(space.engine.trees, space.engine.database):
                space.engine.compact()
                row.count("compacted")
    largest_folded = max(largest_folded, size(space))
    fresh = space.clone()
    try:
        fresh.settle()
        fresh_size = size(fresh)
    finally:
        fresh.close()
    row.count("percent of a fresh one at most", round(100 * largest / fresh_size))
    row.count("percent folded at most", round(100 * largest_folded / fresh_size))
    space.valid()
    assert largest <= 2 * fresh_size
    assert largest_folded <= 2 * fresh_size
