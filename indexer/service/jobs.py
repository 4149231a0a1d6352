"""Work handed to the writing thread by others, who wait for its outcome."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from indexer.errors import UncheckedError


class StoppingError(UncheckedError):
    """The service is about to stop; whoever asks again finds its successor or none."""

    code = "stopping"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work and who waits for it."""

    work: Callable[[], Any]
    outcome: Future[Any] = field(default_factory=Future)

    def run(self) -> BaseException | None:
        """Do it; its error is for whoever waits, and returned for the thread to judge."""
        try:
            result = self.work()
        except BaseException as error:
            self.outcome.set_exception(error)
            return error
        self.outcome.set_result(result)
        return None

    def refuse(self) -> None:
        """Tell who waits that it will not be done."""
        self.outcome.set_exception(stopping())


def stopping() -> StoppingError:
    """The error for whatever comes too late."""
    return StoppingError("the service is stopping", hint="run the command again")
