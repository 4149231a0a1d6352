"""Taking candidates in order until a limit is met; both limits are hard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from indexer.compose.candidates import Candidate, Loaded
from indexer.compose.rendering import Message, message
from indexer.compose.request import Request
from indexer.core.frames import FrameId, Freshness
from indexer.core.tokens import REPLY_OVERHEAD, TokenCounter

FIRST_OMITTED: Final = 50
MOST_MISSES: Final = 8
"""How many candidates may turn out too large before the rest is not even looked at."""

_LEAST: Final = 24
_MOST: Final = 512
_USUAL_TOKENS: Final = 400

Load = Callable[[Sequence[Candidate]], Sequence[Loaded]]


@dataclass(frozen=True, slots=True)
class Item:
    """A frame that is shown."""

    loaded: Loaded
    message: Message
    tokens: int


@dataclass(slots=True)
class Omitted:
    """What is not shown: how many for each reason, and the first of them by name."""

    counts: Counter[str] = field(default_factory=Counter)
    first: list[tuple[Candidate, str]] = field(default_factory=list)

    def add(self, candidates: Sequence[Candidate], reason: str) -> None:
        """Leave some out for one reason."""
        if candidates:
            self.counts[reason] += len(candidates)
            room = max(0, FIRST_OMITTED - len(self.first))
            self.first += [(candidate, reason) for candidate in candidates[:room]]

    def add_each(self, pairs: Iterable[tuple[Candidate, str]]) -> None:
        """Leave some out, each for its own reason."""
        for candidate, reason in pairs:
            self.add((candidate,), reason)

    def name(self, pairs: Iterable[tuple[Candidate, str]]) -> None:
        """Give names to some that are counted already, as far as there is room."""
        self.first += islice(pairs, max(0, FIRST_OMITTED - len(self.first)))


@dataclass(slots=True)
class Selection:
    """What is shown, in the order of choice, and what was seen not to be fresh on the way."""

    items: list[Item] = field(default_factory=list)
    labels: list[tuple[FrameId, str]] = field(default_factory=list)
    tokens: int = 0

    def messages(self) -> list[Message]:
        """The messages, those of the oldest frames first.

        What changes gets a new frame, which goes to the end: everything before the place it had
        stays byte for byte as it was, and so does a provider's prompt cache.
        """
        return [item.message for item in sorted(self.items, key=lambda item: item.loaded.candidate)]


def select(
    ordered: Sequence[Candidate],
    request: Request,
    load: Load,
    counter: TokenCounter,
    omitted: Omitted,
) -> Selection:
    """Take what fits, first things first, and say of the rest why not."""
    chosen, misses, place = Selection(), 0, 0
    room = len(ordered) if request.max_frames is None else request.max_frames
    used = REPLY_OVERHEAD
    size = min(_MOST, max(_LEAST, request.budget // _USUAL_TOKENS))
    while place < len(ordered):
        if len(chosen.items) >= room:
            omitted.add(ordered[place:], "max_frames")
            break
        if misses >= MOST_MISSES or used >= request.budget:
            omitted.add(ordered[place:], "budget")
            break
        chunk = ordered[place : place + size]
        place += len(chunk)
        for number, loaded in enumerate(load(chunk)):
            if len(chosen.items) >= room or misses >= MOST_MISSES:
                # Put back: the reason is given for all of the rest at once.
                place -= len(chunk) - number
                break
            reason = _unusable(loaded, request)
            if loaded.freshness is not Freshness.FRESH:
                chosen.labels.append((loaded.candidate.frame_id, loaded.freshness.value))
            if reason is None:
                item = _item(loaded, counter)
                if used + item.tokens <= request.budget:
                    chosen.items.append(item)
                    used += item.tokens
                    continue
                reason = "budget"
                misses += 1
            omitted.add((loaded.candidate,), reason)
    _trim(chosen, request.budget, counter, omitted)
    return chosen


def _unusable(loaded: Loaded, request: Request) -> str | None:
    """Why a candidate cannot be shown at all."""
    if loaded.freshness in (Freshness.ORPHANED, Freshness.UNMANAGED):
        return loaded.freshness.value
    if request.require_fresh and loaded.freshness is not Freshness.FRESH:
        return f"not fresh: {loaded.freshness.value}"
    return "missing" if loaded.body is None else None


def _item(loaded: Loaded, counter: TokenCounter) -> Item:
    who = loaded.candidate
    assert loaded.body is not None
    made = message(who.path, who.type, who.agent, loaded.freshness.value, loaded.body)
    return Item(loaded, made, max(0, counter.count_messages([made]) - REPLY_OVERHEAD))


def _trim(chosen: Selection, budget: int, counter: TokenCounter, omitted: Omitted) -> None:
    """The last word is the count of the messages themselves, whatever a counter adds up."""
    while True:
        chosen.tokens = counter.count_messages(chosen.messages())
        if chosen.tokens <= budget or not chosen.items:
            return
        omitted.add((chosen.items.pop().loaded.candidate,), "budget")
