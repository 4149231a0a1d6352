"""Caps that hold: the worst case is set aside before a call, what was used is charged after."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

MILLION: Final = 1_000_000
NOTHING: Final = Decimal(0)


class Price(NamedTuple):
    """What a million tokens cost, in whatever currency the table is written."""

    input: Decimal
    output: Decimal

    def of(self, tokens_in: int, tokens_out: int) -> Decimal:
        """The price of so many tokens."""
        return (self.input * tokens_in + self.output * tokens_out) / MILLION


@dataclass(frozen=True, slots=True)
class Caps:
    """What a run may use; None is no limit."""

    max_calls: int | None = None
    max_cost: Decimal | None = None


class Refused(NamedTuple):
    """Which cap does not allow another call."""

    cap: str


class Reserved(NamedTuple):
    """One call that may be made, at no more than this."""

    cost: Decimal


class Budget:
    """Counts calls and costs of one run; safe to use from many threads."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self._changed = threading.Condition()
        self._reserved = NOTHING
        self._outstanding = 0
        self._closed = False
        self.calls = 0
        self.spent = NOTHING
        self.tokens_in = 0
        self.tokens_out = 0

    def reserve(self, worst: Decimal) -> Reserved | Refused:
        """Set aside a call and its worst cost.

        Where only what is set aside for calls under way stands against it, wait for those: they
        nearly always cost less.
        """
        with self._changed:
            while True:
                if self._closed:
                    return Refused("stopped")
                if self.caps.max_calls is not None and self.calls >= self.caps.max_calls:
                    return Refused("max_calls")
                most = self.caps.max_cost
                if most is None or self.spent + self._reserved + worst <= most:
                    self.calls += 1
                    self._outstanding += 1
                    self._reserved += worst
                    return Reserved(worst)
                if self.spent + worst > most or not self._outstanding:
                    return Refused("max_cost")
                self._changed.wait()

    def charge(self, reserved: Reserved, cost: Decimal, tokens_in: int, tokens_out: int) -> None:
        """Say what a call really cost."""
        with self._changed:
            self._outstanding -= 1
            self._reserved -= reserved.cost
            self.spent += cost
            self.tokens_in += tokens_in
            self.tokens_out += tokens_out
            self._changed.notify_all()

    def reopen(self, caps: Caps) -> None:
        """Allow more again, within caps that count what was used before."""
        with self._changed:
            self.caps = caps
            self._closed = False
            self._changed.notify_all()

    def close(self) -> None:
        """Allow nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
