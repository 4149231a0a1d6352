"""Work that is done in steps, so that whoever owns the writing thread can do others in between."""

from __future__ import annotations

from typing import Protocol

from indexer.engine.documents import JsonObject


class LongWork(Protocol):
    """Work in short steps on the writing thread, with waits in between on any other."""

    def step(self) -> bool:
        """Go on; True when it is done."""
        ...

    def wait(self) -> None:
        """Wait until another step has something to do."""
        ...

    def leave(self) -> None:
        """Ask for nothing more, and wait a little for what is under way, on any thread."""
        ...

    def close(self) -> None:
        """End it, on the writing thread."""
        ...

    def document(self) -> JsonObject:
        """What it did."""
        ...


def run_to_end(work: LongWork) -> JsonObject:
    """Run in one go, by whoever owns the engine alone."""
    try:
        while not work.step():
            work.wait()
    finally:
        work.close()
    return work.document()
