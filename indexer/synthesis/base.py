"""The seam of folder policies: what they are given, what they promise, how that is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from indexer.core.twice import FingerprintParts as FingerprintParts  # part of this seam
from indexer.core.twice import Maker, Twice
from indexer.errors import UsageError

KINDS: Final = ("file", "directory", "link")
EMPTY: Final = "[folder] empty\n"


@dataclass(frozen=True, slots=True)
class ChildInput:
    """One child as a policy sees it; a body of None is a marked absence of a frame."""

    name: str
    kind: str
    body: str | None

    @property
    def shown(self) -> str:
        """The name, a folder's with its slash."""
        if self.kind == "directory":
            return self.name + "/"
        return f"{self.name} (link)" if self.kind == "link" else self.name


@dataclass(frozen=True, slots=True)
class Tokens:
    """How tokens are counted; the tokenizer's name stands for the count in fingerprints."""

    tokenizer: str
    count: Callable[[str], int]


@runtime_checkable
class Policy(Maker, Protocol):
    """Makes the body of a folder's frame from its children's, in byte order of their names."""

    def synthesize(self, children: Sequence[ChildInput]) -> str:
        """The frame's body."""
        ...


class UnknownPolicyError(UsageError):
    """No folder policy of that name is built in."""

    code = "unknown_policy"


class PolicyOptionsError(UsageError):
    """An option of a policy has an unknown name or an impossible value."""

    code = "policy_options"


class _Verified(Twice[Policy]):
    def synthesize(self, children: Sequence[ChildInput]) -> str:
        return self.same(lambda: self.inner.synthesize(children), f"{len(children)} children")


def verified(policy: Policy) -> Policy:
    """The same policy, run twice each time and refused when its outputs differ."""
    return policy if isinstance(policy, _Verified) else _Verified(policy)


def checked_limit(policy: str, option: str, value: object, low: int, high: int) -> None:
    """Refuse a limit that is not a whole number within reason."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise PolicyOptionsError(
            f"{policy}: {option} = {value!r} is not a whole number from {low} to {high}"
        )
