"""Numbers by hashes, in columns: of a hundred thousand of them none is an object of its own."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

_FEWEST: Final = 8


class HashNumbers:
    """A dictionary from hashes, nearly all of one length, to numbers of 32 bits.

    Nothing is ever taken out. One thread adds, and others may read meanwhile: the slot of a hash is
    written last, and no hash moves. Slots are found by Python's own hash, which nobody can foresee.
    """

    __slots__ = ("_hashes", "_length", "_others", "_places", "numbers")

    def __init__(self) -> None:
        self._length: int | None = None
        self._hashes = bytearray()
        self.numbers = array("I")
        """In the order in which their hashes came."""
        self._places = array("I", bytes(4 * _FEWEST))
        """A hash table with open addressing: each slot has the place of a hash plus one, or 0."""
        self._others: dict[bytes, int] = {}
        """The numbers of hashes that are not as long as the first one was."""

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get(self, key: bytes) -> int | None:
        """The number of a hash."""
        length = len(key)
        if length != self._length:
            return self._others.get(key)
        places, has = self._places, self._hashes.startswith
        last = len(places) - 1
        at = hash(key) & last
        while place := places[at]:
            if has(key, (place - 1) * length):
                return self.numbers[place - 1]
            at = at + 1 & last
        return None

    def update(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        """Give hashes their numbers, or others than they had."""
        places, hashes, numbers = self._places, self._hashes, self.numbers
        last, room = len(places) - 1, 2 * len(places) // 3
        for key, number in pairs:
            length = len(key)
            if length != self._length:
                if self._length is not None:
                    self._others[key] = number
                    continue
                self._length = length
            at = hash(key) & last
            while place := places[at]:
                if hashes.startswith(key, (place - 1) * length):
                    numbers[place - 1] = number
                    break
                at = at + 1 & last
            else:
                hashes += key
                numbers.append(number)
                places[at] = len(numbers)
                if len(numbers) > room:
                    places = self._places = self._grown()
                    last, room = len(places) - 1, 2 * len(places) // 3

    def _grown(self) -> array[int]:
        """The table with twice as many slots."""
        places = array("I", bytes(8 * len(self._places)))
        last, length, whole = len(places) - 1, self._length or 0, bytes(self._hashes)
        for place in range(len(self.numbers)):
            at = hash(whole[place * length : (place + 1) * length]) & last
            while places[at]:
                at = at + 1 & last
            places[at] = place + 1
        return places
