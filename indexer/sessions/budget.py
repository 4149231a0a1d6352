"""How many tokens a session may hold, and what happens when a commit would go beyond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from indexer.errors import UsageError

WARN: Final = "warn"
REJECT: Final = "reject"
CALLBACK: Final = "callback"
ACTIONS: Final = (WARN, REJECT, CALLBACK)


class BudgetExceededError(UsageError):
    """A commit was refused because the session would hold too many tokens."""

    code = "E_BUDGET_EXCEEDED"

    def __init__(self, current_tokens: int, max_tokens: int) -> None:
        super().__init__(
            f"the session would hold {current_tokens} tokens; its budget is {max_tokens}",
            hint="shorten the content, skip or remove a block, or raise it: `session budget`",
        )
        self.current_tokens = current_tokens
        self.max_tokens = max_tokens


class BudgetError(UsageError):
    """A budget that cannot be kept."""

    code = "E_BUDGET_INVALID"


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A limit on the tokens of what is live; no limit where it is None, 0 is a limit."""

    max_tokens: int | None = None
    action: str = WARN
    callback: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise BudgetError(f"unknown action {self.action!r}: use warn, reject or callback")
        limit = self.max_tokens
        if limit is not None and (type(limit) is not int or limit < 0):
            raise BudgetError(f"a budget is a whole number from 0 on, not {limit!r}")

    def check(self, total: int) -> str | None:
        """A warning for this total, an error, or None where it fits or was handed on."""
        if self.max_tokens is None or total <= self.max_tokens:
            return None
        if self.action == REJECT:
            raise BudgetExceededError(total, self.max_tokens)
        if self.action == CALLBACK:
            if self.callback is not None:
                self.callback(total, self.max_tokens)
            return None
        return f"the session holds {total} tokens; its budget is {self.max_tokens}"

    def to_json(self) -> dict[str, Any]:
        """What of a budget can be written down; a callback cannot."""
        return {"max_tokens": self.max_tokens, "action": self.action}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TokenBudget:
        """The budget written by `to_json`."""
        return cls(data["max_tokens"], data["action"])
