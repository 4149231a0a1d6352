"""What happened to frames, one event each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from indexer.core.frames import FrameId


class Event(NamedTuple):
    """One frame that was made, reused or carried, or could not be."""

    action: str
    path: str
    type: str
    frame_id: FrameId | None
    because: str = ""
    stale: tuple[str, ...] = ()
    """The children whose stale frames stand in the way, where it is them."""


Tell = Callable[[list[Event]], None]
"""How those who follow are told."""


@dataclass(slots=True, eq=False, repr=False)
class Outcome:
    """What a regeneration did."""

    events: list[Event] = field(default_factory=list)

    def count(self, action: str) -> int:
        """How many events of a kind there were."""
        return sum(event.action == action for event in self.events)
