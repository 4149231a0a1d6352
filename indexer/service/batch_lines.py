"""A line for people per batch of changes: the files, and what was made for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from indexer.core.changes import Change, summarize
from indexer.core.kinds import Kind
from indexer.core.paths import on_screen
from indexer.engine.make.events import Event
from indexer.store.roots import Root

_NAMED: Final = 3
"""Files of a batch that are named; the others are counted."""


class BatchLines:
    """Collects what the writing thread tells, until somebody shows it."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._files: list[str] = []
        self._made = self._known = self._failed = 0
        self._was_told = False

    def publish(self, root: Root, changes: list[Change]) -> None:
        """Called on the writing thread after a commit."""
        with self._lock:
            if self._files:
                # The next batch: what is told from now on belongs to it.
                self._flush()
            self._files = _names(changes)
            self._was_told = True

    def publish_frames(self, events: list[Event]) -> None:
        """Called on the writing thread after frames were stored."""
        words = [event.action for event in events]
        with self._lock:
            self._made += words.count("generated")
            self._known += words.count("reused") + words.count("carried")
            self._failed += words.count("failed")
            self._was_told = True

    def tick(self, *, is_busy: bool = False) -> None:
        """Show what has come to rest: nothing was told since this was called last.

        While frames are being made there is more to come, however long that takes.
        """
        with self._lock:
            if not (self._was_told or is_busy) and (
                self._files or self._made or self._known or self._failed
            ):
                self._flush()
            self._was_told = False

    def _flush(self) -> None:
        self._show(batch_line(self._files, self._made, self._known, self._failed))
        self._files, self._made, self._known, self._failed = [], 0, 0, 0


def batch_line(files: Sequence[str], made: int, known: int, failed: int) -> str:
    """`a.py, b.py and 3 more: 5 frames made, 2 known from earlier results`."""
    named = ", ".join(map(on_screen, files[:_NAMED])) or "frames"
    more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
    parts = [
        f"{made:,} frame{'' if made == 1 else 's'} made" if made else "",
        f"{known:,} known from earlier results" if known else "",
        f"{failed:,} failed" if failed else "",
    ]
    return f"{named}{more}: {', '.join(filter(None, parts)) or 'no frame to make'}"


def _names(changes: Sequence[Change]) -> list[str]:
    """The files that changed; those that went with a minus before them."""
    folders = {one.path for one in changes if _is_folder(one)}
    summary = summarize(changes)
    here = [path for path in (*summary.added, *summary.modified) if path not in folders]
    return [*here, *(f"-{path}" for path in summary.removed if path not in folders)]


def _is_folder(change: Change) -> bool:
    entry = change.new or change.old
    return entry is not None and entry.kind is Kind.DIRECTORY
