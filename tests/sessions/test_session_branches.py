"""Branches: what they share, what they do apart, and what a merge makes of both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core.clock import ManualClock
from indexer.sessions import Placement, Session, make_content
from indexer.sessions.budget import BudgetExceededError, TokenBudget
from indexer.sessions.merging import Merged, MergeError, merge
from tests.sessions.test_session_properties import Actor


class OneEach:
    """Counts one token per text."""

    def count_text(self, text: str) -> int:
        return 1

    def count_messages(self, messages: list[dict[str, object]]) -> int:
        return len(messages)


def said(session: Session, at: str | None = None) -> list[str]:
    return [message["content"] for message in session.thread(at)]


def turn(session: Session, *texts: str, **where: object) -> None:
    for text in texts:
        session.append(make_content("dialogue", text=text), Placement(**where))
    session.commit()


@pytest.fixture
def trunk(session):
    session.append(make_content("instruction", text="law"), Placement(id="law"))
    for number in range(4):
        turn(session, f"q{number}", id=f"q{number}")
    return session


def test_a_branch_is_the_session_at_that_snapshot(trunk):
    for at, cycle in (("@t-3", 1), ("@c0", 0), ("@t0", 4), (None, 4)):
        branch = trunk.fork("other", at)
        assert branch.cycle == cycle
        for shown in range(cycle + 1):
            assert branch.export_snapshot(f"@c{shown}") == trunk.export_snapshot(f"@c{shown}")
    trunk.append(make_content("dialogue", text="unsealed"))
    assert "unsealed" not in said(trunk.fork("other"), "@w")
    assert "unsealed" in said(trunk.fork("other", "@w"), "@w")


def test_branches_go_their_own_ways(trunk):
    before = trunk.export()
    branch = trunk.fork("other", "@t-1")
    turn(branch, "elsewhere")
    assert trunk.export() == before
    turn(trunk, "elsewhere")
    # The same words at the same place, yet not the same block.
    assert branch.select("^seq .mt:depth(1) .cb") != trunk.select("^seq .mt:depth(1) .cb")
    assert Session.replay(branch.records).export() == branch.export()


def test_a_branch_shares_its_contents(trunk):
    branch = trunk.fork("other", "@t-1")
    shared = [record for record in branch.records if getattr(record, "content", None)]
    assert shared
    assert all(any(r is other for other in trunk.records) for r in shared)


def test_turns_are_appended_in_order(trunk):
    branch = trunk.fork("other", "@t-2")
    turn(branch, "b1")
    turn(branch, "b2")
    turn(trunk, "t1")
    before = said(trunk)
    done = merge(trunk, branch, "other")
    assert (done.turns, done.conflicts, done.left) == (2, [], 0)
    assert said(trunk) == [*before, "b1", "b2"]
    assert trunk.cycle == 7
    assert Session.replay(trunk.records).export() == trunk.export()
    with pytest.raises(MergeError, match="not here"):
        merge(trunk, branch, "other")
    turn(branch, "b3")
    assert merge(trunk, branch, "other").turns == 1
    assert said(trunk) == [*before, "b1", "b2", "b3"]


def test_what_comes_back_is_not_appended_again(trunk):
    branch = trunk.fork("other")
    turn(trunk, "t1")
    merge(branch, trunk, "talk")
    turn(branch, "b1")
    merge(trunk, branch, "other")
    assert said(trunk)[-2:] == ["t1", "b1"]
    turn(trunk, "t2")
    merge(branch, trunk, "talk")
    assert said(branch)[-3:] == ["t1", "b1", "t2"]


def test_conflicts_are_told(trunk):
    branch = trunk.fork("other")
    for session, word in ((trunk, "here"), (branch, "there")):
        session.edit("q1", make_content("dialogue", text=word))
        session.set("law", priority=len(word))
        turn(session, word, id="same")
    trunk.annotate("q2", "pinned")
    branch.annotate("q2", "skip", "no longer true")
    branch.commit()
    merged = merge(trunk, branch, "other")
    assert {c["kind"]: c["id"] for c in merged.conflicts} == {
        "edited": "q1", "set": "law", "renamed": "same", "annotated": "q2",
    }  # fmt: skip
    texts = trunk.compile().messages
    assert any("there" in m.content for m in texts)
    assert not any("q2" in m.content for m in texts)
    assert Merged.recorded(trunk.records[-1]) == merged
    assert Session.replay(trunk.records).export() == trunk.export()


def test_what_has_no_place_is_left_out_and_told(trunk):
    branch = trunk.fork("other")
    target = "law"
    trunk.apply(trunk.plan_remove(target))
    trunk.commit()
    branch.edit(target, make_content("instruction", text="a new law"))
    turn(branch, "b1", references=(target,))
    merged = merge(trunk, branch, "other")
    assert [c["kind"] for c in merged.conflicts] == ["left_out", "reference_gone"]
    assert said(trunk)[-1] == "b1"


def test_blocks_beside_the_branchs_own_turns(trunk):
    branch = trunk.fork("other")
    turn(branch, "b1")
    beside = branch.seals[-1].turn
    turn(trunk, "t1")
    branch.append(make_content("output", text="about b1"), Placement(parent=beside, offset=1))
    branch.apply(branch.plan_group(Placement(id="box", parent=beside, offset=2)))
    turn(branch, "in the box", parent="box")
    assert merge(trunk, branch, "other").conflicts == []
    assert said(trunk)[-3:] == ["b1", "about b1", "in the box"]


def test_authors_stay(trunk):
    branch = trunk.fork("other")
    branch.author = "bob"
    turn(branch, "b1")
    trunk.author = "alice"
    merge(trunk, branch, "other")
    assert [record.author for record in trunk.records[-3:]] == ["bob", "bob", "alice"]


def test_refusals_change_nothing(trunk, clock):
    branch = trunk.fork("other")
    turn(branch, "b1")
    trunk.append(make_content("dialogue", text="at work"))
    before = trunk.export()
    with pytest.raises(MergeError, match="active head"):
        merge(trunk, branch, "other")
    with pytest.raises(MergeError, match="shares no beginning"):
        merge(trunk, Session.new("stranger", clock=ManualClock(5)), "stranger")
    assert trunk.export() == before


def test_a_budget_holds_for_a_merge(clock):
    trunk = Session.new("s", clock=clock, counter=OneEach(), budget=TokenBudget(2, "reject"))
    turn(trunk, "one")
    branch = trunk.fork("other")
    turn(branch, "two")
    turn(trunk, "three")
    with pytest.raises(BudgetExceededError):
        merge(trunk, branch, "other")


def act(actor: Actor, session: Session, acts: int) -> None:
    actor.session, mine = session, actor.session
    actor.run(acts)
    actor.session = mine


_OTHER_PROCESS = """
import json, sys
from indexer.sessions import Session
for line in sys.stdin:
    print(json.dumps(Session.replay(json.loads(line)).export().decode()), flush=True)
"""

Elsewhere = Callable[[Session], str]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    """Replays a log in another process, under another hash seed, and gives the export there."""
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER_PROCESS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={"PYTHONHASHSEED": "4242", "PATH": "", "TZ": "Asia/Kathmandu"},
    ) as process:  # fmt: skip
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def replayed(session: Session) -> str:
            stdin.write(json.dumps([record.to_json() for record in session.records]) + "\n")
            stdin.flush()
            return str(json.loads(stdout.readline()))

        yield replayed
        stdin.close()


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 3), st.integers(0, 25), st.integers(0, 25))
def test_fork_edit_merge_replay(
    elsewhere: Elsewhere, seed: int, back: int, ours: int, theirs: int
) -> None:
    """What was sealed stays, all turns are there, and another process replays the same bytes."""
    actor = Actor(seed)
    actor.run(25)
    here = actor.session
    at = f"@c{max(here.cycle - back, 0)}"
    branch = here.fork("branch", at)
    act(actor, here, ours)
    act(actor, branch, theirs)
    here.commit()
    branch.commit()
    before = [here.export_snapshot(f"@c{c}") for c in range(here.cycle + 1)]
    branch_log, cycle = branch.export(), here.cycle
    done = merge(here, branch, "branch")
    assert done.turns == branch.cycle - int(at[2:])
    assert here.cycle == cycle + done.turns
    assert [here.export_snapshot(f"@c{c}") for c in range(cycle + 1)] == before
    assert branch.export() == branch_log
    for session in (here, branch):
        assert elsewhere(session) == session.export().decode()
    # Going on after that, and once more: only what is new comes.
    act(actor, branch, 8)
    turns = branch.commit() - int(at[2:]) - done.turns
    here.commit()
    assert merge(here, branch, "branch").turns == turns
    assert elsewhere(here) == here.export().decode()
