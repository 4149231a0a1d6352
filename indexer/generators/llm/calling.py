"""Attempts at one request until there is an answer: pauses, a shared brake, and the budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from indexer.generators.llm.budget import NOTHING, Budget, Price, Refused
from indexer.generators.llm.client import Answer, CallFailed
from indexer.generators.llm.writer import ModelRequest

FIRST_PAUSE: Final = 0.5
"""Seconds before the second attempt; each further pause is twice as long."""


class Asks(Protocol):
    """Makes one attempt at a request."""

    def ask(self, request: ModelRequest) -> Answer:
        """An answer, or `CallFailed`."""
        ...


class Failure(NamedTuple):
    """Why there is no answer."""

    message: str
    fatal: bool = False
    """Whether all others would fail in the same way."""
    of_server: bool = False
    """Whether the server or the way to it is the cause, and not this request."""


@dataclass(slots=True)
class Brake:
    """Holds every thread back when the server asks one of them to wait."""

    clock: Callable[[], float] = time.monotonic
    stop: threading.Event = field(default_factory=threading.Event)
    _until: float = 0.0

    def hold(self, seconds: float) -> None:
        """Nobody asks before so many seconds have passed."""
        self._until = max(self._until, self.clock() + seconds)

    def wait(self) -> bool:
        """Wait until asking is allowed; False when the run is over."""
        while (left := self._until - self.clock()) > 0:
            if self.stop.wait(left):
                return False
        return not self.stop.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait before another attempt; False when the run is over."""
        return not self.stop.wait(seconds)


@dataclass(frozen=True, slots=True)
class Caller:
    """Asks one server within one run's budget."""

    asks: Asks
    budget: Budget
    price_of: Callable[[str], Price | None]
    retries: int
    longest_pause: float
    brake: Brake

    def call(self, request: ModelRequest) -> Answer | Failure | Refused:
        """Ask until there is an answer, a lasting failure, or no budget; every attempt counts."""
        price = self.price_of(request.model)
        worst = _cost(price, request.most_tokens, request.max_output_tokens)
        pause = min(FIRST_PAUSE, self.longest_pause)
        for attempt in range(self.retries + 1):
            if not self.brake.wait():
                return Refused("stopped")
            reserved = self.budget.reserve(worst)
            if isinstance(reserved, Refused):
                return reserved
            try:
                answer = self.asks.ask(request)
            except CallFailed as error:
                failed = error
                used = error.usage or (request.most_tokens, request.max_output_tokens)
                used = used if error.billed or error.usage else (0, 0)
                self.budget.charge(reserved, _cost(price, *used), *used)
            except BaseException:
                self.budget.charge(reserved, worst, request.most_tokens, request.max_output_tokens)
                raise
            else:
                used = _used(answer, request)
                self.budget.charge(reserved, _cost(price, *used), *used)
                return answer
            # A server that asks for no pause at all gets the one that others get.
            wait = max(pause, failed.after or 0.0)
            if not failed.retry or attempt == self.retries or wait > self.longest_pause:
                return _failure(failed, attempt + 1, wait > self.longest_pause)
            if failed.after is not None:
                self.brake.hold(wait)
            elif not self.brake.pause(wait):
                return Refused("stopped")
            pause = min(2 * pause, self.longest_pause)
        raise AssertionError("the last attempt returns")


def _failure(failed: CallFailed, attempts: int, too_long: bool) -> Failure:
    message = failed.message
    if failed.retry and too_long:
        message += f"; the server asks to wait {failed.after:g} s"
    elif attempts > 1:
        message += f" ({attempts} attempts)"
    return Failure(message, failed.fatal, failed.retry)


def _used(answer: Answer, request: ModelRequest) -> tuple[int, int]:
    """Tokens as the server counts them; the worst case where it does not tell."""
    if answer.tokens_in is None or answer.tokens_out is None:
        return request.most_tokens, request.max_output_tokens
    return answer.tokens_in, answer.tokens_out


def _cost(price: Price | None, tokens_in: int, tokens_out: int) -> Decimal:
    return NOTHING if price is None else price.of(tokens_in, tokens_out)
