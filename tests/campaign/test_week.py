"""A week of editing under a service: the index stays within twice the size of a fresh one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from indexer.engine.durable.compact import compacting_pays
from tests.engine.durable.test_growth import module, size
from tests.support.campaign import Tally, sized
from tests.support.space import Space

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

SAVES = sized(300, 5000)
FILES = 600
LOOK = 50
"""Saves between two looks at the size."""


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space()
    yield made
    made.close()


def test_a_week_of_editing(space: Space, tally: Callable[[str], Tally]) -> None:
    row = tally("saves, size of the index")
    space.fill({f"pkg{n % 12}/m{n}.py": module(n, 0) for n in range(FILES)})
    space.settle()
    space.note("pkg1/m1.py", "said of the first edition")
    largest = before = 0
    for edition in range(1, SAVES + 1):
        # Mostly the same few files, as one edits.
        number = edition % 7 if edition % 5 else edition % FILES
        space.write(f"pkg{number % 12}/m{number}.py", module(number, edition))
        space.settle()
        row.runs += 1
        if edition % LOOK == 0:
            before = max(before, size(space))
            # As a service does it when it is idle.
            if compacting_pays(space.engine):
                space.engine.compact()
                row.count("compacted")
            largest = max(largest, size(space))
    fresh = space.clone()
    try:
        fresh.settle()
        fresh_size = size(fresh)
    finally:
        fresh.close()
    row.count("percent of a fresh one at most", round(100 * largest / fresh_size))
    # The library writes what changed beside what it replaces, and only then lets that go.
    row.count("percent before compacting", round(100 * before / fresh_size))
    space.valid()
    assert largest <= 2 * fresh_size
