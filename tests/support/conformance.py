"""The statements of a specification, and the test that shows each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


class Statement(NamedTuple):
    """One statement, as a test shows it."""

    file: str
    number: int
    place: str
    """Where it stands in the file, such as `§3 Test criteria 2`."""
    text: str
    ruled: str | None
    """The ruling by which it holds in another way than it is written."""


class Specification:
    """A specification: every numbered statement by its place, in the order of the file.

    A test says which one it shows: `@statement("§3 Test criteria 2")`, with `ruled="DESIGN §8.3"`
    where a ruling changes it. One without a test is an error when the file is collected.
    """

    def __init__(self, file: str, statements: Mapping[str, str]) -> None:
        self.file = file
        self._statements = dict(statements)
        self._shown: dict[str, Statement] = {}

    def __call__(self, place: str, ruled: str | None = None) -> Callable[[Test], Test]:
        """Mark the test that shows a statement."""
        if place not in self._statements:
            raise ValueError(f"{self.file} has no statement {place!r}")
        if place in self._shown:
            raise ValueError(f"{place} of {self.file} is shown already")
        number = list(self._statements).index(place)
        shown = Statement(self.file, number, place, self._statements[place], ruled)
        self._shown[place] = shown

        def mark(test: Test) -> Test:
            test.statement = shown  # type: ignore[attr-defined]
            return test

        return mark

    def missing(self) -> list[str]:
        """The places of statements that no test shows."""
        return [place for place in self._statements if place not in self._shown]
