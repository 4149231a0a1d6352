"""Bodies in memory and in the store: where they are, and that they are found there."""

from __future__ import annotations

import pytest

from indexer.core.frames import BodyHash, body_hash
from indexer.engine.shelf import neighbourhoods
from tests.frames.space import Space, python


@pytest.mark.parametrize(
    ("places", "groups"),
    [
        ([], []),
        ([7], [[7]]),
        ([1, 2, 1002, 2003], [[1, 2, 1002], [2003]]),
        ([1, 5000, 10000, 15000], [[1], [5000], [10000], [15000]]),
        ([1, 5000, 10000, 15000, 20000], [[1, 5000, 10000, 15000, 20000]]),
    ],
)
def test_what_lies_together_is_read_together(places: list[int], groups: list[list[int]]) -> None:
    assert neighbourhoods(places) == groups


def places_are_true(space: Space) -> None:
    shelf = space.engine.shelf
    kept = shelf._body_places()
    stored = shelf.store.body_places()
    assert kept == stored
    assert shelf._next_body == shelf.store.next_body_place()
    found = shelf.bodies(stored)
    assert set(found) == set(stored)
    assert all(body_hash(text) == content for content, text in found.items())


def test_the_places_in_memory_are_those_in_the_store(space: Space) -> None:
    space.fill({f"src/m{number}.py": python(f"f{number}") for number in range(30)})
    space.settle()
    places_are_true(space)
    for value in range(3):
        space.note("src/m1.py", f"note {value}")
        space.write("src/m2.py", python(f"g{value}"))
        space.settle()
        places_are_true(space)
    space.reopen()
    space.write("src/m3.py", python("again"))
    space.settle()
    places_are_true(space)
    space.engine.compact(0)
    places_are_true(space)
    # What was dropped comes back as a new row.
    space.write("src/m2.py", python("g0"))
    space.settle()
    places_are_true(space)
    assert space.freshness("src/m2.py") == "fresh"


def test_a_body_is_found_by_its_hash_where_its_place_is_wrong(project: Space) -> None:
    shelf = project.engine.shelf
    known = shelf._body_places()
    expected = shelf.bodies(known)
    for content in known:
        known[content] += 1
    assert shelf.bodies(list(known)) == expected


def test_a_body_that_is_not_stored_is_missing(project: Space) -> None:
    assert project.engine.shelf.bodies([BodyHash(b"\0" * 32)]) == {}
    assert project.engine.shelf.bodies([]) == {}
