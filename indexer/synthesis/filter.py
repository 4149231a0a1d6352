"""The `filter` policy: some of the children, given to another policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import ClassVar

from indexer.synthesis.base import (
    EMPTY,
    KINDS,
    ChildInput,
    FingerprintParts,
    Policy,
    PolicyOptionsError,
)


@dataclass(frozen=True, slots=True)
class Filter:
    """Children by name, kind, presence of a frame and its words; an empty condition lets all by."""

    then: Policy
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    framed: bool = False
    match: tuple[str, ...] = ()
    """Texts of which a child's frame has to hold one, whatever their case."""

    name: ClassVar[str] = "filter"
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        for option in ("include", "exclude", "kinds", "match"):
            values = getattr(self, option)
            if not isinstance(values, tuple) or not all(isinstance(v, str) and v for v in values):
                raise PolicyOptionsError(
                    f"{self.name}: {option} must be a list of texts, none of them empty"
                )
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise PolicyOptionsError(
                f"{self.name}: kinds has {', '.join(map(repr, unknown))}",
                hint=f"the kinds are: {', '.join(KINDS)}",
            )
        if not isinstance(self.framed, bool):
            raise PolicyOptionsError(
                f"{self.name}: framed = {self.framed!r} is neither true nor false"
            )

    def fingerprint_parts(self) -> FingerprintParts:
        """Name, version, conditions, and all of the policy that follows."""
        own = [
            ("name", self.name),
            ("option.exclude", repr(self.exclude)),
            ("option.framed", str(self.framed).lower()),
            ("option.include", repr(self.include)),
            ("option.kinds", repr(self.kinds)),
            ("version", self.version),
        ]
        if self.match:
            own.append(("option.match", repr(self.match)))
        inner = [(f"then.{key}", value) for key, value in self.then.fingerprint_parts()]
        return tuple(sorted(own + inner))

    def synthesize(self, children: Sequence[ChildInput]) -> str:
        """What the following policy makes of the selected children."""
        if not children:
            return EMPTY
        selected = self.select(children)
        return self.then.synthesize(selected) if selected else "[folder] nothing selected\n"

    def select(self, children: Sequence[ChildInput]) -> list[ChildInput]:
        """The children that meet every condition, in the order given."""
        included, excluded = _globs(self.include), _globs(self.exclude)
        return [
            child
            for child in children
            if (not self.kinds or child.kind in self.kinds)
            and (not self.framed or child.body is not None)
            and (included is None or included.match(child.name))
            and (excluded is None or not excluded.match(child.name))
            and (not self.match or self._matches(child))
        ]

    def _matches(self, child: ChildInput) -> bool:
        body = (child.body or "").casefold()
        return any(text.casefold() in body for text in self.match)


def _globs(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    # Not by `fnmatch`, for which case matters on some systems only.
    return re.compile("|".join(map(translate, patterns))) if patterns else None
