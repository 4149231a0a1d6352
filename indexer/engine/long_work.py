"""Work in steps, so that whoever owns the writing thread can do others in between."""

from __future__ import annotations

from abc import ABC, abstractmethod

from indexer.engine.documents import JsonObject


class LongWork(ABC):
    """Short steps on the writing thread, with waits in between on any other thread."""

    @abstractmethod
    def step(self) -> bool:
        """Go on as far as is possible without waiting; True when everything is done."""

    @abstractmethod
    def document(self) -> JsonObject:
        """What was done, for whoever asked for it."""

    def wait(self) -> None:  # noqa: B027  # most work never waits
        """Wait until another step has something to do, on any thread."""

    def leave(self) -> None:  # noqa: B027  # most work has nothing in flight between two steps
        """Begin nothing more, and wait a little for what is in flight, on any thread."""

    def close(self) -> None:  # noqa: B027  # most work holds nothing
        """End it on the writing thread; what was done until now stays done."""


def run_to_end(work: LongWork) -> JsonObject:
    """Run in one go, by whoever owns the engine alone."""
    try:
        while not work.step():
            work.wait()
    finally:
        work.close()
    return work.document()
