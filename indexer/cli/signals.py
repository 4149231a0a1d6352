"""SIGTERM and SIGHUP as Ctrl-C, for commands that may have answers of models under way."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

_POLITE: Final = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


@contextlib.contextmanager
def ends_politely() -> Iterator[None]:
    """Wind up before ending: what was answered is paid for, and belongs into the journal."""
    # A signal that is ignored already, as under nohup, stays ignored.
    ours = [number for number in _POLITE if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise Ended(number)
