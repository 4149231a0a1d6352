"""What a service loads is held from the collector, which runs from then on."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.service.run import run_service


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    thresholds = gc.get_threshold()
    gc.disable()
    yield
    gc.enable()
    gc.set_threshold(*thresholds)
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def test_only_what_comes_later_is_gone_through(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, loaded = list[bool](), list[Path]([sample])
    gc.set_threshold(700, 10, 10)

    def is_gone_through() -> bool:
        return any(each is loaded for each in gc.get_objects())

    async def serve(*given: object, **named: object) -> None:
        told.extend((gc.isenabled(), is_gone_through()))
        told.append(all(map(int.__gt__, gc.get_threshold(), (700, 10, 10))))

    monkeypatch.setattr("indexer.service.serving.serve", serve)
    assert is_gone_through()
    run_service(sample)
    assert told == [True, False, True]
