"""Checks of the line protocol; run with `python -m unittest checks/sentence_checks.py`."""

import unittest
from datetime import UTC, datetime

from saltgauge.readings import Quantity, Reading
from saltgauge.sentences import SentenceError, checksum, parse, parse_all, write

LEVEL = Reading("HRB1", datetime(2031, 3, 11, 6, 30, tzinfo=UTC), Quantity.LEVEL, 7.215)


class SentenceChecks(unittest.TestCase):
    """What the stations send is read back as they meant it."""

    def test_round_trip(self) -> None:
        """A written sentence parses to the same reading."""
        self.assertEqual(parse(write(LEVEL)), LEVEL)

    def test_one_flipped_digit_is_noticed(self) -> None:
        """The checksum covers the value."""
        with self.assertRaisesRegex(SentenceError, "wrong checksum"):
            parse(write(LEVEL).replace("7.215", "7.216"))

    def test_unknown_quantity_names_the_line(self) -> None:
        """The error carries the line, so that the log can show it."""
        body = "$SG,HRB1,2031-03-11T06:30+00:00,XX,1.000"
        with self.assertRaises(SentenceError) as caught:
            parse(f"{body}*{checksum(body)}")
        self.assertIn(body, caught.exception.line)

    def test_bad_lines_do_not_stop_good_ones(self) -> None:
        """A file with a damaged line still yields the others."""
        rejected: list[SentenceError] = []
        lines = ["# header", write(LEVEL), "line noise", write(LEVEL)]
        self.assertEqual(len(list(parse_all(lines, rejected))), 2)
        self.assertEqual([error.line for error in rejected], ["line noise"])


if __name__ == "__main__":
    unittest.main()
