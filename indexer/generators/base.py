"""The seam of file generators: what they are given, what they promise, how that is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from indexer.errors import UncheckedError, UsageError

FingerprintParts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FileInput:
    """All that a generator may know of a file; memo keys cover exactly this."""

    name: str
    content: bytes


@runtime_checkable
class Generator(Protocol):
    """Makes the body of one file's frame, the same for the same input on every machine."""

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

    def generate(self, source: FileInput) -> str:
        """The frame's body."""
        ...


class UnknownGeneratorError(UsageError):
    """No generator of that name is built in or installed."""

    code = "unknown_generator"


class GeneratorOptionsError(UsageError):
    """An option of a generator has an unknown name or an impossible value."""

    code = "generator_options"


class GeneratorBrokenError(UncheckedError):
    """A generator is installed but cannot be used."""

    code = "generator_broken"


class NonDeterministicError(UncheckedError):
    """A generator gave two outputs for one input."""

    code = "non_deterministic"


@dataclass(frozen=True, slots=True)
class _Verified:
    inner: Generator

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def version(self) -> str:
        return self.inner.version

    def fingerprint_parts(self) -> FingerprintParts:
        # Checking must not move ids: the fingerprint is that of the generator itself.
        first, second = self.inner.fingerprint_parts(), self.inner.fingerprint_parts()
        if first != second:
            raise NonDeterministicError(
                f"generator {self.inner.name!r} gave two different fingerprints",
                hint="a fingerprint may depend on version and configuration only",
            )
        return first

    def generate(self, source: FileInput) -> str:
        first, second = self.inner.generate(source), self.inner.generate(source)
        if first != second:
            raise NonDeterministicError(
                f"generator {self.inner.name!r} gave two different outputs for"
                f" {source.name!r}, first at {first_difference(first, second)}",
                hint="custom code must depend on its input alone: no clock, no random"
                " numbers, no order of a set",
            )
        return first


def verified(generator: Generator) -> Generator:
    """The same generator, run twice each time and refused when its outputs differ."""
    return generator if isinstance(generator, _Verified) else _Verified(generator)


def first_difference(first: str, second: str) -> str:
    """Where two texts part, for an error message."""
    ours, theirs = first.split("\n"), second.split("\n")
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False), 1):
        if left != right:
            return f"line {number}: {left[:80]!r} against {right[:80]!r}"
    return f"line {min(len(ours), len(theirs)) + 1}: one output ends there"
