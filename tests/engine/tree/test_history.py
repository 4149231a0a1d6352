"""`log` and `diff`: recorded roots, and what lies between any two of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.core.clock import ManualClock
from indexer.engine.tree.history import UnknownRootError
from indexer.store.layout import initialise
from tests.support.engines import Engine


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The same four roots for tests that record no other."""
    with contextlib.contextmanager(opened)(tmp_path_factory.mktemp("history")) as engine:
        yield engine


@pytest.fixture
def engine(workspace: Path) -> Iterator[Engine]:
    """Four roots: A, B, A again, C."""
    yield from opened(workspace)


def opened(workspace: Path) -> Iterator[Engine]:
    initialise(workspace)
    with Engine(workspace, clock=ManualClock(1_700_000_000 * 10**9)) as engine:
        (workspace / "a").write_bytes(b"1")
        (workspace / "d").mkdir()
        (workspace / "d" / "x").write_bytes(b"x")
        engine.scan()
        (workspace / "a").write_bytes(b"2")
        (workspace / "new").write_bytes(b"n")
        engine.reconcile([("a", False), ("new", False)])
        (workspace / "a").write_bytes(b"1")
        (workspace / "new").unlink()
        engine.scan()
        (workspace / "d").rename(workspace / "e")
        engine.scan()
        yield engine


def test_the_log_is_newest_first(still: Engine) -> None:
    roots = still.log()["roots"]
    assert [root["seq"] for root in roots] == [4, 3, 2, 1]
    assert [root["cause"] for root in roots] == ["scan", "scan", "watch", "scan"]
    assert [(r["added"], r["modified"], r["removed"], r["renamed"]) for r in roots] == [
        (2, 0, 2, 1), (0, 1, 1, 0), (1, 1, 0, 0), (4, 0, 0, 0),
    ]  # fmt: skip
    assert roots[0]["at"] == "2023-11-14T22:13:20.000000Z"
    assert roots[1]["root"] == roots[3]["root"], "the same content is the same root"
    assert [root["seq"] for root in still.log(limit=2)["roots"]] == [4, 3]


def test_a_diff_of_neighbours(still: Engine) -> None:
    found = still.diff("@-3", "@-2")
    assert (found["added"], found["modified"], found["removed"]) == (["new"], ["a"], [])


def test_a_diff_backwards(engine: Engine) -> None:
    found = engine.diff("@-2", "@-3")
    assert (found["added"], found["modified"], found["removed"]) == ([], ["a"], ["new"])


def test_a_diff_across_several(engine: Engine) -> None:
    found = engine.diff("@-3", "@-0")
    assert (found["added"], found["removed"]) == (["e", "e/x"], ["d", "d/x"])
    assert found["modified"] == []
    assert found["renamed"] == [{"old": "d", "new": "e", "kind": "directory"}]


@pytest.mark.parametrize(("old", "new"), [("@-0", "@-0"), ("@-3", "@-1"), ("@-1", "@-3")])
def test_a_diff_of_the_same_content_is_empty(still: Engine, old: str, new: str) -> None:
    found = still.diff(old, new)
    assert not any((found["added"], found["modified"], found["removed"], found["renamed"]))
    assert found["old"] == found["new"]


def test_roots_by_prefix(engine: Engine) -> None:
    roots = engine.log()["roots"]
    found = engine.diff(roots[2]["root"][:8], roots[0]["root"])
    assert (found["old"], found["new"]) == (roots[2]["root"], roots[0]["root"])
    # An id recorded twice is still one root.
    assert engine.diff(roots[3]["root"][:10], "@-3")["added"] == []


@pytest.mark.parametrize("text", ["@-4", "@-999999999", "00000000", "abc", "HEAD", "@", "@-", "",
                                  "@-1\n", "\x00", "-1", "@--1"])  # fmt: skip
def test_an_unknown_root_is_a_clear_error(still: Engine, text: str) -> None:
    with pytest.raises(UnknownRootError) as caught:
        still.diff(text, "@-0")
    assert caught.value.exit_code == 2
    assert caught.value.hint
    with pytest.raises(UnknownRootError):
        still.diff("@-0", text)


def test_an_ambiguous_root_lists_the_candidates(engine: Engine) -> None:
    with engine.database.transaction() as connection:
        for seq, digit in ((1, "0"), (2, "1")):
            forged = bytes.fromhex("abcdef" + digit * 26)
            connection.execute("UPDATE root_log SET root = ? WHERE seq = ?", [forged, seq])
    with pytest.raises(UnknownRootError, match="ambiguous"):
        engine.diff("abcdef", "@-0")
    assert engine.diff("abcdef1", "@-0")["old"] == "abcdef" + "1" * 26


def test_nothing_recorded_yet(workspace: Path) -> None:
    with Engine.create(workspace) as engine:
        assert engine.log() == {"roots": [], "lost": []}
        with pytest.raises(UnknownRootError, match="nothing"):
            engine.diff("@-0", "@-0")
