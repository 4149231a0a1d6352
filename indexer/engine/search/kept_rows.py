"""The candidates of a corpus in memory, made from packed heads as they are asked for."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, overload

from indexer.compose.candidates import Candidate
from indexer.core.frames import FrameId, Head, HeadKey, is_generated
from indexer.engine.frames.few import Slot
from indexer.engine.frames.packed_heads import PackedHeads

_MANY: Final = 1000
"""Changes from which on it is better to put everything in order anew."""


class KeptRows(Sequence[Candidate]):
    """One candidate per frame that counts, in sequence order.

    Of what generators keep there is no object: only where it stands, in two columns.
    """

    def __init__(self, seq_of: Callable[[FrameId], int | None]) -> None:
        self._seq_of = seq_of
        self._heads: dict[Slot, PackedHeads] = {}
        self._notes: dict[str, dict[FrameId, Candidate]] = {}
        """By path; each is an object of its own."""
        self._order: tuple[list[Slot], array[int], list[str]] | None = None
        """The slots, then the number of the slot and the path of each row."""
        self._changes = 0

    def begin(self, slot: Slot, heads: PackedHeads, is_there: Callable[[str], bool]) -> None:
        """Take over the heads that a generator keeps at some paths."""
        mine = self._heads[slot] = heads.copy()
        for path in mine.places():
            if not is_there(path):
                mine.discard(path)

    # -- changing

    def put(self, key: HeadKey, head: Head) -> Candidate | None:
        """Add a frame that counts from now on; None where it did already."""
        path, slot = key[0], key[1:]
        row = self._row(path, slot, head)
        if not is_generated(slot[1]):
            notes = self._notes.setdefault(path, {})
            return row if notes.setdefault(head.frame_id, row) is row else None
        heads = self._heads.setdefault(slot, PackedHeads())
        assert path not in heads, path
        heads.put(path, head)
        self._change(row, came=True)
        return row

    def remove(self, key: HeadKey, frame_id: FrameId) -> Candidate | None:
        """Take out a frame that counts no longer; None where it did not count."""
        path, slot = key[0], key[1:]
        if not is_generated(slot[1]):
            notes = self._notes.get(path, {})
            row = notes.pop(frame_id, None)
            if not notes:
                self._notes.pop(path, None)
            return row
        row = self.kept(key)
        if row is None or row.frame_id != frame_id:
            return None
        self._change(row, came=False)
        self._heads[slot].discard(path)
        return row

    def kept(self, key: HeadKey) -> Candidate | None:
        """The candidate of a head that a generator keeps, if there is one."""
        path, slot = key[0], key[1:]
        heads = self._heads.get(slot)
        head = None if heads is None else heads.get(path)
        return None if head is None else self._row(path, slot, head)

    def _change(self, row: Candidate, *, came: bool) -> None:
        """Keep the order of the rows, as long as that takes less than to make it again."""
        self._changes += 1
        slot = (row.type, row.agent)
        if self._order is None or self._changes > _MANY or slot not in self._order[0]:
            self._order = None
            return
        slots, numbers, places = self._order
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            if self._at(slots[numbers[middle]], places[middle]) < row:
                low = middle + 1
            else:
                high = middle
        if came:
            numbers.insert(low, slots.index(slot))
            places.insert(low, row.path)
        else:
            del numbers[low], places[low]

    # -- reading

    def at(self, path: str) -> Iterator[Candidate]:
        """The candidates of one path."""
        for slot, heads in self._heads.items():
            if (head := heads.get(path)) is not None:
                yield self._row(path, slot, head)
        yield from self._notes.get(path, {}).values()

    def frame_ids(self) -> Iterator[FrameId]:
        """The FrameIDs of all candidates, in sequence order."""
        if self._notes:
            return (row.frame_id for row in self)
        slots, numbers, places = self._ordered()
        frame_id_of = [self._heads[slot].frame_id for slot in slots]
        return (frame_id_of[one](path) for one, path in zip(numbers, places, strict=True))

    def paths(self) -> Iterable[str]:
        """The paths of all candidates, in no order."""
        return chain(self._ordered()[2], self._notes)

    def __len__(self) -> int:
        return sum(map(len, self._heads.values())) + sum(map(len, self._notes.values()))

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return list(self)[index]
        return next(islice(self, index, None))

    def __iter__(self) -> Iterator[Candidate]:
        slots, numbers, places = self._ordered()
        kept = (self._at(slots[one], path) for one, path in zip(numbers, places, strict=True))
        notes = sorted(row for rows in self._notes.values() for row in rows.values())
        return heapq.merge(kept, notes) if notes else kept

    def _ordered(self) -> tuple[list[Slot], array[int], list[str]]:
        if self._order is None:
            # By seq, path, type and agent, from the last to the first: sorting is stable.
            slots = sorted(self._heads)
            numbers, places, seqs = array("I"), list[str](), array("Q")
            for number, slot in enumerate(slots):
                for path, head in self._heads[slot].items():
                    numbers.append(number)
                    places.append(path)
                    seqs.append(self._seq_of(head.frame_id) or 0)
            order = sorted(range(len(places)), key=places.__getitem__)
            order.sort(key=seqs.__getitem__)
            self._order = (
                slots,
                array("I", map(numbers.__getitem__, order)),
                list(map(places.__getitem__, order)),
            )
            self._changes = 0
        return self._order

    def _at(self, slot: Slot, path: str) -> Candidate:
        head = self._heads[slot].get(path)
        assert head is not None
        return self._row(path, slot, head)

    def _row(self, path: str, slot: Slot, head: Head) -> Candidate:
        seq = self._seq_of(head.frame_id) or 0
        return Candidate(seq, path, *slot, head.frame_id, head.content)
