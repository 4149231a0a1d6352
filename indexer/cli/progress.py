"""Progress on stderr: a bar for work that takes its time, one live line for a service."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

import click

from indexer.cli.columns import width
from indexer.cli.options import Globals
from indexer.cli.output import colour, print_text
from indexer.core.paths import on_screen
from indexer.core.progress import Meter, Reading

PATIENCE: Final = 0.4
"""Seconds before a bar appears; most work is over by then."""

_EVERY: Final = 0.1
"""Seconds between two drawings of it."""

_WIDEST: Final = 30
_LEAST: Final = 8
"""Cells of a bar, at most and at least; where there is no room for so many it is left out."""


@contextlib.contextmanager
def bar(options: Globals) -> Iterator[Meter | None]:
    """A meter that is drawn once the work has lasted a while; None where nobody would see it."""
    if options.quiet or not is_terminal():
        yield None
        return
    meter, ended = Meter(), threading.Event()
    # A thread of its own: what takes long may tell nothing for seconds.
    drawing = threading.Thread(target=_draw, args=(meter, ended), name="bar", daemon=True)
    try:
        with _after(PATIENCE, drawing.start):
            yield meter
    finally:
        ended.set()
        if drawing.ident is not None:
            drawing.join()


@contextlib.contextmanager
def _after(seconds: float, start: Callable[[], None]) -> Iterator[None]:
    """Start a thread if this lasts so long, and none before: a process with threads cannot fork."""
    if threading.current_thread() is not threading.main_thread():
        # Signals come to the main thread, where every command runs.
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: start())
    # What waits for the system goes on waiting.
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.000_001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def _columns() -> int:
    # Imported late: only a terminal has columns.
    import shutil

    return shutil.get_terminal_size().columns - 1


def _draw(meter: Meter, ended: threading.Event) -> None:
    while True:
        columns = _columns()
        sys.stderr.write("\r\x1b[K" + bar_line(meter.read(), columns))
        sys.stderr.flush()
        if ended.wait(_EVERY):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def bar_line(reading: Reading, columns: int) -> str:
    """What is done, how much of it and of how much, how fast, since when and how long still."""
    parts = [reading.amount, f"{reading.rate:,.0f}/s"] if reading.what else []
    left = reading.left
    parts.append(_clock(reading.seconds) + ("" if left is None else f", {_clock(left)} left"))
    text = "  ".join(parts)
    doing = on_screen(reading.doing or "waiting")
    room = columns - width(doing) - width(text) - 4
    if not reading.total or room < _LEAST:
        line = f"{doing}  {text}"
        return line if width(line) <= columns else f"{doing}  {parts[0]}"[:columns]
    cells = min(_WIDEST, room)
    full = cells * reading.done // reading.total
    done, open_ = "━─" if (sys.stderr.encoding or "").lower().startswith("utf") else "#-"
    drawn = done * full if colour() is False else click.style(done * full, fg="cyan")
    return f"{doing}  {drawn}{open_ * (cells - full)}  {text}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
        columns = _columns()
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
