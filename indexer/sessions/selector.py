"""What a selector says, once read: addresses in time, groups, steps and their conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from indexer.errors import UsageError

PSEUDOS: Final = frozenset(("pre", "core", "post", "depth", "first", "last", "nth"))
DESCENDANT: Final = " "
CHILD: Final = ">"


class SelectorError(UsageError):
    """A selector breaks the grammar; `position` is where, counted from 0."""

    code = "E_SELECTOR_INVALID"

    def __init__(self, message: str, position: int) -> None:
        super().__init__(
            f"{message}, at position {position}", hint="see `merkle session select --help`"
        )
        self.position = position


class RangeKindError(SelectorError):
    """The ends of a range are addressed in different ways."""

    code = "E_SNAPSHOT_RANGE_KIND_MISMATCH"


class RangeWildcardError(SelectorError):
    """A range cannot begin or end with every snapshot."""

    code = "E_SNAPSHOT_RANGE_WILDCARD"


@dataclass(frozen=True, slots=True)
class At:
    """One snapshot: `t` counts back from now, `c` counts cycles, `w` is the work, `*` all."""

    kind: str
    value: int = 0

    def __str__(self) -> str:
        return f"@{self.kind}{self.value}" if self.kind in "tc" else f"@{self.kind}"


@dataclass(frozen=True, slots=True)
class Between:
    """A range of snapshots, both ends included."""

    start: At
    end: At


Address: TypeAlias = At | Between
NOW: Final = At("t", 0)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written in a selector: a number, a range of numbers, a text, or null."""

    text: str
    number: int | float | None = None
    null: bool = False
    high: int | float | None = None
    """The upper bound of a range, which begins with the number; both are part of it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An attribute test; without an operator it asks whether the attribute is there."""

    key: str
    operator: str | None = None
    value: Literal | None = None


@dataclass(frozen=True, slots=True)
class Pseudo:
    """A pseudo-class; ranges are pairs of inclusive bounds."""

    name: str
    ranges: tuple[tuple[int, int], ...] = ()

    def has(self, number: int) -> bool:
        """Whether a number is in one of the ranges."""
        return any(low <= number <= high for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class Step:
    """A compound of conditions on one node, and how it relates to the step before."""

    combinator: str | None
    root: str | None = None
    id: str | None = None
    type: str | None = None
    conditions: tuple[Condition, ...] = ()
    pseudos: tuple[Pseudo, ...] = ()

    @property
    def names_core(self) -> bool:
        """Whether this step asks for a core by type, and so may mean an implicit one."""
        return self.type == "mc" or any(
            c.key == "nodeType"
            and c.operator == "="
            and c.value is not None
            and c.value.text == "mc"
            and not c.value.null
            for c in self.conditions
        )


Chain: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Selector:
    """A whole selector: when to look, and the groups of chains to look for."""

    text: str
    address: Address | None
    groups: tuple[Chain, ...]
