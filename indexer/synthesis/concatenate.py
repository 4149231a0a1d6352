"""The `concatenate` policy: the children's frames one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from indexer.synthesis.base import (
    EMPTY,
    ChildInput,
    FingerprintParts,
    PolicyOptionsError,
    Tokens,
    checked_limit,
)

MIN_TOKENS = 32
_TAIL_TOKENS = 12
_ABSENT = ("mention", "skip")


@dataclass(frozen=True, slots=True)
class Concatenate:
    """Every child under a heading of its name, in the order given; limited only on request."""

    tokens: Tokens
    headings: bool = True
    absent: str = "mention"
    max_tokens: int | None = None

    name: ClassVar[str] = "concatenate"
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        if not isinstance(self.headings, bool):
            raise PolicyOptionsError(
                f"{self.name}: headings = {self.headings!r} is neither true nor false"
            )
        if self.absent not in _ABSENT:
            raise PolicyOptionsError(
                f"{self.name}: absent = {self.absent!r} is not one of {', '.join(_ABSENT)}"
            )
        if self.max_tokens is not None:
            checked_limit(self.name, "max_tokens", self.max_tokens, MIN_TOKENS, 10_000_000)

    def fingerprint_parts(self) -> FingerprintParts:
        """Name, version, options, and the tokenizer where there is a limit."""
        limit = "none" if self.max_tokens is None else str(self.max_tokens)
        return (
            ("name", self.name),
            ("option.absent", self.absent),
            ("option.headings", str(self.headings).lower()),
            ("option.max_tokens", limit),
            ("tokenizer", "" if self.max_tokens is None else self.tokens.tokenizer),
            ("version", self.version),
        )

    def synthesize(self, children: Sequence[ChildInput]) -> str:
        """The children's bodies, whole ones only."""
        if not children:
            return EMPTY
        parts = [part for child in children if (part := self._part(child))]
        if self.max_tokens is None:
            return "\n".join(parts) or "[folder] no frames\n"
        return self._limited(parts, self.max_tokens)

    def _part(self, child: ChildInput) -> str:
        if child.body is None:
            if self.absent == "skip":
                return ""
            return f"## {child.shown}\n\n(no frame)\n"
        body = child.body.rstrip("\n")
        return f"## {child.shown}\n\n{body}\n" if self.headings else f"{body}\n"

    def _limited(self, parts: list[str], limit: int) -> str:
        kept: list[str] = []
        spent = _TAIL_TOKENS
        for part in parts:
            # A later, shorter child is no reason to leave a gap: the order given is kept.
            spent += self.tokens.count(part) + 1
            if spent > limit:
                break
            kept.append(part)
        step = 1
        while self.tokens.count(text := _joined(kept, len(parts))) > limit and kept:
            del kept[-step:]
            step *= 2
        return text


def _joined(kept: list[str], total: int) -> str:
    left = total - len(kept)
    tail = [f"left out: {left} of {total} children\n"] if left else []
    return "\n".join([*kept, *tail]) or "[folder] no frames\n"
