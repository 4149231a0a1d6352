"""One thing that is done on a thread of its own while another is done here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Beside(Generic[T]):
    """Work that takes little of the interpreter, begun with a block and ended with it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._made: list[T] = []
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            self._made.append(self._work())
        except BaseException as error:
            self._failed = error

    def result(self) -> T:
        """What it gives, once it has; what it failed with is raised here."""
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        return self._made[0]
