"""Bodies in memory and in the store: which numbers they have, and that they are found by them."""

from __future__ import annotations

from indexer.core.frames import BodyHash, body_hash
from tests.support.space import Space, python


def numbers_are_true(space: Space) -> None:
    heads = space.engine.frames.heads
    hashes = heads.store.body_rows()
    kept = {content: heads.body_numbers.get(content) for content in hashes}
    read = heads.store.known_bodies()
    assert kept == {content: read.get(content) for content in hashes}
    stored = {content: number for content, number in kept.items() if number is not None}
    assert sorted(heads.body_numbers.numbers) == sorted(set(stored.values()))
    found = heads.bodies(hashes)
    assert set(found) == set(stored)
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
    heads = project.engine.frames.heads
    known, hashes = heads.body_numbers, heads.store.body_rows()
    expected = heads.bodies(hashes)
    assert set(expected) == hashes
    known.update([(content, (known.get(content) or 0) + 1) for content in hashes])
    assert heads.bodies(hashes) == expected


def test_a_body_that_is_not_stored_is_missing(project: Space) -> None:
    assert project.engine.frames.heads.bodies([BodyHash(b"\0" * 32)]) == {}
    assert project.engine.frames.heads.bodies([]) == {}
