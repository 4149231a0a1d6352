"""The seam of file generators: what they are given, what they promise, how that is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from indexer.core.twice import FingerprintParts as FingerprintParts  # part of this seam
from indexer.core.twice import Maker, Twice
from indexer.errors import UncheckedError, UsageError


@dataclass(frozen=True, slots=True)
class FileInput:
    """All that a generator may know of a file; memo keys cover exactly this."""

    name: str
    content: bytes


@runtime_checkable
class Generator(Maker, Protocol):
    """Makes the body of one file's frame, the same for the same input on every machine."""

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


class _Verified(Twice[Generator]):
    def generate(self, source: FileInput) -> str:
        return self.same(lambda: self.inner.generate(source), repr(source.name))


def verified(generator: Generator) -> Generator:
    """The same generator, run twice each time and refused when its outputs differ."""
    return generator if isinstance(generator, _Verified) else _Verified(generator)
