"""Progress on stderr: a bar for work that takes its time, one live line for a service."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from indexer.cli.columns import width
from indexer.cli.options import Globals
from indexer.cli.output import print_text
from indexer.core.paths import on_screen
from indexer.errors import MerkleError
from indexer.store.layout import Layout
from indexer.store.standing import read_standing

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from indexer.service.workspace import Workspace

PATIENCE: Final = 0.4
"""Seconds before a bar appears; most scans are over by then and never load what draws it."""


class ScanBar:
    """Counts what is done, and draws the count once the work has lasted a while."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        doing: str = "scanning",
        what: str = "entries",
        total: int | None = None,
    ) -> None:
        self._clock = clock
        self._doing, self._what, self._total = doing, what, total
        self._began = clock()
        self._due = self._began + PATIENCE
        self._count = 0
        self._drawn: tuple[Progress, TaskID] | None = None

    def __call__(self, entries: int) -> None:
        """Count entries that are done, and draw the bar once it has taken long enough."""
        self._count += entries
        if self._drawn is not None:
            progress, task = self._drawn
            lasted = self._clock() - self._began
            rate = f"{self._count / lasted:,.0f}/s" if lasted else ""
            # What has come since it was last counted makes it more, never less.
            total = None if self._total is None else max(self._total, self._count)
            progress.update(task, completed=self._count, total=total, rate=rate)
        elif self._clock() >= self._due:
            self._drawn = _start(self._count, self._total, self._doing, self._what)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._drawn is not None:
            self._drawn[0].stop()
            self._drawn = None


def _start(count: int, total: int | None, doing: str, what: str) -> tuple[Progress, TaskID]:
    # Imported late: it takes longer to load than a small workspace to scan.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn(doing),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,.0f} " + ("of {task.total:,.0f} " if total else "") + what),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(doing, total=total, completed=count, rate="")
    progress.start()
    return progress, task


def scan_progress(
    options: Globals, workspace: Workspace | None = None
) -> contextlib.AbstractContextManager[Callable[[int], None] | None]:
    """A callback for a scan that draws a bar, or None where nobody would see it.

    With a workspace the bar goes as far as what was there when it was last looked at.
    """
    return _bar(options, "scanning", "entries", workspace)


def frame_progress(
    options: Globals,
) -> contextlib.AbstractContextManager[Callable[[int], None] | None]:
    """Like `scan_progress`, for making frames."""
    return _bar(options, "making frames", "frames")


def search_progress(
    options: Globals,
) -> contextlib.AbstractContextManager[Callable[[int], None] | None]:
    """Like `scan_progress`, for indexing what was stored since somebody last searched."""
    return _bar(options, "preparing the search", "texts")


def check_progress(
    options: Globals, workspace: Workspace
) -> contextlib.AbstractContextManager[Callable[[int], None] | None]:
    """Like `scan_progress`, for reading files again."""
    return _bar(options, "checking files", "entries", workspace)


def team_progress(
    options: Globals,
) -> contextlib.AbstractContextManager[Callable[[int], None] | None]:
    """Like `scan_progress`, for what is given to the team's store and taken from it."""
    return _bar(options, "sharing", "results")


@contextlib.contextmanager
def _bar(
    options: Globals, doing: str, what: str, workspace: Workspace | None = None
) -> Iterator[Callable[[int], None] | None]:
    if options.quiet or not is_terminal():
        yield None
        return
    bar = ScanBar(doing=doing, what=what, total=_recorded(workspace))
    try:
        yield bar
    finally:
        bar.close()


def _recorded(workspace: Workspace | None) -> int | None:
    """How many nodes were there when the workspace was last looked at."""
    if workspace is None:
        return None
    try:
        # Without the index, where that can be: a scan may do without it too.
        standing = None if workspace.is_remote else read_standing(Layout(workspace.root))
        if standing is not None:
            return standing.root.totals.nodes
        return next((root["nodes"] for root in workspace.log(1)["roots"]), None)
    except MerkleError:
        # What is wrong is told by the work itself.
        return None


class StatusLine:
    """Short texts from the service: one line drawn over and over, or a line each."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._last = ""

    def __call__(self, text: str) -> None:
        """Show the text in place of the one before."""
        shown = on_screen(text)
        if shown == self._last:
            return
        self._last = shown
        if not self._live:
            print_text(shown, err=True)
            return
        columns = shutil.get_terminal_size().columns - 1
        while width(shown) > columns:
            shown = shown[:-2] + "…"
        sys.stderr.write(f"\r\x1b[K{shown}")
        sys.stderr.flush()

    def above(self, text: str) -> None:
        """A line that stays, above the one that is drawn over and over."""
        sys.stderr.write(f"\r\x1b[K{on_screen(text)}\n")
        last, self._last = self._last, ""
        self(last)

    def close(self) -> None:
        """End the line, so that the shell's prompt starts on its own."""
        if self._live and self._last:
            sys.stderr.write("\n")
            sys.stderr.flush()


def is_terminal() -> bool:
    """Whether stderr is a terminal that can draw."""
    return sys.stderr is not None and sys.stderr.isatty()
