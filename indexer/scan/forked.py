"""Another process that does one thing, says what it found, and ends with who asked for it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Final

_DESCRIPTORS: Final = 4_096
"""More than a short command ever has open."""


@contextlib.contextmanager
def forked(work: Callable[[], bytes], keeps: Sequence[int]) -> Iterator[Callable[[], bytes]]:
    """Do something in a forked process; calling what this gives waits for its result.

    That is empty where the process was killed, or could not be had.
    Of this process's descriptors it has those in `keeps`, and the three streams.
    """
    reading, writing = os.pipe()
    try:
        process = os.fork()
    except OSError:
        # No more processes are allowed: as if it had ended without a word.
        os.close(reading)
        os.close(writing)
        yield lambda: b""
        return
    if process == 0:
        # Whatever happens here, nothing of the process that was forked may go on, and what it had
        # open is let go of: the lock must not outlive it.
        try:
            low = 3
            for kept in (*sorted((*keeps, writing)), _DESCRIPTORS):
                os.closerange(low, kept)
                low = kept + 1
            _say(writing, work())
            # Before its memory is given back, which may take a while.
            os.close(writing)
        finally:
            os._exit(0)
    os.close(writing)
    pieces: list[bytes] = []

    def result() -> bytes:
        while piece := os.read(reading, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)

    try:
        yield result
    finally:
        os.close(reading)
        # It has nothing more to say, or nobody wants to hear it.
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _say(pipe: int, said: bytes) -> None:
    while said:
        said = said[os.write(pipe, said) :]
