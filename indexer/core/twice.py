"""Custom code run twice and compared: what it makes must depend on its input alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from indexer.errors import UncheckedError

FingerprintParts = tuple[tuple[str, str], ...]


class Maker(Protocol):
    """What generators of files and policies of folders have in common."""

    @property
    def name(self) -> str:
        """The name it is declared by."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever the same input would give another output."""
        ...

    def fingerprint_parts(self) -> FingerprintParts:
        """Everything besides the input that can change the output, sorted by key."""
        ...


M = TypeVar("M", bound=Maker)


class NonDeterministicError(UncheckedError):
    """Custom code gave two outputs for one input."""

    code = "non_deterministic"


@dataclass(frozen=True)
class Twice(Generic[M]):
    """A maker whose every result is made twice, and refused when the two differ."""

    inner: M

    @property
    def name(self) -> str:
        """The name of the maker itself."""
        return self.inner.name

    @property
    def version(self) -> str:
        """The version of the maker itself."""
        return self.inner.version

    def fingerprint_parts(self) -> FingerprintParts:
        """The fingerprint parts of the maker itself: checking must not move ids."""
        first, second = self.inner.fingerprint_parts(), self.inner.fingerprint_parts()
        if first != second:
            raise NonDeterministicError(
                f"{self.inner.name!r} gave two different fingerprints",
                hint="a fingerprint may depend on version and configuration only",
            )
        return first

    def same(self, make: Callable[[], str], source: str) -> str:
        """What `make` gives, once it has given it twice; `source` says from what."""
        first, second = make(), make()
        if first != second:
            raise NonDeterministicError(
                f"{self.inner.name!r} gave two different outputs for {source},"
                f" first at {first_difference(first, second)}",
                hint="custom code must depend on its input alone: no clock, no random"
                " numbers, no order of a set",
            )
        return first


def first_difference(first: str, second: str) -> str:
    """Where two texts part, for an error message."""
    ours, theirs = first.split("\n"), second.split("\n")
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False), 1):
        if left != right:
            return f"line {number}: {left[:80]!r} against {right[:80]!r}"
    return f"line {min(len(ours), len(theirs)) + 1}: one output ends there"
