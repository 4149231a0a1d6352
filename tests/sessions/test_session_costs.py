"""What one more turn costs, counted in calls: the same after 20 turns and after 400."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest

from indexer.core.clock import ManualClock
from indexer.sessions import Placement, PrunePolicy, Session, make_content
from indexer.sessions.stored import changed_rows


def talk(turns: int, prune: PrunePolicy | None = None) -> Session:
    session = Session.new("talk", clock=ManualClock(10**18), prune=prune)
    for number in range(turns):
        session.append(make_content("dialogue", text=f"question {number}"))
        session.append(make_content("output", text="seen"), Placement(offset=1, ttl=3))
        session.append(make_content("dialogue", role="assistant", text=f"answer {number}"))
        session.commit()
    return session


def calls(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    # Missing in the stubs.
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def append(session: Session) -> object:
    return session.append(make_content("dialogue", text="one more"))


def commit(session: Session) -> object:
    return changed_rows(session.state, session.apply(session.plan_commit()))


ACTS: dict[str, Callable[[Session], object]] = {
    "append": append,
    "commit": commit,
    "select the newest turn": lambda session: session.select("@t0 .mt:last .cb"),
    "select by depth": lambda session: session.select("@t0 .mt:depth(1-3) .cb"),
    "select by id": lambda session: session.select(f"@t0 #{session.seals[-1].turn} .cb"),
    "select the active head": lambda session: session.select("@w ^ah .cb"),
}
POLICIES = [None, PrunePolicy(max_nodes=12, protect_turns=1)]


@pytest.mark.parametrize("prune", POLICIES, ids=["all kept", "pruned"])
def test_one_more_turn_does_not_cost_more(prune: PrunePolicy | None) -> None:
    short, long = talk(20, prune), talk(400, prune)
    for act in ("append", "commit", *ACTS):
        few, many = (calls(lambda s=s, act=act: ACTS[act](s)) for s in (short, long))
        # A bisection takes a step more now and then.
        assert many <= few * 1.15 + 8, (act, few, many)
    # What grows is counted as growing: this is no test that always holds.
    assert calls(lambda: long.select("*")) > 5 * calls(lambda: short.select("*")) or prune
