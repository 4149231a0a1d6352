"""A budget is over what is live, counted by default, and can be changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from indexer import Session
from indexer.core.clock import ManualClock
from indexer.core.tokens import TiktokenCounter
from indexer.errors import UsageError
from indexer.sessions import Placement, TokenBudget, make_content
from indexer.sessions.budget import BudgetExceededError
from indexer.sessions.stored import all_rows, counters_of, load_state
from indexer.sessions.stored_records import row_of


class Letters:
    """A token for every letter."""

    def count_text(self, text: str) -> int:
        return len(text)

    def count_messages(self, messages: Any) -> int:
        return sum(len(str(m["content"])) for m in messages)


def said(text: str, role: str = "user") -> dict[str, Any]:
    return make_content("dialogue", text=text, role=role)


def small(limit: int, action: str = "reject") -> Session:
    budget = TokenBudget(limit, action)
    return Session.new("s", clock=ManualClock(10**18), counter=Letters(), budget=budget)


def test_a_session_counts_tokens_by_default() -> None:
    session = Session.new("s", budget=TokenBudget(1, "reject"))
    with pytest.raises(BudgetExceededError) as told:
        session.append(said("This text definitely has more than 1 token"))
    assert told.value.max_tokens == 1
    assert told.value.current_tokens > 1
    assert session.tokens == len(session.records) - 1 == 0
    assert isinstance(session.counter, TiktokenCounter)


def test_what_went_makes_room() -> None:
    session = small(6)
    session.append(said("hint"), Placement(ttl=0, offset=-1))
    with pytest.raises(BudgetExceededError):
        session.append(said("abc"))
    session.commit()
    first = session.append(said("abc"))
    second = session.append(said("def"))
    with pytest.raises(BudgetExceededError):
        session.append(said("g"))
    session.apply(session.plan_remove(second.node_id))
    session.append(said("g"))
    session.annotate(first.commit_hash, "skip")
    assert session.tokens == 1
    session.annotate(first.commit_hash, "normal")
    assert session.tokens == 4


def test_of_an_edited_block_the_newest_edit_counts() -> None:
    session = small(6)
    first = session.append(said("abcdef"))
    edit = session.edit(first.commit_hash, said("ab"))
    assert session.tokens == 2
    session.edit(first.commit_hash, said("abcd"))
    assert session.tokens == 4
    with pytest.raises(BudgetExceededError):
        session.edit(first.commit_hash, said("abcdefg"))
    session.apply(session.plan_remove(edit.node_id))
    assert session.tokens == 4


def test_a_budget_can_be_changed_and_is_kept() -> None:
    session = small(3)
    with pytest.raises(BudgetExceededError):
        session.append(said("abcd"))
    session.set_budget(TokenBudget(4, "warn"))
    session.append(said("abcd"))
    assert "its budget is 4" in session.plan_append(said("e")).warnings[0]
    seen: list[tuple[int, int]] = []
    session.set_budget(TokenBudget(1, "callback", lambda now, most: seen.append((now, most))))
    session.append(said("e"))
    assert seen == [(5, 1)]
    again = Session.replay(session.records)
    assert again.state.budget.to_json() == {"max_tokens": 1, "action": "callback"}
    assert again.export() == session.export()
    session.set_budget(TokenBudget())
    session.append(said("x" * 99))
    with pytest.raises(UsageError):
        TokenBudget(-1)


class Counted(RuleBasedStateMachine):
    """However a session changes, the sum it keeps is the sum of what a reader gets."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session.new("s", clock=ManualClock(10**18), counter=Letters())

    def blocks(self) -> list[str]:
        return [item.node.id for item in self.session.effective()]

    @rule(
        text=st.text("ab", max_size=5),
        ttl=st.none() | st.integers(0, 2),
        at=st.sampled_from([-1, 0, 1]),
    )
    def append(self, text: str, ttl: int | None, at: int) -> None:
        self.session.append(said(text), Placement(ttl=ttl, offset=at))

    @precondition(lambda self: self.blocks())
    @rule(data=st.data(), text=st.text("ab", max_size=5))
    def edit(self, data: st.DataObject, text: str) -> None:
        self.session.edit(data.draw(st.sampled_from(self.blocks())), said(text))

    @precondition(lambda self: self.session.state.log.commits)
    @rule(data=st.data(), priority=st.sampled_from(["pinned", "normal", "skip"]))
    def annotate(self, data: st.DataObject, priority: str) -> None:
        commit = data.draw(st.sampled_from(self.session.state.log.commits))
        self.session.annotate(commit.commit_hash, priority)

    @precondition(lambda self: self.session.select("@w ^ah .cb"))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        found = self.session.select("@w ^ah .cb")
        assert isinstance(found, list)
        try:
            plan = self.session.plan_remove(data.draw(st.sampled_from(found)))
        except UsageError:
            return
        self.session.apply(plan)

    @rule()
    def commit(self) -> None:
        self.session.commit()

    @invariant()
    def the_sum_is_that_of_the_readers(self) -> None:
        state = self.session.state
        total = sum(len(item.content["text"]) for item in self.session.effective())
        assert self.session.tokens == total
        blobs = {key: state.log.blobs[key] for key in state.log.blobs}
        rows = [row_of(record) for record in state.records]
        loaded = load_state(rows, all_rows(state), blobs, counters_of(state))
        assert loaded.tokens_now.total == total


TestCounted = Counted.TestCase
TestCounted.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
