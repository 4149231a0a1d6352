"""Work in steps, so that whoever owns the writing thread can do others in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Document = TypeVar("Document", covariant=True)
"""What is told of the work when it is done."""


class LongWork(ABC, Generic[Document]):
    """Short steps on the writing thread, with waits in between on any other thread."""

    @abstractmethod
    def step(self) -> bool:
        """Go on as far as is possible without waiting; True when everything is done."""

    @abstractmethod
    def document(self) -> Document:
        """What was done, for whoever asked for it."""

    def wait(self) -> None:  # most work never waits
        """Wait until another step has something to do, on any thread."""

    def leave(self) -> None:  # most work has nothing in flight between two steps
        """Begin nothing more, and wait a little for what is in flight, on any thread."""

    def close(self) -> None:  # most work holds nothing
        """End it on the writing thread; what was done until now stays done."""


def run_to_end(work: LongWork[Document]) -> Document:
    """Run in one go, by whoever owns the engine alone."""
    try:
        while not work.step():
            work.wait()
    finally:
        work.close()
    return work.document()
