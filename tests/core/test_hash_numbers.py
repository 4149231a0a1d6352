"""Numbers by hash: what a dictionary would give, whatever comes in whatever order."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from indexer.core.hash_numbers import HashNumbers

# Few keys, so that they come again, and a few that are not as long as the others.
KEYS = st.one_of(
    st.binary(min_size=2, max_size=2), st.sampled_from([b"", b"a", b"abc", b"\0" * 32])
)


@given(st.lists(st.lists(st.tuples(KEYS, st.integers(0, 2**32 - 1)))), st.lists(KEYS))
def test_it_is_what_a_dictionary_is(
    batches: list[list[tuple[bytes, int]]], asked: list[bytes]
) -> None:
    numbers, expected = HashNumbers(), dict[bytes, int]()
    for batch in batches:
        numbers.update(batch)
        expected.update(batch)
        for key in (*expected, *asked):
            assert numbers.get(key) == expected.get(key)
            assert (key in numbers) == (key in expected)
    assert len(set(expected)) >= len(numbers.numbers)


def test_many_are_found_and_no_others() -> None:
    numbers = HashNumbers()
    keys = [number.to_bytes(8, "big") for number in range(5000)]
    numbers.update((key, place) for place, key in enumerate(keys))
    assert [numbers.get(key) for key in keys] == list(range(5000))
    assert list(numbers.numbers) == list(range(5000))
    # One that stands across two others is none.
    assert (keys[1] + keys[2])[4:12] not in numbers


def test_whoever_reads_while_it_grows_finds_what_was_there() -> None:
    numbers, wrong = HashNumbers(), list[int]()
    keys = [number.to_bytes(8, "big") for number in range(20_000)]
    numbers.update((key, place) for place, key in enumerate(keys[:100]))
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            wrong.extend(place for place in range(100) if numbers.get(keys[place]) != place)

    reader = threading.Thread(target=read)
    reader.start()
    for place in range(100, len(keys)):
        numbers.update([(keys[place], place)])
    done.set()
    reader.join()
    assert not wrong
