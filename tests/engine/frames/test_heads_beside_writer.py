"""Heads are read while another thread adds some."""

from __future__ import annotations

import gc
from typing import Any, cast

from indexer.core.frames import Action, BasisHash, BodyHash, FrameId, Head
from indexer.engine.frames.heads import HeadCache

HEAD = Head(
    FrameId(b"f" * 32), BasisHash(b"b" * 32), BodyHash(b"c" * 32), None, None, Action.GENERATED
)
SLOT = ("outline", "merkle:outline")


def test_a_head_that_comes_while_all_are_listed_does_no_harm() -> None:
    cache = HeadCache(*cast(Any, (None, None, None)))
    heads = {f"path{number}": HEAD for number in range(5000)}
    cache._slots, cache._notes = {SLOT: heads}, {}

    # A collection of garbage may run code, and let another thread run: here it adds a head.
    def writes(phase: str, info: dict[str, int]) -> None:
        heads[f"new{len(heads)}"] = HEAD

    before = gc.get_threshold()
    gc.callbacks.append(writes)
    gc.set_threshold(10)
    try:
        ((slot, live),) = cache.live()
        cache.heads_at("path1")
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(writes)
    assert slot == SLOT
    assert len(live) >= 5000
