"""When to look: a pure state machine that time is passed into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_PENDING: Final = 20_000
"""Beyond this many paths a scan of everything is cheaper than looking at each."""

BULK: Final = 200
"""From this many paths on, something like a checkout is under way, and it should settle first."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of quiet to wait for, and the longest wait while changes keep coming."""

    quiet: float = 0.05
    longest: float = 0.5
    settle: float = 0.4
    longest_settle: float = 5.0


@dataclass(frozen=True, slots=True)
class Pending:
    """The paths that are to be looked at together."""

    paths: dict[str, bool]
    """Each path, with whether everything below it has to be looked at too."""
    everything: bool
    """Too much happened, or events were lost: look at the whole workspace."""


@dataclass(slots=True)
class Debounce:
    """Collects dirty paths until they are quiet, settled or overdue."""

    timing: Timing = field(default_factory=Timing)
    max_pending: int = MAX_PENDING
    _paths: dict[str, bool] = field(default_factory=dict)
    _everything: bool = False
    _first: float = 0.0
    _last: float = 0.0

    def __bool__(self) -> bool:
        return bool(self._paths) or self._everything

    @property
    def pending(self) -> int | None:
        """How many paths wait to be looked at; None: everything does."""
        return None if self._everything else len(self._paths)

    def add(self, path: str, deep: bool, now: float) -> None:
        """A path may have changed."""
        self._touch(now)
        if self._everything:
            return
        self._paths[path] = deep or self._paths.get(path, False)
        if len(self._paths) > self.max_pending:
            self.add_everything(now)

    def add_everything(self, now: float) -> None:
        """Anything may have changed."""
        self._touch(now)
        self._everything = True
        self._paths.clear()

    def deadline(self) -> float | None:
        """When the pending paths are due; None when nothing is pending."""
        if not self:
            return None
        bulk = self._everything or len(self._paths) >= BULK
        quiet = self.timing.settle if bulk else self.timing.quiet
        longest = self.timing.longest_settle if bulk else self.timing.longest
        return min(self._last + quiet, self._first + longest)

    def is_due(self, now: float) -> bool:
        """Whether the pending paths should be looked at now."""
        deadline = self.deadline()
        return deadline is not None and deadline <= now

    def take(self) -> Pending:
        """Hand over what is pending and start anew."""
        taken = Pending(self._paths, self._everything)
        self._paths, self._everything = {}, False
        return taken

    def _touch(self, now: float) -> None:
        if not self:
            self._first = now
        self._last = now
