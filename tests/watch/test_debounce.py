"""When to look, with the time passed in."""

from __future__ import annotations

from indexer.watch.debounce import BULK, Debounce, Timing

TIMING = Timing(quiet=1.0, longest=5.0, settle=10.0, longest_settle=60.0)


def debounce(max_pending: int = 1000) -> Debounce:
    return Debounce(TIMING, max_pending)


def test_nothing_pending_is_never_due() -> None:
    fresh = debounce()
    assert not fresh
    assert fresh.deadline() is None
    assert not fresh.is_due(1e9)
    assert fresh.take().paths == {}


def test_due_after_quiet() -> None:
    pending = debounce()
    pending.add("a", False, 100.0)
    assert not pending.is_due(100.9)
    assert pending.is_due(101.0)
    pending.add("b", False, 100.9)
    assert not pending.is_due(101.0)
    assert pending.is_due(101.9)


def test_the_longest_wait_is_bounded_while_changes_keep_coming() -> None:
    pending = debounce()
    for tenth in range(49):
        pending.add("a", False, 100.0 + tenth / 10)
        assert not pending.is_due(100.0 + tenth / 10)
    pending.add("a", False, 105.0)
    assert pending.is_due(105.0)


def test_many_paths_settle_first() -> None:
    pending = debounce()
    for number in range(BULK - 1):
        pending.add(str(number), False, 100.0)
    assert pending.deadline() == 101.0
    pending.add("one more", False, 100.0)
    assert pending.deadline() == 110.0
    for second in range(60):
        pending.add("a", False, 100.0 + second)
    assert pending.deadline() == 160.0


def test_too_much_means_everything() -> None:
    pending = debounce(max_pending=3)
    for name in "abcd":
        pending.add(name, False, 100.0)
    pending.add("e", False, 101.0)
    assert pending.deadline() == 111.0
    taken = pending.take()
    assert taken.everything
    assert taken.paths == {}
    assert not pending


def test_everything_swallows_what_was_pending() -> None:
    pending = debounce()
    pending.add("a", False, 100.0)
    pending.add_everything(101.0)
    assert pending
    assert pending.deadline() == 111.0
    assert pending.take().everything
    pending.add("b", False, 200.0)
    assert not pending.take().everything


def test_deep_wins_over_shallow() -> None:
    pending = debounce()
    pending.add("first deep", True, 100.0)
    pending.add("first deep", False, 100.0)
    pending.add("then deep", False, 100.0)
    pending.add("then deep", True, 100.0)
    pending.add("never", False, 100.0)
    assert pending.take().paths == {"first deep": True, "then deep": True, "never": False}


def test_a_new_round_counts_its_own_time() -> None:
    pending = debounce()
    pending.add("a", False, 100.0)
    pending.take()
    pending.add("b", False, 104.9)
    assert pending.deadline() == 105.9
