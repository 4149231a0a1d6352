"""Taking what is offered in order until a limit is met; both limits are hard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from indexer.compose.candidates import Candidate, Loaded
from indexer.compose.rendering import Message, message, source_message
from indexer.compose.request import Request
from indexer.core.frames import FrameId, Freshness
from indexer.core.tokens import REPLY_OVERHEAD, TiktokenCounter, TokenCounter

FIRST_OMITTED: Final = 50

SHORTEST: Final = 24
"""Tokens that every message has: no shorter one can come of the two lines around its text."""

_SHORTEST_SOURCE: Final = 28
"""Tokens that every message with source has besides those of its path: its heading is longer."""
_WORD: Final = re.compile("[A-Za-z][A-Za-z'\x80-\U0010ffff]*")

_WORDS_AROUND: Final = 13
"""Tokens of a message that have no letter of its path or body: the words of the two lines around
it, its role, and what every message costs."""

_AROUND_HEADING: Final = 128
"""Bytes of a message besides the names in its heading, at most; no token is shorter than one."""

# What the best file may take of the budget, in percent; what each one after it may take of that;
# and what every file may take in any case.
BEST_SHARE: Final = 25
NEXT_SHARE: Final = 70
LEAST_SHARE: Final = 3

# Of a small budget the best file may take more, so that what is asked for by name is shown whole:
# up to so many tokens, and this part in percent.
BEST_TOKENS: Final = 600
BEST_MOST: Final = 75

# How many frames are read at once: at least, at most, and one for so many tokens of the budget.
_LEAST: Final = 24
_MOST: Final = 512
_USUAL_TOKENS: Final = 400

Load = Callable[[Sequence[Candidate]], Sequence[Loaded]]
LinesOf = Callable[[Sequence[Loaded]], Sequence[tuple[int, ...]]]
"""Where the symbols of outlines begin, as `numbered` puts that into their texts."""


class Source(NamedTuple):
    """Lines of a file as they are written: a symbol's, the beginning of one, or all of them."""

    path: str
    symbol: str | None
    first: int
    last: int
    content_id: str
    sha256: str
    """The SHA-256 of the lines as they are on disk."""
    body: str
    """The lines, without secrets."""
    is_whole: bool = False
    """Whether these are all of the file's lines."""

    def holds(self, other: Source) -> bool:
        """Whether it shows all that another one would."""
        return self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class Item:
    """What is shown: a frame, or source."""

    loaded: Loaded | None
    source: Source | None
    message: Message
    tokens: int

    @property
    def path(self) -> str:
        """What it is about."""
        if self.source is not None:
            return self.source.path
        assert self.loaded is not None
        return self.loaded.candidate.path


def least_of_source(path: str) -> int:
    """The fewest tokens of any lines of a file: no token has letters of two words of its path."""
    return _SHORTEST_SOURCE + len(_WORD.findall(path))


Left = tuple[Candidate | None, str, str]
"""A candidate, or None for source; its path; and why it is not shown."""

Pieces = Callable[[str, int, bool], Iterator[Source]]
"""What can be shown of a file, by path, within about so many tokens, first things first; with true
it is everything that is worth showing at all, for a file that is offered a second time."""


@dataclass(frozen=True, slots=True)
class Group:
    """What is offered of one path: what was written about it, its source, then what repeats it."""

    path: str
    written: Sequence[Candidate] = ()
    has_source: bool = False
    repeated: Sequence[Candidate] = ()


@dataclass(slots=True)
class Omitted:
    """What is not shown: how many for each reason, and the first of them by name."""

    counts: Counter[str] = field(default_factory=Counter)
    first: list[Left] = field(default_factory=list)

    def add(self, candidates: Sequence[Candidate], reason: str) -> None:
        """Leave some out for one reason."""
        if candidates:
            self.counts[reason] += len(candidates)
            room = max(0, FIRST_OMITTED - len(self.first))
            self.first += [(one, one.path, reason) for one in candidates[:room]]

    def add_source(self, path: str, reason: str) -> None:
        """Leave out the source of a file."""
        self.counts[reason] += 1
        if len(self.first) < FIRST_OMITTED:
            self.first.append((None, path, reason))

    def add_each(self, pairs: Iterable[tuple[Candidate, str]]) -> None:
        """Leave some out, each for its own reason."""
        for candidate, reason in pairs:
            self.add((candidate,), reason)

    def name(self, pairs: Iterable[tuple[Candidate, str]]) -> None:
        """Give names to some that are counted already, as far as there is room."""
        named = ((one, one.path, reason) for one, reason in pairs)
        self.first += islice(named, max(0, FIRST_OMITTED - len(self.first)))


@dataclass(slots=True)
class Selection:
    """What is shown, in the order of choice, and what was seen not to be fresh on the way."""

    items: list[Item] = field(default_factory=list)
    labels: list[tuple[FrameId, str]] = field(default_factory=list)
    sources: list[tuple[str, str]] = field(default_factory=list)
    """Path and content id of every file whose source was offered."""
    left_sources: int = 0
    tokens: int = 0

    def messages(self) -> list[Message]:
        """The messages, those of the oldest frames first, and source after all frames.

        What changes gets a new frame, which goes to the end: everything before the place it had
        stays byte for byte as it was, and so does a provider's prompt cache.
        """
        return [item.message for item in sorted(self.items, key=_in_time)]


def _in_time(item: Item) -> tuple[int, object]:
    if item.loaded is not None:
        return 0, item.loaded.candidate
    assert item.source is not None
    return 1, (item.source.path, item.source.first, item.source.last)


class _Chooser:
    """What has been chosen so far, within both limits."""

    def __init__(
        self,
        request: Request,
        load: Load,
        counter: TokenCounter,
        omitted: Omitted,
        lines_of: LinesOf,
    ) -> None:
        self.request = request
        self.omitted = omitted
        self.chosen = Selection()
        self.used = REPLY_OVERHEAD
        self._load = load
        self._lines_of = lines_of
        self._counter = counter
        self._ahead: list[Candidate] = []
        self._loaded: dict[FrameId, Loaded] = {}
        self._lined: dict[FrameId, tuple[int, ...]] = {}
        self._told: set[FrameId] = set()
        self._shown: dict[str, list[Source]] = {}
        self._headings: dict[Candidate, int] = {}
        """Tokens of messages that are nothing but a frame's heading: the least that it costs."""
        self._made: dict[FrameId | Source, Item] = {}
        """What was counted once, kept because what did not fit its share is offered again."""

    @property
    def rest(self) -> int:
        """Tokens that are left."""
        return self.request.budget - self.used

    @property
    def is_full(self) -> bool:
        """Whether no more items may be shown."""
        most = self.request.max_frames
        return most is not None and len(self.chosen.items) >= most

    def shows_whole(self, path: str) -> bool:
        """Whether all lines of a file are shown."""
        return any(source.is_whole for source in self._shown.get(path, ()))

    def shows(self, source: Source) -> bool:
        """Whether what is shown of a file holds all that this would show of it."""
        return any(one.holds(source) for one in self._shown.get(source.path, ()))

    def look_ahead(self, candidates: Iterable[Candidate]) -> None:
        """Tell in which order frames will be asked for, so that many are read at once."""
        self._ahead = list(candidates)[::-1]

    def frame(self, candidate: Candidate, room: int) -> bool | str:
        """Show a frame if it fits; False where it does not, or why it cannot be shown at all."""
        if self._least(candidate, room) > room:
            return False
        loaded = self._get(candidate)
        if candidate.frame_id not in self._told:
            self._told.add(candidate.frame_id)
            if loaded.freshness is not Freshness.FRESH:
                self.chosen.labels.append((candidate.frame_id, loaded.freshness.value))
            if loaded.line is not None:
                self.chosen.labels.append((candidate.frame_id, f"line {loaded.line}"))
        reason = _unusable(loaded, self.request)
        if reason is not None:
            return reason
        item = self._made.get(candidate.frame_id)
        if item is None:
            if self._is_above(room, candidate.path, loaded.body or ""):
                return False
            loaded = self._with_lines(loaded)
            made = message(
                candidate.path, candidate.type, candidate.agent, loaded.freshness.value,
                loaded.text, loaded.symbol, loaded.line,
            )  # fmt: skip
            item = Item(loaded, None, made, self._count(made))
            self._made[candidate.frame_id] = item
        return self._take(item, room)

    def _with_lines(self, loaded: Loaded) -> Loaded:
        """An outline with the lines of its symbols, looked up once it may be shown.

        Those of all that were loaded come along: that takes little longer than those of one.
        """
        frame_id = loaded.candidate.frame_id
        if frame_id not in self._lined:
            others = {key: one for key, one in self._loaded.items() if key not in self._lined}
            self._lined.update(zip(others, self._lines_of(list(others.values())), strict=True))
        lines = self._lined[frame_id]
        if lines:
            self.chosen.labels.append((frame_id, f"lines {lines}"))
        return loaded._replace(lines=lines)

    def _least(self, candidate: Candidate, room: int) -> int:
        """What a frame costs at least, counted only where its heading may not fit."""
        path, frame_type, agent = candidate[1:4]
        most = _AROUND_HEADING + len(f"{path}{frame_type}{agent}".encode())
        if most <= room:
            return 0
        least = self._headings.get(candidate)
        if least is None:
            heading = message(path, frame_type, agent, Freshness.FRESH, "")
            least = self._headings[candidate] = self._count(heading)
        return least

    def source(self, source: Source, room: int) -> bool:
        """Show lines of a file if they fit."""
        item = self._made.get(source)
        if item is None:
            if self._is_above(room, source.path, source.body):
                return False
            made = source_message(
                source.path, source.symbol, source.first, source.last, source.body
            )
            item = self._made[source] = Item(None, source, made, self._count(made))
        taken = self._take(item, room)
        if taken:
            self._shown.setdefault(source.path, []).append(source)
        return taken

    def _take(self, item: Item, room: int) -> bool:
        if item.tokens > room:
            return False
        self.chosen.items.append(item)
        self.used += item.tokens
        return True

    def _is_above(self, room: int, path: str, body: str) -> bool:
        """Whether a message is certain not to fit, which is seen without counting its tokens."""
        counter = self._counter
        if not isinstance(counter, TiktokenCounter):
            return False
        return _WORDS_AROUND + counter.fewest(path) + counter.fewest(body) > room

    def _count(self, made: Message) -> int:
        return max(0, self._counter.count_messages([made]) - REPLY_OVERHEAD)

    def _get(self, candidate: Candidate) -> Loaded:
        if candidate.frame_id not in self._loaded:
            size = min(_MOST, max(_LEAST, self.request.budget // _USUAL_TOKENS))
            while self._ahead and self._ahead[-1].frame_id != candidate.frame_id:
                self._ahead.pop()
            chunk = self._ahead[-size:][::-1] or [candidate]
            del self._ahead[-size:]
            self._loaded.update((one.candidate.frame_id, one) for one in self._load(chunk))
        return self._loaded[candidate.frame_id]

    def trim(self) -> Selection:
        """The selection, cut until its messages, counted together, are within the budget."""
        chosen = self.chosen
        while True:
            chosen.tokens = self._counter.count_messages(chosen.messages())
            if chosen.tokens <= self.request.budget or not chosen.items:
                return chosen
            item = chosen.items.pop()
            if item.loaded is not None:
                self.omitted.add((item.loaded.candidate,), "budget")
            else:
                chosen.left_sources += 1
                self.omitted.add_source(item.path, "budget")


def select(
    groups: Sequence[Group],
    request: Request,
    load: Load,
    counter: TokenCounter,
    omitted: Omitted,
    pieces: Pieces | None = None,
    lines_of: LinesOf = lambda loaded: [()] * len(loaded),
) -> Selection:
    """Take what fits, first things first, and say of the rest why not.

    Where source is shown, each file at first has a share of the budget, so that the best one does
    not keep out the others. What is left is then filled with what did not fit its share.
    """
    chooser = _Chooser(request, load, counter, omitted, lines_of)
    chooser.look_ahead(one for group in groups for one in (*group.written, *group.repeated))
    waiting: list[Candidate | str] = []
    share, unused = request.budget * BEST_SHARE // 100, 0
    more = max(0, min(BEST_TOKENS, request.budget * BEST_MOST // 100) - share)
    for group in groups:
        room = chooser.rest
        if pieces is not None:
            room = min(room, max(share, request.budget * LEAST_SHARE // 100) + unused + more)
            share = share * NEXT_SHARE // 100
        before = chooser.used
        for one in (*group.written, *([group.path] if group.has_source else ()), *group.repeated):
            left = min(chooser.rest, room - (chooser.used - before))
            if one in group.repeated and chooser.shows_whole(group.path):
                chooser.omitted.add((one,), "shown whole")
            elif chooser.is_full or left < SHORTEST:
                waiting.append(one)
            elif isinstance(one, str):
                assert pieces is not None
                if not _show(chooser, pieces(one, left, False), left):
                    waiting.append(one)
            else:
                _offer(chooser, one, left, waiting)
        unused = max(0, room - more - (chooser.used - before)) if pieces is not None else 0
        more = 0
    _fill(chooser, waiting, pieces)
    return chooser.trim()


def _offer(
    chooser: _Chooser, candidate: Candidate, room: int, waiting: list[Candidate | str]
) -> None:
    """Show a frame, leave it out for good, or let it wait for room."""
    done = chooser.frame(candidate, room)
    if isinstance(done, str):
        chooser.omitted.add((candidate,), done)
    elif not done:
        waiting.append(candidate)


def _show(chooser: _Chooser, pieces: Iterator[Source], room: int) -> bool:
    """Show what fits of a file; whether that is anything."""
    end = chooser.used + room
    shown = False
    for piece in pieces:
        if chooser.is_full or end - chooser.used < SHORTEST:
            break
        if not chooser.shows(piece):
            shown = chooser.source(piece, end - chooser.used) or shown
        if chooser.shows_whole(piece.path):
            # Nothing is left of it, and nothing more of it has to be read for secrets.
            break
    return shown


def _fill(chooser: _Chooser, waiting: Sequence[Candidate | str], pieces: Pieces | None) -> None:
    """Show what still fits of what did not fit before, and say why the rest is not shown."""
    omitted = chooser.omitted
    for one in waiting:
        reason = "max_frames" if chooser.is_full else "budget"
        open_ = not chooser.is_full and chooser.rest >= SHORTEST
        if isinstance(one, str):
            assert pieces is not None
            if not (open_ and _show(chooser, pieces(one, chooser.rest, True), chooser.rest)):
                chooser.chosen.left_sources += 1
                omitted.add_source(one, reason)
        else:
            done = chooser.frame(one, chooser.rest) if open_ else False
            if isinstance(done, str):
                omitted.add((one,), done)
            elif not done:
                omitted.add((one,), reason)


def _unusable(loaded: Loaded, request: Request) -> str | None:
    """Why a candidate cannot be shown at all."""
    if loaded.freshness in (Freshness.ORPHANED, Freshness.UNMANAGED):
        return loaded.freshness.value
    if request.require_fresh and loaded.freshness is not Freshness.FRESH:
        return f"not fresh: {loaded.freshness.value}"
    return "missing" if loaded.body is None else None
