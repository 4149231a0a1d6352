"""Bodies in memory and in the store: which numbers they have, and that they are found by them."""

from __future__ import annotations

from indexer.core.frames import BodyHash, body_hash
from tests.support.space import Space, python


def numbers_are_true(space: Space) -> None:
    shelf = space.engine.frames.heads
    kept = shelf.body_numbers
    stored = shelf.store.known_bodies({})
    assert kept.numbers == stored.numbers
    assert len(set(kept.numbers.values())) == len(kept.numbers)
    for number in kept.numbers.values():
        assert kept.lengths[number] == stored.lengths[number]
    found = shelf.bodies(stored.numbers)
    assert set(found) == set(stored.numbers)
    assert all(body_hash(text) == content for content, text in found.items())


def test_the_numbers_in_memory_are_those_in_the_store(space: Space) -> None:
    space.fill({f"src/m{number}.py": python(f"f{number}") for number in range(30)})
    space.settle()
    numbers_are_true(space)
    for value in range(3):
        space.note("src/m1.py", f"note {value}")
        space.write("src/m2.py", python(f"g{value}"))
        space.settle()
        numbers_are_true(space)
    space.reopen()
    space.write("src/m3.py", python("again"))
    space.settle()
    numbers_are_true(space)
    space.engine.compact(0)
    numbers_are_true(space)
    # What was dropped comes back under a new number.
    space.write("src/m2.py", python("g0"))
    space.settle()
    numbers_are_true(space)
    assert space.freshness("src/m2.py") == "fresh"


def test_a_body_is_found_by_its_hash_where_its_number_is_wrong(project: Space) -> None:
    shelf = project.engine.frames.heads
    known = shelf.body_numbers.numbers
    expected = shelf.bodies(known)
    for content in known:
        known[content] += 1
    assert shelf.bodies(list(known)) == expected


def test_a_body_that_is_not_stored_is_missing(project: Space) -> None:
    assert project.engine.frames.heads.bodies([BodyHash(b"\0" * 32)]) == {}
    assert project.engine.frames.heads.bodies([]) == {}
