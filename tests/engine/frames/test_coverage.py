"""Coverage and counts: what an edit leaves equals one made from nothing, and costs its path."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from indexer.engine.frames import coverage as coverage_module
from indexer.engine.frames import states as states_module
from indexer.engine.frames.coverage import Coverage, Known
from indexer.engine.frames.states import MissingCounts, StateCounts, States
from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import one_pass
from indexer.engine.tree.scan import all_of
from tests.support.engines import Engine
from tests.support.space import with_index

DECLARED = '[types.outline]\nscope = {}\nfile = "outline"\nfolder = "summarize"\n'


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = tmp_path / "ws"
    for number in range(24):
        place = root / f"pkg{number % 3}" / f"mod{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"file{number}.py").write_text(f"def fun{number}():\n    return {number}\n")
    (root / "README.md").write_text("# Read me\n\nFirst.\n")
    with Engine(with_index(root)) as made:
        made.scan()
        made.serve()
        made.regenerate()
        made.add_agent("reviewer", "writer")
        yield made


def look(engine: Engine) -> None:
    engine.reconcile(all_of(engine.root, ""))


def everything(engine: Engine, coverage: Coverage) -> dict[str, Known | None]:
    return {path: coverage.known(path) for path, _ in engine.tree.walk()}


def expected(engine: Engine) -> dict[str, Known | None]:
    made = Coverage(lambda: engine.frames)
    made.bring_up_to(engine.tree)
    return everything(engine, made)


def test_everything_fresh(engine: Engine) -> None:
    coverage = Coverage(lambda: engine.frames)
    coverage.bring_up_to(engine.tree)
    top = coverage.known("")
    assert top is not None
    assert top.nodes == engine.tree.root.totals.nodes
    assert top.counts == {"fresh": top.nodes, "stale": 0, "unknown": 0, "unmanaged": 0, "none": 0}
    bodies = engine.frames.store.bodies(
        head.content for heads in engine.frames.heads.slots.values() for _, head in heads.items()
    )
    heads = [head for heads in engine.frames.heads.slots.values() for _, head in heads.items()]
    assert top.tokens == sum(-(-len(bodies[head.content]) // 4) for head in heads)
    assert top.tokens == sum_of(engine, coverage)


def sum_of(engine: Engine, coverage: Coverage) -> int:
    """The tokens of the root's children and of its own frame."""
    below = coverage.heaviest("", 1000)
    head = next(iter(engine.frames.heads.heads_at("").values()))
    own = -(-len(engine.frames.store.bodies([head.content])[head.content]) // 4)
    return sum(child.tokens for child in below) + own


def noting_what_is_judged(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths whose freshness a module asks for from now on."""
    judged: list[str] = []
    really = module.freshness_of

    def noted(frames: Any, tree: Any, path: str, *rest: Any) -> Any:
        judged.append(path)
        return really(frames, tree, path, *rest)

    monkeypatch.setattr(module, "freshness_of", noted)
    return judged


def test_an_edit_makes_its_path_stale_and_nothing_else(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    coverage = Coverage(lambda: engine.frames)
    coverage.bring_up_to(engine.tree)
    judged = noting_what_is_judged(coverage_module, monkeypatch)
    (engine.root / "pkg1" / "mod0" / "file4.py").write_text("def other():\n    pass\n")
    look(engine)
    coverage.bring_up_to(engine.tree)
    assert sorted(judged) == ["", "pkg1", "pkg1/mod0", "pkg1/mod0/file4.py"]
    assert coverage.stale(10) == ["", "pkg1", "pkg1/mod0", "pkg1/mod0/file4.py"]
    assert coverage.stale(2) == ["", "pkg1"]
    assert coverage.stale(10, below="pkg1/mod0") == ["pkg1/mod0", "pkg1/mod0/file4.py"]
    assert coverage.stale(10, below="pkg2") == []
    top = coverage.known("")
    assert top is not None
    assert (top.state, top.counts["stale"]) == ("stale", 4)
    judged.clear()
    engine.regenerate()
    coverage.bring_up_to(engine.tree)
    assert set(judged) <= {"", "pkg1", "pkg1/mod0", "pkg1/mod0/file4.py"}
    assert coverage.stale(10) == []
    judged.clear()
    coverage.bring_up_to(engine.tree)
    assert judged == []


def test_a_note_goes_stale_and_a_removed_file_takes_its_own_along(engine: Engine) -> None:
    coverage = Coverage(lambda: engine.frames)
    engine.put_frame("README.md", "Look here.", frame_type="note", agent="reviewer")
    coverage.bring_up_to(engine.tree)
    known = coverage.known("README.md")
    assert known is not None
    assert known.state == "fresh"
    (engine.root / "README.md").write_text("# Other\n")
    look(engine)
    engine.regenerate()
    coverage.bring_up_to(engine.tree)
    assert coverage.stale(10) == ["README.md"]
    (engine.root / "README.md").unlink()
    look(engine)
    engine.regenerate()
    coverage.bring_up_to(engine.tree)
    assert coverage.known("README.md") is None
    assert coverage.stale(10) == []
    assert everything(engine, coverage) == expected(engine)


def test_a_file_without_frame_is_counted(engine: Engine) -> None:
    (engine.root / "merkle.toml").write_text(DECLARED.format('["pkg0"]'))
    look(engine)
    engine.frames.declared.refresh()
    coverage = Coverage(lambda: engine.frames)
    coverage.bring_up_to(engine.tree)
    other = coverage.known("pkg1")
    assert other is not None
    assert (other.state, other.tokens) == ("unmanaged", 0)
    new = coverage.known("merkle.toml")
    assert new is not None
    assert (new.state, new.counts["none"]) == ("none", 1)


def counted_anew(engine: Engine) -> States:
    """The states as they are counted without having been counted before."""
    return StateCounts(engine.frames).of(engine.tree, None)


def test_states_after_an_edit_are_judged_on_its_path_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = StateCounts(engine.frames)
    counts.of(engine.tree, None)
    judged = noting_what_is_judged(states_module, monkeypatch)
    (engine.root / "pkg1" / "mod0" / "file4.py").write_text("def other():\n    pass\n")
    look(engine)
    states = counts.of(engine.tree, None)
    assert sorted(judged) == ["", "pkg1", "pkg1/mod0", "pkg1/mod0/file4.py"]
    assert states.totals["stale"] == 4
    assert [one["path"] for one in states.stale] == sorted(judged)
    assert states == counted_anew(engine)


def test_what_moved_is_judged_again_after_a_look_that_was_broken_off(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, coverage = StateCounts(engine.frames), Coverage(lambda: engine.frames)
    counts.of(engine.tree, None)
    coverage.bring_up_to(engine.tree)
    (engine.root / "pkg1" / "mod0" / "file4.py").write_text("def other():\n    pass\n")
    look(engine)

    def broken_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(engine.frames, "load_notes", broken_off)
        with pytest.raises(KeyboardInterrupt):
            counts.of(engine.tree, None)
        with pytest.raises(KeyboardInterrupt):
            coverage.bring_up_to(engine.tree)
    assert counts.of(engine.tree, None) == counted_anew(engine)
    coverage.bring_up_to(engine.tree)
    assert everything(engine, coverage) == expected(engine)


def test_states_tell_each_of_several_notes_and_of_files_that_are_gone(engine: Engine) -> None:
    counts = StateCounts(engine.frames)
    counts.of(engine.tree, None)
    for text in ("Look here.", "And there."):
        engine.put_frame("README.md", text, frame_type="note", agent="reviewer")
    engine.put_frame("pkg0", "All of it.", frame_type="note", agent="reviewer")
    assert counts.of(engine.tree, None).types["note"]["fresh"] == 3
    (engine.root / "README.md").unlink()
    (engine.root / "pkg1" / "mod0" / "file4.py").unlink()
    look(engine)
    states = counts.of(engine.tree, None)
    assert states == counted_anew(engine)
    # What a generator made of a file without notes is nobody's concern.
    assert states.types["note"] | {"fresh": 1, "orphaned": 2} == states.types["note"]
    assert states.types["outline"]["orphaned"] == 1
    assert [one["path"] for one in states.stale[:2]] == ["README.md", "README.md"]


def test_what_is_missing_is_followed_through_a_pass(engine: Engine) -> None:
    (engine.root / "merkle.toml").write_text(
        DECLARED.format('["."]') + DECLARED.format('["."]').replace("outline]", "second]")
    )
    look(engine)
    engine.frames.declared.refresh()
    missing, seen = MissingCounts(engine.frames), list[int]()
    current = one_pass(engine, engine.frames.types["second"], Outcome())
    # Whose frame cannot be made.
    (engine.root / "pkg1" / "mod0" / "file4.py").unlink()
    more = True
    while more:
        assert missing.of(engine.tree) == MissingCounts(engine.frames).of(engine.tree)
        seen.append(missing.of(engine.tree)["second"])
        more = current.run_some(engine.tree, 3)
    assert seen[0] == engine.tree.root.totals.nodes
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) > 5
    assert seen[-1] == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2, 3))])
def test_what_is_kept_equals_what_is_made_from_nothing(engine: Engine, seed: int) -> None:
    chosen = random.Random(seed)
    coverage, counts = Coverage(lambda: engine.frames), StateCounts(engine.frames)
    missing = MissingCounts(engine.frames)
    coverage.bring_up_to(engine.tree)
    for step in range(25):
        files = sorted(p for p in engine.root.rglob("*.py") if ".merkle" not in p.parts)
        victim = chosen.choice(files)
        act = chosen.randrange(8)
        if act == 0:
            victim.write_text(f"def edited{step}():\n    return {step}\n")
        elif act == 1 and len(files) > 5:
            victim.unlink()
        elif act == 2:
            victim.rename(victim.parent / f"moved{step}.py")
        elif act == 3:
            folder = engine.root / f"new{step % 3}" / "deep"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"file{step}.py").write_text("x = 1\n")
        elif act == 4:
            path = victim.relative_to(engine.root).as_posix()
            engine.put_frame(path, f"note {step}", frame_type="note", agent="reviewer")
        elif act == 5:
            engine.regenerate()
        elif act == 6:
            engine.invalidate(chosen.choice(["", "pkg1"]))
        else:
            scope = chosen.choice(['["pkg0"]', '["pkg1", "pkg2"]', '["."]'])
            (engine.root / "merkle.toml").write_text(DECLARED.format(scope))
        look(engine)
        engine.frames.declared.refresh()
        if chosen.random() < 0.7:
            coverage.bring_up_to(engine.tree)
            assert everything(engine, coverage) == expected(engine), (seed, step, act)
            assert counts.of(engine.tree, None) == counted_anew(engine), (seed, step, act)
            assert missing.of(engine.tree) == MissingCounts(engine.frames).of(engine.tree)
            unjudged = counts.of(None, engine.tree)
            assert unjudged == StateCounts(engine.frames).of(None, engine.tree)
            assert unjudged.totals["unknown"] == unjudged.totals["total"]
