"""A week of editing under a service: the index stays within twice the size of a fresh one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from indexer.engine.durable.compact import SAVES_BETWEEN, compacting_pays
from tests.engine.durable.test_growth import module, size
from tests.support.campaign import Tally, sized
from tests.support.space import Space

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

SAVES = sized(300, 5000)
FILES = 600


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space()
    yield made
    made.close()


def taken(space: Space) -> int:
    """Bytes of everything in the index's folder."""
    folder = space.root / ".merkle"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_week_of_editing(space: Space, tally: Callable[[str], Tally]) -> None:
    row = tally("saves, size of the index")
    space.fill({f"pkg{n % 12}/m{n}.py": module(n, 0) for n in range(FILES)})
    space.settle()
    space.note("pkg1/m1.py", "said of the first edition")
    # As a service that has folded its first pass; the first saves do not pay for it.
    space.engine.database.checkpoint()
    largest = looked = 0
    for edition in range(1, SAVES + 1):
        # Mostly the same few files, as one edits.
        number = edition % 7 if edition % 5 else edition % FILES
        space.write(f"pkg{number % 12}/m{number}.py", module(number, edition))
        space.settle()
        row.runs += 1
        largest = max(largest, taken(space))
        head = space.engine.trees.head()
        assert head is not None
        # As a service does it when it is idle.
        if head.seq - looked >= SAVES_BETWEEN:
            looked = head.seq
            if compacting_pays(space.engine):
                space.engine.compact()
                row.count("compacted")
    at_rest = size(space)
    fresh = space.clone()
    try:
        fresh.settle()
        fresh_size = size(fresh)
    finally:
        fresh.close()
    row.count("percent of a fresh one at most", round(100 * largest / fresh_size))
    # The library writes what it folds beside what it replaces, and uses that space again later.
    row.count("percent folded at the end", round(100 * at_rest / fresh_size))
    space.valid()
    assert largest <= 2 * fresh_size
