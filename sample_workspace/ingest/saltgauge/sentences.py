"""Parse and write the line protocol of the stations (docs/protocol.md)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import reduce

from saltgauge.readings import Quantity, Reading

PREFIX = "$SG"


class SentenceError(ValueError):
    """A line that is no valid sentence; says which line and why."""

    def __init__(self, line: str, why: str) -> None:
        super().__init__(f"{why}: {line!r}")
        self.line = line
        self.why = why


def checksum(body: str) -> str:
    """Return the XOR of all bytes of the body as two upper-case hex digits."""
    return f"{reduce(lambda total, byte: total ^ byte, body.encode('ascii'), 0):02X}"


def parse(line: str) -> Reading:
    """Turn one sentence into a reading, or raise SentenceError."""
    text = line.strip()
    body, star, given = text.partition("*")
    if not star or not body.startswith(PREFIX + ","):
        raise SentenceError(text, "not a sentence")
    if not body.isascii() or checksum(body) != given:
        raise SentenceError(text, "wrong checksum")
    fields = body.split(",")
    if len(fields) != 5:
        raise SentenceError(text, f"expected 5 fields, found {len(fields)}")
    _, station, at, code, value = fields
    try:
        return Reading(station, datetime.fromisoformat(at), Quantity(code), float(value))
    except ValueError as error:
        raise SentenceError(text, str(error)) from error


def write(reading: Reading) -> str:
    """Return the sentence for a reading, with its checksum."""
    at = reading.at.isoformat(timespec="minutes")
    body = f"{PREFIX},{reading.station},{at},{reading.quantity.value},{reading.value:.3f}"
    return f"{body}*{checksum(body)}"


def parse_all(lines: Iterable[str], rejected: list[SentenceError]) -> Iterator[Reading]:
    """Yield the readings of all valid lines; collect the others with their reasons."""
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        try:
            yield parse(line)
        except SentenceError as error:
            rejected.append(error)
