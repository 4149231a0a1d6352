"""Mark readings that the water cannot have produced."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from saltgauge.readings import Quality, Quantity, Reading


@dataclass(frozen=True, slots=True)
class Limits:
    """How fast a level may move and how long a station may be silent."""

    max_rate_m_per_minute: float = 0.08
    max_gap: timedelta = timedelta(minutes=20)


def check(readings: Iterable[Reading], limits: Limits | None = None) -> Iterator[Reading]:
    """Yield the readings in order, marking spikes and the first one after a gap."""
    limits = limits or Limits()
    last_good: dict[tuple[str, Quantity], Reading] = {}
    for reading in readings:
        key = (reading.station, reading.quantity)
        judged = reading.marked(judge(reading, last_good.get(key), limits))
        if judged.usable:
            last_good[key] = judged
        yield judged


def judge(reading: Reading, before: Reading | None, limits: Limits) -> Quality:
    """Compare one reading with the last good one of the same sensor."""
    if before is None:
        return Quality.GOOD
    passed = reading.at - before.at
    if passed > limits.max_gap:
        return Quality.AFTER_GAP
    if reading.quantity is not Quantity.LEVEL:
        return Quality.GOOD
    minutes = max(passed.total_seconds() / 60, 1.0)
    rate = abs(reading.value - before.value) / minutes
    return Quality.SPIKE if rate > limits.max_rate_m_per_minute else Quality.GOOD
