"""`session budget`: how many tokens of what is live a session may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from indexer.core.arguments import Count
from indexer.engine.sessions.write import OnBudget
from indexer.errors import ArgumentsError
from indexer.sessions import Plan, Session, TokenBudget

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class BudgetDocument(TypedDict):
    """Result of `session budget`."""

    name: str
    max_tokens: int | None
    action: str
    live_tokens: int
    left: int | None
    """Tokens until the budget is full; below 0 where it is exceeded."""
    total_tokens: int
    """Of everything that was ever said."""


def budget(
    engine: Engine,
    name: str,
    *,
    limit: Count | None = None,
    on_budget: OnBudget | None = None,
    unlimited: bool = False,
    agent: str | None = None,
) -> BudgetDocument:
    """The budget of a session and how much of it is used; changed where anything is given."""
    if limit is not None and unlimited:
        raise ArgumentsError("a budget has a limit or has none")
    if limit is None and on_budget is None and not unlimited:
        return engine.sessions.read(name, lambda session: _budget_document(name, session))

    def plan(session: Session) -> Plan:
        now = session.state.budget
        most = None if unlimited else now.max_tokens if limit is None else limit
        if most is None and on_budget is not None:
            raise ArgumentsError("there is no budget to act on", hint="give a limit too")
        return session.plan_budget(TokenBudget(most, on_budget or now.action))

    session, _ = engine.sessions.write(name, plan, engine.sessions.author(agent))
    return _budget_document(name, session)


def _budget_document(name: str, session: Session) -> BudgetDocument:
    now, live = session.state.budget, session.tokens
    return {
        "name": name,
        "max_tokens": now.max_tokens,
        "action": now.action,
        "live_tokens": live,
        "left": None if now.max_tokens is None else now.max_tokens - live,
        "total_tokens": session.state.log.total_tokens,
    }
