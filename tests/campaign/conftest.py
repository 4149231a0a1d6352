"""The fault campaign: every test is one row, or a part of one, of the table printed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.campaign import Tally


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Callable[[str], Tally]]:
    """Begin a row; it is shown however the test ends, which fails if anything in it is wrong."""
    begun: list[Tally] = []

    def begin(fault: str) -> Tally:
        begun.append(Tally(fault))
        return begun[-1]

    yield begin
    for one in begun:
        record_property("campaign", one.as_text())
    wrong = [each for one in begun for each in one.wrong]
    assert not wrong, "\n".join(wrong[:20])
