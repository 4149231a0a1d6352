"""The head cache: heads, memo and known frames, in memory once they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from indexer.core import paths
from indexer.core.frames import BodyHash, FrameId, Head, HeadKey, MemoKey, is_generated
from indexer.core.hash_numbers import HashNumbers
from indexer.core.ids import ContentId
from indexer.engine.code.known import KnownFacts
from indexer.engine.frames.few import FEW, FewLookUps, Slot
from indexer.engine.frames.kept_texts import KeptTexts
from indexer.engine.frames.packed_heads import PackedHeads
from indexer.engine.frames.versions import HeadVersions
from indexer.regenerate.plan import Rules
from indexer.store.frames import FrameBatch, FrameStore, ModelResult, NoteState
from indexer.store.postings import AT_ONCE, PostingStore, index_bodies, number_bodies

PLACES_AT_ONCE: Final = 5000
"""Paths whose heads are looked for without loading those of all others."""

Live = tuple[Slot, Head]
"""A frame of a path that counts: a head that a generator keeps, or a note."""

Moved = tuple[HeadKey, FrameId | None, Head | None]
"""Where what counts moved: the frame that no longer does, and what does from now on."""

_MOST_MOVED: Final = 200_000
"""Moves that are kept for whoever asks for them; after more, everything has to be looked at."""


def _heads_of(slots: dict[Slot, PackedHeads], slot: Slot) -> PackedHeads:
    """The heads of a type and agent, which are begun where there are none."""
    found = slots.get(slot)
    if found is None:
        found = slots[slot] = PackedHeads()
    return found


class HeadCache:
    """A write-through cache over the frame store; only the owner's writing thread changes it.

    Other threads may read at any time. The lock makes sure that what one of them loads is not
    older than what is stored meanwhile.
    """

    def __init__(self, store: FrameStore, postings: PostingStore, code: KnownFacts) -> None:
        self.store = store
        self._postings = postings
        self._code = code
        self._lock = threading.RLock()
        self._moving = threading.Lock()
        """Held for moments only, unlike the other, which is held while a batch is stored."""
        self._slots: dict[Slot, PackedHeads] | None = None
        self._notes: dict[str, tuple[Live, ...]] = {}
        """By path the notes that count, the one written last at the end; loaded with the heads."""
        self._memo: dict[MemoKey, tuple[int, BodyHash | None]] | None = None
        self._models: dict[MemoKey, ModelResult] | None = None
        self._bodies: HashNumbers | None = None
        self.texts = KeptTexts(self.bodies)
        self._frames: HashNumbers | None = None
        self._inputs: set[bytes] | None = None
        self._few = FewLookUps(store)
        self._next_seq: int | None = None
        self._next_number: int | None = None
        self._indexed_below: int | None = None
        self._moved: list[Moved] | None = None
        """What moved since somebody last asked; None while nobody does."""
        self._current_below: dict[str, tuple[bytes, dict[str, ContentId]]] = {}
        self.versions = HeadVersions()
        """Move with every change of a head."""
        self.noted = 0
        """The last batch with notes that this process has stored."""

    @property
    def slots(self) -> dict[Slot, PackedHeads]:
        """Every head: by type and agent, then by path. Of notes it is the newest that counts."""
        known = self._slots
        if known is None:
            with self._lock:
                known = self._slots
                if known is None:
                    known = {}
                    for (path, frame_type, agent), head in self.store.each_head():
                        _heads_of(known, (frame_type, agent)).put(path, head)
                    notes: dict[str, tuple[Live, ...]] = {}
                    for (path, frame_type, agent), head, *_ in self.store.live_notes():
                        _heads_of(known, (frame_type, agent)).put(path, head)
                        notes[path] = (*notes.get(path, ()), ((frame_type, agent), head))
                    self._notes, self._slots = notes, known
        return known

    @property
    def notes(self) -> dict[str, tuple[Live, ...]]:
        """Every note that counts, by path, the one written last at the end."""
        _ = self.slots
        return self._notes

    def notes_at(self, path: str) -> tuple[Live, ...]:
        """The notes of one path that count, the one written last at the end."""
        if self._slots is None and self._few.may_ask():
            return tuple(
                ((kind, who), head) for (_, kind, who), head, *_ in self.store.live_notes(path)
            )
        return self.notes.get(path, ())

    def live_at(self, path: str) -> list[Live]:
        """All frames of one path that count, in order of type, agent and id.

        The order is no matter of when they came: folders are made from them.
        """
        kept = [one for one in self.heads_at(path).items() if is_generated(one[0][1])]
        return sorted([*kept, *self.notes_at(path)], key=lambda one: (one[0], one[1].frame_id))

    def live(self) -> Iterator[tuple[Slot, Iterable[tuple[str, Head]]]]:
        """All frames that count, by type and agent, each with its path, to be gone through once."""
        # Copied first: the writing thread may add one meanwhile. Making a list of many items may
        # collect garbage, and with it let another thread run; a copy is made in one go.
        written: dict[Slot, list[tuple[str, Head]]] = {}
        for path, notes in sorted(self.notes.copy().items()):
            for slot, head in notes:
                written.setdefault(slot, []).append((path, head))
        for slot, heads in sorted(self.slots.copy().items()):
            if is_generated(slot[1]) and heads:
                yield slot, heads.items()
            elif slot in written:
                yield slot, written[slot]

    def live_frame(self, key: HeadKey, frame_id: FrameId) -> Head | None:
        """A frame as it counts; None where it does no longer."""
        if is_generated(key[2]):
            head = self.head(*key)
            return head if head is not None and head.frame_id == frame_id else None
        if self._slots is None and self._few.may_ask():
            note = self.store.note_states([frame_id]).get(frame_id)
            return note.head if note is not None and note.live else None
        notes = (head for _, head in self.notes_at(key[0]))
        return next((head for head in notes if head.frame_id == frame_id), None)

    def head(self, path: str, frame_type: str, agent: str) -> Head | None:
        """One head."""
        if self._slots is None:
            if not is_generated(agent):
                if self._few.may_ask():
                    return self.store.head(path, frame_type, agent)
            elif self._few.has_heads_of(path) or self._few.may_ask():
                return self._few.heads_at(path).get((frame_type, agent))
        heads = self.slots.get((frame_type, agent))
        return None if heads is None else heads.get(path)

    def has_heads_of(self, path: str) -> bool:
        """Whether the heads that generators keep at a path are in memory."""
        return self._slots is not None or self._few.has_heads_of(path)

    def load_heads(self, places: Iterable[str]) -> None:
        """Read at once the heads that generators keep at some paths, unless all are in memory."""
        if self._slots is None:
            self._few.load_heads(places)

    def load_few(self, places: Collection[str]) -> None:
        """Read the heads at some paths, or all there are once that was asked for often."""
        if self._slots is None:
            if len(places) <= PLACES_AT_ONCE and self._few.may_ask():
                self._few.load_heads(places)
            else:
                _ = self.slots

    def last_known(self, path: str) -> list[ContentId]:
        """The contents of a file that its frames were last made from, by type and agent."""
        return [head.verified for head in self.heads_at(path).values() if head.verified is not None]

    def heads_among(self, places: Iterable[str], types: Iterable[str]) -> dict[HeadKey, Head]:
        """The heads of some types at some paths."""
        wanted, kinds = list(places), frozenset(types)
        if self._slots is None and self._few.may_ask():
            return self.store.heads_among(wanted, sorted(kinds))
        return {
            (path, kind, agent): head
            for (kind, agent), heads in self.slots.copy().items()
            if kind in kinds
            for path in wanted
            if (head := heads.get(path)) is not None
        }

    def heads_of(self, frame_type: str, *, few: bool = False) -> Callable[[str, str], Head | None]:
        """A quick look-up of one type's heads by path and agent; with `few` they are not loaded."""
        if few and self._slots is None:
            return lambda path, agent: self.head(path, frame_type, agent)
        by_agent = {
            agent: heads for (kind, agent), heads in self.slots.copy().items() if kind == frame_type
        }
        none = PackedHeads()
        return lambda path, agent: by_agent.get(agent, none).get(path)

    def heads_at(self, path: str) -> dict[Slot, Head]:
        """The heads of one path, in order of type and agent."""
        if self._slots is None and (self._few.has_heads_of(path) or self._few.may_ask()):
            # Of the notes of one slot the newest comes last, and counts.
            return dict(sorted({**self._few.heads_at(path), **dict(self.notes_at(path))}.items()))
        found = {}
        for slot, heads in sorted(self.slots.copy().items()):
            head = heads.get(path)
            if head is not None:
                found[slot] = head
        return found

    def kept_at(self, places: Collection[str]) -> Iterator[tuple[HeadKey, Head]]:
        """The heads at some paths: those that generators keep, and perhaps the newest notes."""
        if self._slots is None and all(map(self._few.has_heads_of, places)):
            for path in places:
                for (kind, agent), head in self._few.heads_at(path).items():
                    yield (path, kind, agent), head
            return
        for (kind, agent), heads in self.slots.copy().items():
            for path in places:
                if (found := heads.get(path)) is not None:
                    yield (path, kind, agent), found

    def current_below(self, rules: Rules) -> dict[str, ContentId]:
        """Folders with nothing stale below, by content id, of a type without folder frames."""
        known = self._current_below.get(rules.type)
        if known is None or known[0] != rules.folder_config:
            # Of one configuration only: under another one all heads move, and nothing tells that
            # those of the first are not there any more when it comes back.
            known = self._current_below[rules.type] = (rules.folder_config, {})
        return known[1]

    def memo(self, key: MemoKey) -> tuple[int, BodyHash | None]:
        """Generation and result of a key; no result means that it has to be computed."""
        known = self._memo
        if known is None:
            one = self._few.memo(key)
            if one is not None:
                return one
            with self._lock:
                known = self._memo = self._memo or self.store.memo()
        return known.get(key, (0, None))

    def model(self, key: MemoKey) -> ModelResult | None:
        """The result of a key that a model wrote."""
        known = self._models
        if known is None:
            with self._lock:
                known = self._models = self._models or self.store.models()
        return known.get(key)

    @property
    def body_numbers(self) -> HashNumbers:
        """The numbers of the bodies that are stored with their content."""
        known = self._bodies
        if known is None:
            with self._lock:
                known = self._bodies = self._bodies or self.store.known_bodies()
        return known

    def has_body(self, content: BodyHash) -> bool:
        """Whether a body is stored with its content."""
        if self._bodies is None:
            known = self._few.has_body(content)
            if known is not None:
                return known
        return content in self.body_numbers

    def bodies(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, str]:
        """The contents of some bodies, without those that are not there."""
        if self._bodies is None and self._few.may_ask():
            return self.store.bodies(wanted)
        known = self.body_numbers
        stored = {
            content: number for content in wanted if (number := known.get(content)) is not None
        }
        found = self.store.bodies_numbered(stored.values())
        # The hash decides; a number is only where to look first.
        missed = [content for content in stored if content not in found]
        found.update(self.store.bodies(missed))
        return {content: found[content] for content in stored if content in found}

    def has_note(self, frame_id: FrameId, content: BodyHash) -> bool:
        """Whether a note is stored; one whose body is not cannot be, and is not looked for."""
        return self.has_body(content) and self.has_frame(frame_id)

    def has_frame(self, frame_id: FrameId) -> bool:
        """Whether a frame is stored."""
        if self._frames is None and self._few.may_ask():
            return self.store.has_frame(frame_id)
        return frame_id in self.frame_seqs

    def stored_frames(self, wanted: Collection[FrameId]) -> set[FrameId]:
        """Which of some frames are stored."""
        if not wanted:
            return set()
        if self._frames is None and len(wanted) <= FEW and self._few.may_ask():
            return set(self.store.made_at(wanted))
        return {frame_id for frame_id in wanted if frame_id in self.frame_seqs}

    def has_type(self, frame_type: str) -> bool:
        """Whether there is any head of a type."""
        if self._slots is None and self._few.may_ask():
            return self.store.has_type(frame_type)
        return any(heads for (kind, _), heads in self.slots.copy().items() if kind == frame_type)

    @property
    def frame_seqs(self) -> HashNumbers:
        """The batch that each stored frame came with."""
        known = self._frames
        if known is None:
            with self._lock:
                known = self._frames = self._frames or self.store.frame_seqs()
        return known

    def take_moved(self) -> list[Moved] | None:
        """The heads that moved since the last call, in order; None where that is not known."""
        with self._moving:
            moved, self._moved = self._moved, []
            return moved

    def _stored_inputs(self, wanted: Collection[bytes]) -> Collection[bytes]:
        if not wanted:
            return ()
        if self._inputs is None:
            if len(wanted) <= FEW and self._few.may_ask():
                return self.store.inputs_among(wanted)
            self._inputs = self.store.input_hashes()
        return self._inputs

    def add(self, batch: FrameBatch, before_commit: Callable[[], object] | None = None) -> int:
        """Store a batch, without what is stored already, and take it into the cache.

        `before_commit` is called when the database has taken all rows; it can still refuse.
        """
        with self._lock:
            batch.bodies = {
                content: text
                for content, text in batch.bodies.items()
                if not self.has_body(content)
            }
            # What is bound to a new body is new, and is not looked for in all of the history.
            news = {
                f.frame_id
                for f in batch.frames
                if not is_generated(f.agent) and f.content in batch.bodies
            }
            stored = self.stored_frames({f.frame_id for f in batch.frames} - news)
            batch.frames = list(
                {f.frame_id: f for f in batch.frames if f.frame_id not in stored}.values()
            )
            # A note's list is short: to store it twice costs less than to look for it.
            short = {f.inputs for f in batch.frames if f.frame_id in news}
            known = self._stored_inputs(batch.inputs.keys() - short)
            batch.inputs = {key: value for key, value in batch.inputs.items() if key not in known}
            if self._next_seq is None:
                self._next_seq = self.store.next_seq()
            first = self._next_body()
            repeats = batch.repeats()
            if len(batch.bodies) - len(repeats) <= AT_ONCE and self.indexed_below == first:
                batch.indexed = index_bodies(batch.bodies, first, repeats)
            else:
                batch.indexed = number_bodies(batch.bodies, first, repeats)
            batch.code_numbers = self._code.number(batch.code)
            seq = self._next_seq
            self.store.record(batch, seq, before_commit)
            self.noted = seq if batch.notes else self.noted
            self._code.take_in(batch.code_numbers)
            self._next_seq += 1
            self._next_number = first + len(batch.bodies)
            if self.indexed_below == first and len(batch.indexed.lengths) == len(batch.bodies):
                self._indexed_below = self._next_number
            self._take_in(batch, seq)
            return seq

    def _next_body(self) -> int:
        if self._next_number is None:
            self._next_number = self.store.next_body_number()
        return self._next_number

    # -- postings

    @property
    def indexed_below(self) -> int:
        """The number below which bodies have their postings; none from there on has."""
        known = self._indexed_below
        if known is None:
            with self._lock:
                first = self._postings.first_left()
                known = self._indexed_below = self._next_body() if first is None else first
        return known

    @property
    def unindexed(self) -> int:
        """How many bodies, at most, wait for their postings."""
        following, below = self._next_number, self._indexed_below
        if following is None or below is None:
            with self._lock:
                following, below = self._next_body(), self.indexed_below
        return max(0, following - below)

    def index_some(self) -> None:
        """Make the postings of the next bodies that wait for them."""
        with self._lock:
            made = self._postings.index_next()
            self._indexed_below = max(made) + 1 if made else self._next_body()

    def _take_in(self, batch: FrameBatch, seq: int) -> None:
        """Follow what a batch has stored; what is not loaded will be read with it."""
        self._few.take_in(batch)
        if self._bodies is not None:
            self._bodies.update(batch.indexed.numbers.items())
        if self._frames is not None:
            self._frames.update((frame.frame_id, seq) for frame in batch.frames)
        if self._inputs is not None:
            self._inputs.update(batch.inputs)
        if self._slots is not None:
            moved: list[Moved] = []
            for (path, frame_type, agent), head in batch.heads.items():
                heads = _heads_of(self._slots, (frame_type, agent))
                before = heads.get(path)
                heads.put(path, head)
                if before is None or before.frame_id != head.frame_id:
                    old = None if before is None else before.frame_id
                    moved.append(((path, frame_type, agent), old, head))
            for note in batch.notes:
                self._take_in_note(note, moved)
            self._add_moved(moved)
        self._forget_current(batch.heads)
        if self._memo is not None:
            self._memo.update(batch.memo)
        if self._models is not None:
            for (key, generation), result in sorted(batch.models.items()):
                newest = self._models.get(key)
                if newest is None or newest.generation < generation:
                    self._models[key] = result
        if batch.heads or batch.notes:
            written = (note.key[0] for note in batch.notes)
            self.versions.step(frozenset((*(path for path, _, _ in batch.heads), *written)))

    def _take_in_note(self, note: NoteState, moved: list[Moved]) -> None:
        """Replaces the notes of a path as a whole: others may be reading them."""
        assert self._slots is not None
        (path, *kind), head = note.key, note.head
        slot = (kind[0], kind[1])
        before = self._notes.get(path, ())
        after = tuple(one for one in before if one[1].frame_id != head.frame_id)
        counted = len(after) < len(before)
        if note.live:
            after = (*after, (slot, head))
        if counted != note.live:
            old, new = (None, head) if note.live else (head.frame_id, None)
            moved.append((note.key, old, new))
        self._notes[path] = after
        newest = [one for where, one in after if where == slot]
        heads = _heads_of(self._slots, slot)
        if newest:
            heads.put(path, newest[-1])
        else:
            heads.discard(path)
            if not after:
                del self._notes[path]

    def _add_moved(self, moved: list[Moved]) -> None:
        with self._moving:
            if self._moved is not None:
                self._moved += moved
                if len(self._moved) > _MOST_MOVED:
                    self._moved = None

    def _forget_current(self, heads: Mapping[HeadKey, Head]) -> None:
        for (path, frame_type, _), head in heads.items():
            if head.verified is None:
                _, folders = self._current_below.get(frame_type, (b"", {}))
                for above in paths.ancestors(path):
                    folders.pop(above, None)

    def forget(self) -> None:
        """Drop the cache, so that the next use reads the store again."""
        with self._lock:
            # The notes stay until others are loaded with the heads: somebody may be reading them.
            self._slots = self._memo = self._bodies = self._frames = self._inputs = None
            self._models = self._next_seq = self._next_number = self._indexed_below = None
            self._few.clear()
            self.texts.clear()
            self._current_below.clear()
            self._code.forget()
            self.versions.step(None)
        with self._moving:
            self._moved = None
