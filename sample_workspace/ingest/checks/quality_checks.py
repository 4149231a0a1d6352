"""Checks of the quality marks; run with `python -m unittest checks/quality_checks.py`."""

import unittest
from datetime import UTC, datetime, timedelta

from saltgauge.quality import check
from saltgauge.readings import Quality, Quantity, Reading

START = datetime(2031, 3, 11, 6, 0, tzinfo=UTC)


def level(minute: int, value: float) -> Reading:
    """Return a level of the inner harbour so many minutes after the start."""
    return Reading("HRB1", START + timedelta(minutes=minute), Quantity.LEVEL, value)


class QualityChecks(unittest.TestCase):
    """Spikes and gaps are marked, slow change is not."""

    def marks(self, *readings: Reading) -> list[Quality]:
        """Return the quality of each reading after the check."""
        return [reading.quality for reading in check(readings)]

    def test_slow_change_is_good(self) -> None:
        """Three centimetres a minute is an ordinary spring tide."""
        self.assertEqual(self.marks(level(0, 5.0), level(5, 5.15)), [Quality.GOOD] * 2)

    def test_a_spike_is_not_the_new_normal(self) -> None:
        """The reading after a spike is compared with the one before it."""
        marks = self.marks(level(0, 5.0), level(5, 9.0), level(10, 5.1))
        self.assertEqual(marks, [Quality.GOOD, Quality.SPIKE, Quality.GOOD])

    def test_first_reading_after_a_gap(self) -> None:
        """After half an hour of silence the rate says nothing."""
        self.assertEqual(self.marks(level(0, 5.0), level(30, 6.4))[1], Quality.AFTER_GAP)


if __name__ == "__main__":
    unittest.main()
