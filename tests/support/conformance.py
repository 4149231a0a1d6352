"""The statements of a specification, and the test that shows each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])

_ROOT: Final = Path(__file__).parents[2]
_SECTIONS: Final = 11
_RULINGS: Final = 19
"""The sections of the design, and the rulings of §8, which alone are numbered."""


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
    where a ruling changes it, or with the page of docs/ and its heading where the rule stands
    there. One without a test is an error when the file is collected.
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
        if ruled is not None and not _is_written_down(ruled):
            raise ValueError(f"{place} of {self.file}: there is no ruling {ruled!r}")
        number = list(self._statements).index(place)
        shown = Statement(self.file, number, place, self._statements[place], ruled)
        self._shown[place] = shown

        def mark(test: Test) -> Test:
            # A function takes attributes of which its type knows nothing.
            test.statement = shown  # type: ignore[attr-defined]
            return test

        return mark

    def missing(self) -> list[str]:
        """The places of statements that no test shows."""
        return [place for place in self._statements if place not in self._shown]


def _is_written_down(ruling: str) -> bool:
    """Whether a ruling names its place: a section, a number of §8, or a heading of a page."""
    if numbers := re.fullmatch(r"DESIGN (§8\.\d+(?:, §8\.\d+)*)", ruling):
        return all(0 < int(one) <= _RULINGS for one in re.findall(r"\.(\d+)", numbers[1]))
    if section := re.fullmatch(r"DESIGN §(\d+)", ruling):
        return 0 < int(section[1]) <= _SECTIONS and section[1] != "8"
    page, _, heading = ruling.partition(": ")
    file = _ROOT / page
    return file.is_file() and f"## {heading}" in file.read_text(encoding="utf-8").splitlines()
