"""A long pass under a service: short pieces, between which others have their turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.clock import SystemClock
from indexer.core.tree import Tree
from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import CHUNK, one_pass
from indexer.engine.make.pace import FIRST, LONG, Pace
from indexer.regenerate.plan import Rules, Step, stale_steps
from tests.support.engines import Engine

FILES = 150


class SlowClock(SystemClock):
    """A machine on which every look at the clock takes long."""

    def __init__(self, takes: float) -> None:
        self.now, self.takes = 0.0, takes

    def monotonic(self) -> float:
        """Later by as much with every look."""
        self.now += self.takes
        return self.now


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A workspace with some files, under a service."""
    for number in range(FILES):
        (tmp_path / f"f{number:03}.py").write_text(f"def f{number}():\n    pass\n")
    with Engine.create(tmp_path) as opened:
        opened.scan()
        opened.serve(lambda work: work())
        yield opened


def test_a_piece_is_as_long_as_may_be_waited_for() -> None:
    slow, fast = Pace(SlowClock(2 * LONG).monotonic, CHUNK), Pace(SlowClock(0).monotonic, CHUNK)
    sizes = []
    for pace in (slow, fast):
        for _ in range(12):
            with pace.piece() as size:
                sizes.append(size)
    assert sizes[:12] == [16, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert sizes[12:] == [16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000, 1000, 1000]


def test_one_step_makes_no_more_than_fits_its_time(engine: Engine) -> None:
    engine.clock = SlowClock(2 * LONG)
    run = engine.begin_regenerate()
    made, steps = 0, []
    while not run.step():
        steps.append(len(run.outcome.events) - made)
        made += steps[-1]
    run.close()
    # Every piece took too long, so each was half as large as the one before it.
    assert steps[:4] == [FIRST, FIRST // 2, FIRST // 4, FIRST // 8]
    assert run.document()["regenerated"] + run.document()["reused"] == FILES + 1
    assert engine.regenerate()["unchanged"]


def test_what_changes_between_two_steps_is_not_made_from_the_past(engine: Engine) -> None:
    engine.clock = SlowClock(2 * LONG)
    run = engine.begin_regenerate()
    assert not run.step()
    last = engine.root / f"f{FILES - 1:03}.py"
    last.write_text("def other():\n    pass\n")
    (engine.root / "f100.py").unlink()
    engine.reconcile([(last.name, False), ("f100.py", False)])
    while not run.step():
        pass
    run.close()
    assert run.document()["failed"] == []
    (head,) = engine.get_head(last.name, frame_type="outline")["heads"]
    assert head["freshness"] == "fresh"
    assert engine.regenerate()["regenerated"] + engine.regenerate()["reused"] <= 1


def test_looking_on_costs_no_look_at_what_is_done(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pieces of a large folder must not begin at its first file each time."""
    walks: list[str] = []

    def counted(tree: Tree, rules: Rules, *given: Any, **named: Any) -> Iterator[Step]:
        walks.append(rules.type)
        return stale_steps(tree, rules, *given, **named)

    monkeypatch.setattr("indexer.engine.make.one_pass.stale_steps", counted)
    one = one_pass(engine, engine.frames.types["outline"], Outcome())
    while one.run_some(engine.tree, 10):
        pass
    one.close()
    # Once through, and once more to see that nothing is left.
    assert walks == ["outline", "outline"]
