"""The journal: numbered, checksummed, fsynced records of what cannot be computed again."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from indexer.errors import CorruptError, UncheckedError
from indexer.store.atomic import sync_folder, write_atomically
from indexer.store.own_folder import PRIVATE_FILE, PRIVATE_FOLDER
from indexer.store.pack import (
    MAX_LINE_BYTES,
    SEGMENT_HEADER,
    START,
    Place,
    Problem,
    Record,
    line_after,
    parse_line,
    payload_of,
    value_of,
    walk_segment,
)

# Opening verifies the last segment, and every command without a service opens it: keep that cheap.
SEGMENT_BYTES: Final = 1 << 20
_MAX_HEADER_BYTES: Final = 80
_PROBE: Final = 1 << 16
_REPAIR: Final = "run `merkle repair`: it keeps what can be read and puts the rest aside"


class JournalFileError(UncheckedError):
    """The operating system would not let the journal be opened, read or moved."""

    code = "journal_file"


class JournalWriteError(UncheckedError):
    """Records could not be made durable, and are not acknowledged."""

    code = "journal_unwritten"


class DamagedJournalError(CorruptError):
    """A record that was acknowledged is gone or is not what was written."""

    code = "journal_damaged"

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"the journal is damaged: {problem}", hint=_REPAIR)
        self.problem = problem


class Salvage(NamedTuple):
    """What a damaged journal still holds, what is wrong with it, and which numbers are gone."""

    records: list[tuple[int, dict[str, Any]]]
    damaged: list[str]
    gone: list[range]


@contextlib.contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalFileError(f"{doing}: {error.strerror or error}") from error


class _Tail(NamedTuple):
    """Where the next record goes."""

    segment: int
    end: int
    place: Place


class Journal:
    """The journal of one workspace, open for appending by its owner."""

    def __init__(
        self, folder: Path, segment_bytes: int, tail: _Tail, torn: str | None, read_only: bool
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._tail = tail
        self.torn = torn
        """What was cut off the end on opening, if anything was."""
        self._lock = threading.Lock()
        self._refusal = "it is on a read-only file system" if read_only else None
        # One that takes no records needs no file.
        self._descriptor = (
            os.open(os.devnull, os.O_RDONLY)
            if read_only
            else _open_segment(_segment(folder, tail.segment))
        )

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        applied: int = 0,
        read_only: bool = False,
    ) -> Journal:
        """Open or create; `applied` is the last record known to have been acknowledged."""
        with _translated(f"cannot open {folder}"):
            tail, torn = _prepare(folder, applied, read_only)
            return cls(folder, segment_bytes, tail, torn, read_only)

    @property
    def last(self) -> int:
        """Number of the last record; 0 when there is none."""
        return self._tail.place.number

    @property
    def takes_records(self) -> bool:
        """Whether it is open, and nothing went wrong that only opening it anew can mend."""
        return self._refusal is None

    def append(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Make records durable with one write and one sync; the last one's number.

        A crash may leave the first few of them: what must stay together is one record.
        """
        payloads = [payload_of(record) for record in records]
        with self._lock:
            if payloads:
                self._write(payloads)
            return self.last

    def try_writing(self) -> None:
        """Find out whether records could be written, leaving none."""
        with self._lock:
            self._check_open()
            try:
                # Without an end of line: a kill in between leaves what opening cuts off.
                _write_all(self._descriptor, b" " * _PROBE, self._tail.end)
                _sync(self._descriptor)
            except OSError as error:
                raise JournalWriteError(
                    f"cannot write to {self._folder}: {error.strerror or error}",
                    hint="nothing was stored; make room and try again",
                ) from error
            finally:
                self._take_back(self._tail)

    def records(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """The records behind number `after` as of now, in order, verified while read."""
        return _records(self._folder, after, self._tail)

    def check(self) -> list[Problem]:
        """Everything wrong with the journal."""
        return check(self._folder, self._tail)

    def close(self) -> None:
        """Let go of the file; what was acknowledged is in it."""
        with self._lock:
            if self._refusal != "it is closed":
                self._refusal = "it is closed"
                os.close(self._descriptor)

    def _check_open(self) -> None:
        """Raise unless the descriptor is the journal's own, and what is in the file is known."""
        if self._refusal is not None:
            raise JournalWriteError(f"the journal takes no more records: {self._refusal}")

    def _write(self, payloads: list[bytes]) -> None:
        self._check_open()
        # Never right after a header: a segment holds at least one record.
        if self._tail.end > max(self._segment_bytes, _MAX_HEADER_BYTES):
            self._begin_segment()
        before, lines, place = self._tail, bytearray(), self._tail.place
        for payload in payloads:
            line, place = line_after(place, payload)
            lines += line
        state = os.fstat(self._descriptor)
        if state.st_nlink == 0 or state.st_size != before.end:
            self._refusal = "somebody else removed or changed its file"
            self._check_open()
        try:
            _write_all(self._descriptor, lines, before.end)
            _sync(self._descriptor)
            self._tail = _Tail(before.segment, before.end + len(lines), place)
        except BaseException as error:
            self._take_back(before)
            if isinstance(error, OSError):
                raise JournalWriteError(
                    f"cannot write to {self._folder}: {error.strerror or error}",
                    hint=self._refusal or "nothing was stored; make room and try again",
                ) from error
            raise

    def _take_back(self, before: _Tail) -> None:
        try:
            os.ftruncate(self._descriptor, before.end)
            os.fsync(self._descriptor)
        except OSError as error:
            self._refusal = f"a failed write could not be taken back ({error.strerror or error})"
        self._tail = before

    def _begin_segment(self) -> None:
        index, place = self._tail.segment + 1, self._tail.place
        path = _segment(self._folder, index)
        try:
            end = _create_segment(self._folder, index, place)
            descriptor = _open_segment(path)
        except OSError as error:
            try:
                path.unlink(missing_ok=True)
                sync_folder(self._folder)
            except OSError:
                self._refusal = f"{path} was begun and could not be taken back"
            raise JournalWriteError(
                f"cannot begin {path}: {error.strerror or error}",
                hint="nothing was stored; make room and try again",
            ) from error
        os.close(self._descriptor)
        self._descriptor, self._tail = descriptor, _Tail(index, end, place)


def check(folder: Path, tail: _Tail | None = None) -> list[Problem]:
    """Everything wrong with a journal; changes nothing and does not raise."""
    problems = []
    try:
        last = tail.segment if tail else max(_indices(folder), default=0)
        for item in _decoded(folder, _walk(folder, 1, last, START, tail)):
            if isinstance(item, Problem):
                problems.append(item)
    except OSError as error:
        problems.append(Problem(folder, 0, 0, f"cannot be read: {error.strerror or error}"))
    return problems


def salvage(folder: Path) -> Salvage:
    """Every record that is intact by itself, in order of number, and what is wrong or gone."""
    found: dict[int, dict[str, Any]] = {}
    result = Salvage([], [], [])
    if not folder.exists():
        result.damaged.append(f"{folder} is missing")
        return result
    for index in _indices(folder):
        # A segment at a time, so that an unreadable one does not take the others with it.
        try:
            for item in _decoded(folder, _walk(folder, index, index, None, None)):
                if isinstance(item, Problem):
                    result.damaged.append(str(item))
                elif found.setdefault(item[0], item[1]) != item[1]:
                    result.damaged.append(f"a second, different record {item[0]} was left out")
        except OSError as error:
            if error.errno != errno.EIO:
                raise JournalFileError(f"cannot read {folder}: {error.strerror}") from error
            result.damaged.append(f"{_segment(folder, index)}: {error.strerror}")
    expected = 1
    for number in sorted(found):
        if number > expected:
            result.gone.append(range(expected, number))
        expected = number + 1
        result.records.append((number, found[number]))
    return result


def quarantine(folder: Path, into: Path) -> Path:
    """Move a journal aside under a name that is free; where it is now."""
    with _translated(f"cannot move {folder} aside"):
        into.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        count = 1
        while (target := into / f"{folder.name}-{count}").exists():
            count += 1
        os.rename(folder, target)
        sync_folder(into)
        sync_folder(folder.parent)
    return target


def replace(folder: Path, records: Iterable[Mapping[str, Any]], into: Path) -> Path:
    """Put a new journal of these records, numbered from 1, in the place of one moved `into`."""
    # Imported late: few commands put another journal in its place.
    import shutil

    building, ready = _beside(folder, "building"), _beside(folder, "new")
    for leftover in (building, ready):
        shutil.rmtree(leftover, ignore_errors=True)
    journal = Journal.open(building)
    try:
        group: list[Mapping[str, Any]] = []
        for record in records:
            group.append(record)
            if len(group) == 500:
                journal.append(group)
                group.clear()
        journal.append(group)
    finally:
        journal.close()
    # Complete once it has this name: opening finishes what a crash after this line interrupts.
    with _translated(f"cannot replace {folder}"):
        os.rename(building, ready)
        sync_folder(folder.parent)
        moved = quarantine(folder, into)
        finish_replacing(folder)
    return moved


def finish_replacing(folder: Path) -> None:
    """Give a journal that is complete its name, where a crash came before that."""
    ready = _beside(folder, "new")
    if ready.exists() and not folder.exists():
        os.rename(ready, folder)
        sync_folder(folder.parent)


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")


def _segment(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.log"


def _indices(folder: Path) -> list[int]:
    names = (re.fullmatch(r"([0-9]{6}|[1-9][0-9]{6,8})\.log", name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in names if match)


def _create_segment(folder: Path, index: int, place: Place) -> int:
    """Begin a segment, named only once its header is durable; its size."""
    header = b"merkle journal 1 %d %b\n" % (place.number + 1, place.chain)
    write_atomically(_segment(folder, index), header, mode=PRIVATE_FILE)
    return len(header)


def _open_segment(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW)


def _write_all(descriptor: int, data: bytes | bytearray, offset: int) -> None:
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], offset + done)


def _sync(descriptor: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _prepare(folder: Path, applied: int, read_only: bool) -> tuple[_Tail, str | None]:
    """Find or make the end of the journal, and cut off a write that was never acknowledged."""
    if not read_only:
        finish_replacing(folder)
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not read_only and not _indices(folder) and not applied:
        _create_segment(folder, 1, START)
        sync_folder(folder.parent)
    if read_only and not applied and not folder.exists():
        return _Tail(0, 0, START), None
    indices = _indices(folder)
    last = max(indices, default=1)
    if missing := set(range(1, last + 1)).difference(indices):
        raise DamagedJournalError(_missing(folder, min(missing)))
    path = _segment(folder, last)
    place = START if last == 1 else _end_of(_segment(folder, last - 1))
    torn = None
    for item in _walk(folder, last, last, place, None):
        if isinstance(item, Record):
            place = Place(item.number, item.chain)
        elif item.torn and place.number >= applied:
            torn = item
            break
        else:
            raise DamagedJournalError(item)
    size = path.stat().st_size
    if place.number < applied:
        reason = f"the journal ends with record {place.number}, but record {applied} was stored"
        raise DamagedJournalError(Problem(path, 0, size, reason))
    if read_only:
        return _Tail(last, torn.offset if torn else size, place), str(torn) if torn else None
    descriptor = _open_segment(path)
    try:
        if torn:
            os.ftruncate(descriptor, size := torn.offset)
        # What a killed writer left may be in memory only, and is about to be relied on.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(folder)
    return _Tail(last, size, place), str(torn) if torn else None


def _end_of(path: Path) -> Place:
    """The place after a full segment, from its last line."""
    with open(path, "rb") as file:
        size, step = os.fstat(file.fileno()).st_size, 1 << 16
        data, cut = b"", -1
        while cut < 0 and len(data) < size and step < 2 * MAX_LINE_BYTES:
            file.seek(max(0, size - step))
            data = file.read()
            cut = data.rfind(b"\n", 0, -1)
            step *= 8
    record = parse_line(data[cut + 1 : -1]) if data.endswith(b"\n") else None
    if record is not None:
        return Place(record.number, record.chain)
    for item in walk_segment(path, None):
        if isinstance(item, Problem):
            raise DamagedJournalError(item)
    raise DamagedJournalError(Problem(path, 1, 0, "the segment holds no records"))


def _missing(folder: Path, index: int) -> Problem:
    return Problem(_segment(folder, index), 0, 0, "the segment is missing")


def _records(folder: Path, after: int, tail: _Tail) -> Iterator[tuple[int, dict[str, Any]]]:
    with _translated(f"cannot read {folder}"):
        last = tail.segment
        first = next((i for i in range(last, 1, -1) if _begins(folder, i) <= after + 1), 1)
        items = _walk(folder, first, last, START if first == 1 else None, tail)
        for item in _decoded(folder, items):
            if isinstance(item, Problem):
                raise DamagedJournalError(item)
            if item[0] > after:
                yield item


def _begins(folder: Path, index: int) -> float:
    """The first number of a segment by its header; infinity where that cannot be said."""
    with contextlib.suppress(FileNotFoundError), open(_segment(folder, index), "rb") as file:
        if match := SEGMENT_HEADER.fullmatch(file.readline(_MAX_HEADER_BYTES)):
            return int(match[1])
    return float("inf")


def _decoded(
    folder: Path, items: Iterable[Record | Problem]
) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    for item in items:
        if isinstance(item, Problem):
            yield item
            continue
        try:
            yield item.number, value_of(item)
        except ValueError as error:
            yield Problem(folder, 0, 0, f"record {item.number} is no JSON object ({error})")


def _walk(
    folder: Path, first: int, last: int, before: Place | None, tail: _Tail | None
) -> Iterator[Record | Problem]:
    """Everything in the segments from first to last, good and bad, in order of place."""
    for index in range(first, last + 1):
        path = _segment(folder, index)
        if not path.exists():
            yield _missing(folder, index)
            before = None
            continue
        end = tail.end if tail and index == tail.segment else None
        before = yield from walk_segment(path, before, end, final=index == last)
