"""Records as checksummed lines, and the portable pack: one file of them for export and import.

A line is `<number> <self>:<chain> <payload>`. `self` vouches for the line alone, so that one bad
record does not take the others with it; `chain` also covers every record before it, so that a
removed, swapped or replaced one is noticed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from indexer.core.canonical import canonical_json
from indexer.errors import UncheckedError, UsageError
from indexer.store.atomic import replacing

MAX_RECORD_BYTES: Final = 64 << 20
MAX_LINE_BYTES: Final = MAX_RECORD_BYTES + 80
_MAX_DEPTH: Final = 200
_LINE: Final = re.compile(rb"([1-9][0-9]{0,17}) ([0-9a-f]{16}):([0-9a-f]{32}) ")
_HEADER: Final = re.compile(rb"merkle pack ([1-9][0-9]{0,8})\n")
_FORMAT: Final = 1
SEGMENT_HEADER: Final = re.compile(rb"merkle journal 1 ([1-9][0-9]{0,17}) ([0-9a-f]{32})\n")
# Quotes are escaped inside a payload, so this finds the start of a record and nothing else.
_START_OF_RECORD: Final = re.compile(rb'(?=[1-9][0-9]{0,17} [0-9a-f]{16}:[0-9a-f]{32} \{")')
_START_BYTES: Final = 51


class RecordError(UsageError):
    """A record cannot be journalled as it is; nothing was written."""

    code = "bad_record"


class PackError(UsageError):
    """The file is no pack that can be read, or the records make none; nothing was changed."""

    code = "bad_pack"


class PackFileError(UncheckedError):
    """The operating system would not let the pack be read or written."""

    code = "pack_file"


class Place(NamedTuple):
    """A point in the journal: the last record before it and that record's chain."""

    number: int
    chain: bytes


START: Final = Place(0, b"0" * 32)


class Record(NamedTuple):
    """One line whose own checksum holds."""

    number: int
    digest: bytes
    chain: bytes
    payload: bytes

    def misfit(self, before: Place) -> str | None:
        """Why this record cannot come right after `before`, if it cannot."""
        if self.number != before.number + 1:
            return f"record {self.number} where record {before.number + 1} belongs"
        if self.chain != _chain(before.chain, self.digest):
            return f"record {self.number} does not follow from the records before it"
        return None


class Problem(NamedTuple):
    """Something wrong in a journal, and where."""

    path: Path
    line: int
    offset: int
    message: str
    torn: bool = False
    """Whether it looks like a write that was cut short, hence never acknowledged."""

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}, byte {self.offset}: {self.message}"


def payload_of(record: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a record, or a refusal."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise RecordError('a record is an object with a string "kind"')
    payload = canonical_json(record)
    if len(payload) > MAX_RECORD_BYTES:
        raise RecordError(
            f"the record has {len(payload):,} bytes; the limit is {MAX_RECORD_BYTES:,}",
            hint="store less at once",
        )
    level: list[Any] = [record]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, dict | list | tuple)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return payload
    # Whoever reads it back may have less stack left than whoever wrote it.
    raise RecordError(f"the record is nested more than {_MAX_DEPTH} levels deep")


def value_of(record: Record) -> dict[str, Any]:
    """The object a record holds; ValueError when it holds none."""
    try:
        value = json.loads(record.payload)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def line_after(before: Place, payload: bytes) -> tuple[bytes, Place]:
    """The line of the record that follows `before`, and the place after it."""
    number = before.number + 1
    digest = hashlib.sha256(b"%d %b" % (number, payload)).digest()
    chain = _chain(before.chain, digest)
    line = b"%d %b:%b %b\n" % (number, digest.hex()[:16].encode(), chain, payload)
    return line, Place(number, chain)


def parse_line(line: bytes) -> Record | None:
    """The record of a line without its newline, if it is intact by itself."""
    match = _LINE.match(line)
    if match is None:
        return None
    number, own, chain = match.groups()
    payload = line[match.end() :]
    digest = hashlib.sha256(b"%b %b" % (number, payload)).digest()
    if digest.hex()[:16].encode() != own:
        return None
    return Record(int(number), digest, chain, payload)


def _chain(previous: bytes, digest: bytes) -> bytes:
    return hashlib.sha256(previous + digest.hex().encode()).hexdigest()[:32].encode()


def walk_segment(
    path: Path, place: Place | None, end: int | None = None, *, final: bool = False
) -> Generator[Record | Problem, None, Place | None]:
    """Records and problems of a segment; without `place` its header is believed."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size if end is None else end
        line = offset = 0
        while line == 0 or offset < size:
            text = file.readline(min(MAX_LINE_BYTES, size - offset))
            line += 1
            record = parse_line(text[:-1]) if text.endswith(b"\n") else None
            header = SEGMENT_HEADER.fullmatch(text) if line == 1 else None
            if header:
                stated = Place(int(header[1]) - 1, header[2])
                if place is not None and stated != place:
                    yield Problem(path, 1, 0, "the segment does not continue the one before")
                place = stated
            elif record and line > 1:
                reason = record.misfit(place) if place else None
                if reason:
                    yield Problem(path, line, offset, reason)
                yield record
                place = Place(record.number, record.chain)
            else:
                rescued = list(_rescue(text))
                yield _bad_line(
                    path, line, offset, text, rescued, final and offset + len(text) >= size
                )
                yield from rescued
                place = None
            if not text:
                break
            offset += len(text)
    return place


def _bad_line(
    path: Path, line: int, offset: int, text: bytes, rescued: list[Record], last: bool
) -> Problem:
    # An intact record in it was written whole: then this is damage, unless only its newline lacks.
    torn = bool(text) and line > 1 and last and (not rescued or parse_line(text) is not None)
    if torn:
        message = f"a write was cut short, {len(text)} bytes of it were left"
    elif line == 1:
        message = "the header is damaged"
    elif match := _LINE.match(text):
        message = f"record {int(match[1])} is damaged"
    else:
        message = "the line is damaged" if text else "the file ends early"
    return Problem(path, line, offset, message, torn)


def _rescue(text: bytes) -> Iterator[Record]:
    """Intact records inside a bad line, such as those around a newline that was lost."""
    starts = [match.start() for match in _START_OF_RECORD.finditer(text)]
    end = len(text) - text.endswith(b"\n")
    done = 0
    for position, start in enumerate(starts):
        if start < done:
            continue
        # Stray digits before a number make several starts of one.
        later = [at - 1 for at in starts[position + 1 : position + 40] if at > start + _START_BYTES]
        for stop in (*later, end, end - 1):
            if record := parse_line(text[start:stop]):
                yield record
                done = stop
                break


def write_pack(path: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """Write a pack, whole or not at all, the same bytes for the same records; how many they are."""
    if path.exists() and not path.is_file():
        raise PackError(f"{path} is not a regular file", hint="give the name of a file to write")
    try:
        with replacing(path) as file:
            if not path.name.endswith(".gz"):
                return _write_records(file, records)
            # No name and no time inside: equal records give equal bytes.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                return _write_records(cast(IO[bytes], packed), records)
    except OSError as error:
        raise PackFileError(f"cannot write {path}: {error.strerror or error}") from error


def read_pack(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a pack, opening record first; the whole file is verified before any."""
    verified = START
    for record in _pack_records(path):
        verified = Place(record.number, record.chain)
    return _read_again(path, verified)


def _write_records(file: IO[bytes], records: Iterable[Mapping[str, Any]]) -> int:
    file.write(b"merkle pack %d\n" % _FORMAT)
    place = START
    for record in records:
        payload = payload_of(record)
        if (record["kind"] == "pack") != (place == START) or record["kind"] == "end":
            raise PackError(
                f"a record of kind {record['kind']!r} cannot be number {place.number + 1} of a pack"
            )
        line, place = line_after(place, payload)
        file.write(line)
    if place == START:
        raise PackError("a pack begins with a record of kind 'pack'")
    file.write(line_after(place, payload_of({"kind": "end", "count": place.number}))[0])
    return place.number


def _read_again(path: Path, verified: Place) -> Iterator[dict[str, Any]]:
    place = START
    for record in _pack_records(path):
        place = Place(record.number, record.chain)
        if place.number > verified.number:
            break
        value = value_of(record)
        if value["kind"] != "end":
            yield value
    if place != verified:
        raise PackError(f"{path} changed while it was read", hint="import it again")


def _pack_records(path: Path) -> Iterator[Record]:
    """Every record of a pack, its end included, each one verified."""
    if not path.is_file():
        raise PackError(f"there is no file {path}", hint="give the name of an exported pack")
    line = 1
    try:
        with open(path, "rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            with gzip.GzipFile(fileobj=raw) if packed else raw as file:
                _read_header(cast(IO[bytes], file))
                line = 2
                for record in _verified(cast(IO[bytes], file)):
                    line = record.number + 2
                    yield record
    except (_BadLine, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise PackError(
            f"{path}, line {line}: {error}", hint="nothing was imported; fetch or export it again"
        ) from error
    except OSError as error:
        raise PackFileError(f"cannot read {path}: {error.strerror or error}") from error


class _BadLine(Exception):
    """What is wrong with the line after the last good one."""


def _read_header(file: IO[bytes]) -> None:
    header = _HEADER.fullmatch(file.readline(80))
    if header is None:
        raise _BadLine("this is no merkle pack")
    if int(header[1]) != _FORMAT:
        raise _BadLine(f"this pack has format {int(header[1])}; this release reads {_FORMAT}")


def _verified(file: IO[bytes]) -> Iterator[Record]:
    place, ended = START, False
    while text := file.readline(MAX_LINE_BYTES):
        record = parse_line(text[:-1]) if text.endswith(b"\n") else None
        if ended or record is None:
            raise _BadLine("there is more after the end" if ended else "the record is damaged")
        if reason := record.misfit(place):
            raise _BadLine(reason)
        try:
            value = value_of(record)
        except ValueError as error:
            raise _BadLine(f"the record is no JSON object ({error})") from None
        kind = value.get("kind")
        if not isinstance(kind, str) or (kind == "pack") != (place == START):
            raise _BadLine("a pack has one record of kind 'pack', at its beginning")
        ended = kind == "end"
        if ended and value.get("count") != place.number:
            raise _BadLine(f"the end counts {value.get('count')} records, not {place.number}")
        place = Place(record.number, record.chain)
        yield record
    if not ended:
        raise _BadLine("the pack is cut short")
