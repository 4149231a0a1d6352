"""One thing that is done on a thread of its own while another is done here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def beside(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Begin work that takes little of the interpreter, and end with it.

    What this gives waits for its result, or raises what it failed with.
    """
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result() -> T:
        thread.join()
        if failed:
            raise failed[0]
        return made[0]

    try:
        yield result
    finally:
        thread.join()
