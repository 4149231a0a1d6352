"""What is done beside something else ends with it, and gives or fails as it would alone."""

from __future__ import annotations

import threading

import pytest

from indexer.core.beside import beside


def test_both_are_done_at_once_and_what_it_gives_is_there_at_the_end() -> None:
    here, there = threading.Event(), threading.Event()

    def meets() -> bool:
        there.set()
        return here.wait(60)

    with beside(meets) as meeting:
        assert there.wait(60)
        here.set()
        assert meeting()
    assert meeting()


def test_it_fails_where_its_result_is_asked_for() -> None:
    def fails() -> None:
        raise LookupError("gone")

    with beside(fails) as failing:
        pass
    with pytest.raises(LookupError, match="gone"):
        failing()


def test_it_has_ended_where_what_was_done_meanwhile_fails() -> None:
    ended, may_end = list[bool](), threading.Event()

    def waits() -> None:
        ended.append(may_end.wait(60))

    def fails() -> None:
        with beside(waits):
            may_end.set()
            raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        fails()
    assert ended == [True]
