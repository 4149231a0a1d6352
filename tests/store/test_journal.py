"""The journal: nothing acknowledged is lost, and nothing damaged goes unnoticed."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import ExitCode, UsageError
from indexer.store import pack
from indexer.store.journal import (
    DamagedJournalError,
    Journal,
    JournalWriteError,
    check,
    quarantine,
    replace,
    salvage,
)
from tests.support.processes import Forked

Numbered = list[tuple[int, dict[str, Any]]]

RECORDS: list[dict[str, Any]] = [
    {"kind": "format", "hash": "xxh3_128"},
    {"kind": "frame", "content": 'line\nline "quoted" \u2028 é \x00 end'},
    {"kind": "agent", "id": "a", "n": [1, 2.5, None, True, {"z": 1, "a": 2}]},
    {"kind": "note", "text": '7 0123456789abcdef:0123456789abcdef0123456789abcdef {"kind":"x"}'},
]
NUMBERED: Numbered = list(enumerate(RECORDS, 1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def filled(folder: Path, records: list[dict[str, Any]] = RECORDS, segment: int = 1 << 20) -> bytes:
    """Write records one by one; the bytes of the last segment."""
    journal = Journal.open(folder, segment_bytes=segment)
    for record in records:
        journal.append([record])
    journal.close()
    return max(folder.glob("*.log")).read_bytes()


def contents(folder: Path) -> tuple[Numbered, str | None]:
    journal = Journal.open(folder)
    try:
        return list(journal.records()), journal.torn
    finally:
        journal.close()


def overwrite(path: Path, data: bytes) -> None:
    """Change a file in place; some file systems flush one that was emptied first."""
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()


def noticed(folder: Path) -> bool:
    try:
        contents(folder)
    except DamagedJournalError:
        return True
    return False


def test_a_line_is_number_checksums_and_canonical_json(folder: Path) -> None:
    data = filled(folder, [{"kind": "note", "b": "é", "a": 1}, {"kind": "x"}])
    # By hand: self = sha256sum of `1 {…}`, chain = sha256sum of the chain before and that sum.
    assert data.decode() == (
        "merkle journal 1 1 00000000000000000000000000000000\n"
        '1 0987f75a037098b9:beb81155199114f4a79e6b8d71e98b81 {"a":1,"b":"é","kind":"note"}\n'
        '2 73587582fddf1751:48d3ad94388c40311515b84a51664b40 {"kind":"x"}\n'
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=10,
)
record_values = st.builds(
    lambda body, kind: {**body, "kind": kind},
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=4),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)


@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(st.lists(st.lists(record_values, max_size=4), max_size=5), st.integers(1, 400))
def test_what_is_appended_comes_back_in_order(
    groups: list[list[dict[str, Any]]], segment: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "journal"
        expected: Numbered = []
        for group in groups:
            journal = Journal.open(folder, segment_bytes=segment, applied=len(expected))
            expected += enumerate(group, len(expected) + 1)
            assert journal.append(group) == journal.last == len(expected)
            assert list(journal.records()) == expected
            assert list(journal.records(after=2)) == expected[2:]
            assert journal.check() == check(folder) == []
            journal.close()
        if groups:
            assert salvage(folder).records == expected


def test_torn_at_every_byte_of_the_last_record_is_cut_and_reported(folder: Path) -> None:
    data = filled(folder)
    path = folder / "000001.log"
    start = data.rindex(b"\n", 0, -1) + 1
    for length in range(start, len(data)):
        path.write_bytes(data[:length])
        records, torn = contents(folder)
        assert records == NUMBERED[:-1]
        if length == start:
            assert torn is None
        else:
            assert torn is not None
            assert f"000001.log, line 5, byte {start}" in torn
        assert path.read_bytes() == data[:start]


def test_a_torn_tail_can_be_written_over(folder: Path) -> None:
    data = filled(folder)
    (folder / "000001.log").write_bytes(data[:-1])
    assert [problem.torn for problem in check(folder)] == [True]
    journal = Journal.open(folder)
    assert journal.torn is not None
    assert list(journal.records()) == NUMBERED[:-1]
    assert journal.append([RECORDS[-1]]) == len(RECORDS)
    journal.close()
    assert (folder / "000001.log").read_bytes() == data


@pytest.mark.parametrize("hole", [b"\0" * 40, b"9 garbage\n", b"\n"])
def test_zeros_and_rubbish_after_the_last_record_are_cut(folder: Path, hole: bytes) -> None:
    data = filled(folder)
    (folder / "000001.log").write_bytes(data + hole)
    records, torn = contents(folder)
    assert (records, torn is None) == (NUMBERED, False)


def test_a_record_known_to_be_acknowledged_is_never_cut(folder: Path) -> None:
    data = filled(folder)
    path = folder / "000001.log"
    path.write_bytes(data[:-5])
    with pytest.raises(DamagedJournalError):
        Journal.open(folder, applied=len(RECORDS))
    assert path.read_bytes() == data[:-5]
    Journal.open(folder, applied=len(RECORDS) - 1).close()
    with pytest.raises(DamagedJournalError, match="ends with record 3, but record 4 was stored"):
        Journal.open(folder, applied=len(RECORDS))
    shutil.rmtree(folder)
    with pytest.raises(DamagedJournalError, match="missing"):
        Journal.open(folder, applied=1)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("segment", [1, 1 << 20], ids=["segment per record", "one segment"])
def test_every_flipped_byte_is_noticed_and_costs_one_record_at_most(
    folder: Path, segment: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(folder, segment=segment)
    # Thousands of openings, none of which has to survive the power.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    last = max(folder.glob("*.log"))
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        tail = data.rindex(b"\n", 0, -1) + 1
        for offset, byte in list(enumerate(data))[::every]:
            for other in {byte ^ 1, byte ^ 0x20, 10, ord("1")} - {byte}:
                overwrite(path, data[:offset] + bytes([other]) + data[offset + 1 :])
                hurt = data.count(b"\n", 0, offset)
                assert check(folder), (path, offset, other)
                saved = salvage(folder)
                assert saved.damaged
                assert all(item in NUMBERED for item in saved.records)
                assert len(saved.records) >= len(NUMBERED) - (hurt > 0)
                if not noticed(folder):
                    assert path == last
                    assert offset >= tail
                    assert contents(folder) == (NUMBERED[:-1], None)
                overwrite(path, data)
    assert contents(folder) == (NUMBERED, None)


def test_damage_names_file_line_and_byte(folder: Path) -> None:
    data = filled(folder)
    start = data.index(b"\n2 ") + 1
    (folder / "000001.log").write_bytes(data.replace(b"quoted", b"quoteD"))
    with pytest.raises(DamagedJournalError) as caught:
        Journal.open(folder)
    assert f"000001.log, line 3, byte {start}: record 2 is damaged" in caught.value.message
    assert caught.value.code == "journal_damaged"
    assert caught.value.exit_code == ExitCode.CORRUPT
    assert "merkle repair" in caught.value.hint


def test_removed_swapped_and_repeated_lines_are_noticed(folder: Path) -> None:
    header, *lines = filled(folder).splitlines(keepends=True)
    path = folder / "000001.log"
    broken = [lines[:i] + lines[i + 1 :] for i in range(len(lines) - 1)]
    broken += [[*lines[:i], lines[i], *lines[i:]] for i in range(len(lines))]
    for i in range(len(lines) - 1):
        broken.append([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]])
    for variant in broken:
        path.write_bytes(header + b"".join(variant))
        assert noticed(folder)
        assert check(folder)
        assert salvage(folder).records == [
            item for item in NUMBERED if lines[item[0] - 1] in variant
        ]
    path.write_bytes(b"".join(lines))
    assert noticed(folder)
    assert salvage(folder).records == NUMBERED


def test_a_replaced_record_with_a_right_checksum_is_noticed(folder: Path) -> None:
    header, *lines = filled(folder).splitlines(keepends=True)
    place, forged = pack.START, []
    for number, record in enumerate(RECORDS):
        line, place = pack.line_after(place, pack.payload_of(record if number else {"kind": "no"}))
        forged.append(line)
    (folder / "000001.log").write_bytes(header + forged[0] + b"".join(lines[1:]))
    assert noticed(folder)
    assert "does not follow" in str(check(folder)[0])


def test_segments_rotate_and_continue_each_other(folder: Path) -> None:
    records = [{"kind": "note", "n": n, "text": "x" * (n % 50)} for n in range(200)]
    filled(folder, records, segment=1000)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"{n:06d}.log" for n in range(1, len(names) + 1)]
    assert len(names) > 15
    journal = Journal.open(folder, segment_bytes=1000)
    numbered = list(enumerate(records, 1))
    for after in (0, 1, 57, 199, 200, 500):
        assert list(journal.records(after)) == numbered[after:]
    journal.close()


@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_missing_segment_is_noticed_and_its_records_named(folder: Path, which: int) -> None:
    filled(folder, segment=1)
    (folder / f"{which:06d}.log").unlink()
    with pytest.raises(DamagedJournalError, match=f"{which:06d}.log.*missing"):
        Journal.open(folder)
    assert "missing" in str(check(folder)[0])
    saved = salvage(folder)
    assert saved.gone == [range(which, which + 1)]
    assert saved.records == [item for item in NUMBERED if item[0] != which]


def test_swapped_segments_and_a_damaged_end_of_an_earlier_one_are_noticed(folder: Path) -> None:
    filled(folder, segment=1)
    third, fourth = folder / "000003.log", folder / "000004.log"
    kept = third.read_bytes(), fourth.read_bytes()
    third.write_bytes(kept[1])
    fourth.write_bytes(kept[0])
    assert noticed(folder)
    assert salvage(folder).records == NUMBERED
    for end in (b"", b"cut"):
        third.write_bytes(kept[0][:-5] + end)
        fourth.write_bytes(kept[1])
        assert noticed(folder)
    third.write_bytes(kept[0].splitlines(keepends=True)[0])
    assert noticed(folder)


def test_damage_in_an_early_segment_is_found_when_it_is_read(folder: Path) -> None:
    filled(folder, segment=1)
    path = folder / "000001.log"
    path.write_bytes(path.read_bytes().replace(b"xxh3", b"xxh4"))
    journal = Journal.open(folder)
    assert list(journal.records(after=2)) == NUMBERED[2:]
    with pytest.raises(DamagedJournalError, match="record 1 is damaged"):
        list(journal.records())
    assert "record 1 is damaged" in str(journal.check()[0])
    journal.close()


def test_a_file_that_shrinks_under_an_open_journal_is_noticed(folder: Path) -> None:
    data = filled(folder)
    journal = Journal.open(folder)
    os.truncate(folder / "000001.log", data.rindex(b"\n", 0, -1) + 1)
    with pytest.raises(DamagedJournalError, match="ends early"):
        list(journal.records())
    with pytest.raises(JournalWriteError, match="somebody else"):
        journal.append(RECORDS)
    journal.close()


@pytest.mark.parametrize(
    "bad",
    [
        {}, {"kind": 1}, ["kind"], {"kind": "x", "n": float("nan")}, {"kind": "x", 1: 2},
        {"kind": "x", "t": "\ud800"}, {"kind": "x", "b": b""}, {"kind": "x", "n": float("inf")},
    ],
)  # fmt: skip
def test_a_record_without_one_json_form_is_refused_before_anything_is_written(
    folder: Path, bad: Any
) -> None:
    journal = Journal.open(folder)
    before = (folder / "000001.log").read_bytes()
    with pytest.raises(UsageError):
        journal.append([{"kind": "fine"}, bad])
    assert (folder / "000001.log").read_bytes() == before
    assert journal.append([{"kind": "fine"}]) == 1
    journal.close()


def test_records_too_large_or_too_deep_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "MAX_RECORD_BYTES", 1000)
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    journal = Journal.open(folder)
    with pytest.raises(UsageError, match="1,019 bytes; the limit is 1,000"):
        journal.append([{"kind": "x", "t": "y" * 1000}])
    with pytest.raises(UsageError, match="levels deep"):
        journal.append([{"kind": "x", "t": deep}])
    assert journal.append([{"kind": "x", "t": "y" * 900}]) == 1
    journal.close()


WRITER = """
import sys
from pathlib import Path
from indexer.store.journal import Journal
journal = Journal.open(Path(sys.argv[1]), segment_bytes=5000)
while True:
    number = journal.append([{"kind": "note", "n": journal.last + 1 + i} for i in range(3)])
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(folder: Path) -> None:
    chance = random.Random(3)
    acknowledged = 0
    for _ in range(20):
        command = [sys.executable, "-c", WRITER, str(folder)]
        with Forked(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline()
            time.sleep(chance.uniform(0, 0.03))
            writer.send_signal(signal.SIGKILL)
            printed = [line for line in writer.stdout if line.endswith("\n")]
        acknowledged = max([acknowledged, *map(int, printed)])
        journal = Journal.open(folder, applied=acknowledged)
        assert journal.last >= acknowledged
        journal.close()
    assert [(n, r["n"]) for n, r in salvage(folder).records] == [
        (n, n) for n in range(1, journal.last + 1)
    ]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not permitted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def append_many(journal: Journal) -> None:
    for _ in range(100):
        journal.append([{"kind": "note", "text": "c" * 100}])


@pytest.mark.parametrize("segment", [1000, 1 << 20])
def test_a_full_disk_refuses_and_leaves_the_journal_usable(tiny_disk: Path, segment: int) -> None:
    journal = Journal.open(tiny_disk / "journal", segment_bytes=segment)
    journal.append([{"kind": "note", "text": "a"}])
    with pytest.raises(JournalWriteError, match="No space left"):
        journal.append([{"kind": "note", "text": "b" * 100_000}])
    ballast = tiny_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        fill(ballast)
    with pytest.raises(JournalWriteError, match="No space left"):
        append_many(journal)
    number = journal.last
    assert len(list(journal.records())) == number
    ballast.unlink()
    assert journal.append([{"kind": "note", "text": "d" * 5000}]) == number + 1
    journal.close()
    records, torn = contents(tiny_disk / "journal")
    assert (len(records), torn) == (number + 1, None)


def failing(code: int) -> Any:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_short_writes_are_completed_and_failed_ones_taken_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(folder)
    real, calls = os.pwrite, []

    def short(descriptor: int, data: Any, offset: int) -> int:
        calls.append(len(data))
        return real(descriptor, bytes(data[:7]), offset)

    def short_then_full(descriptor: int, data: Any, offset: int) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return short(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", short)
    assert journal.append(RECORDS[:1]) == 1
    assert len(calls) > 5
    before = (folder / "000001.log").read_bytes()
    monkeypatch.setattr(os, "pwrite", short_then_full)
    with pytest.raises(JournalWriteError, match="No space left") as caught:
        journal.append(RECORDS[1:])
    assert caught.value.exit_code == ExitCode.UNCHECKED
    assert (folder / "000001.log").read_bytes() == before
    monkeypatch.undo()
    assert journal.append(RECORDS[1:]) == len(RECORDS)
    assert list(journal.records()) == NUMBERED
    journal.close()


def test_a_failed_sync_is_taken_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(folder)
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    with pytest.raises(JournalWriteError):
        journal.append(RECORDS)
    monkeypatch.undo()
    assert journal.last == 0
    journal.append(RECORDS)
    assert list(journal.records()) == NUMBERED
    journal.close()


def test_an_interrupted_append_is_taken_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    journal = Journal.open(folder)
    monkeypatch.setattr(os, "fdatasync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        journal.append(RECORDS[:1])
    monkeypatch.undo()
    journal.append(RECORDS)
    assert list(journal.records()) == NUMBERED
    journal.close()


def test_a_write_that_cannot_be_taken_back_ends_appending(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(folder)
    journal.append(RECORDS[:2])
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    monkeypatch.setattr(os, "ftruncate", failing(errno.EIO))
    with pytest.raises(JournalWriteError):
        journal.append(RECORDS[2:])
    monkeypatch.undo()
    with pytest.raises(JournalWriteError, match="could not be taken back"):
        journal.append(RECORDS[2:])
    assert list(journal.records()) == NUMBERED[:2]
    journal.close()


def test_a_segment_that_cannot_be_begun_leaves_the_old_one_in_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(folder, segment_bytes=1)
    journal.append(RECORDS[:1])
    monkeypatch.setattr(os, "replace", failing(errno.EIO))
    with pytest.raises(JournalWriteError, match="cannot begin"):
        journal.append(RECORDS[1:])
    monkeypatch.undo()
    assert [path.name for path in folder.iterdir()] == ["000001.log"]
    journal.append(RECORDS[1:])
    assert list(journal.records()) == NUMBERED
    journal.close()
    assert check(folder) == []


def test_a_closed_journal_is_not_tried(folder: Path, tmp_path: Path) -> None:
    journal = Journal.open(folder)
    journal.append(RECORDS[:1])
    journal.close()
    # The next file that is opened gets the number that the journal's had.
    with open(tmp_path / "another", "w+b") as another:
        another.write(b"what somebody else keeps")
        another.flush()
        with pytest.raises(JournalWriteError, match="closed"):
            journal.try_writing()
        assert (tmp_path / "another").read_bytes() == b"what somebody else keeps"


def test_a_closed_journal_and_a_removed_file_refuse(folder: Path) -> None:
    journal = Journal.open(folder)
    (folder / "000001.log").unlink()
    with pytest.raises(JournalWriteError, match="somebody else removed"):
        journal.append(RECORDS)
    journal.close()
    journal.close()
    with pytest.raises(JournalWriteError, match="closed"):
        journal.append(RECORDS)


def test_readers_see_whole_records_while_a_writer_appends(folder: Path) -> None:
    journal = Journal.open(folder, segment_bytes=4000)
    done, failures, seen = threading.Event(), [], []

    def read() -> None:
        try:
            while not done.is_set():
                numbers = [(n, r["n"]) for n, r in journal.records()]
                assert numbers == [(n, n) for n in range(1, len(numbers) + 1)]
                seen.append(len(numbers))
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for first in range(1, 400, 2):
        journal.append([{"kind": "x", "n": first}, {"kind": "x", "n": first + 1}])
        # Of four readings that end from here on, one reader has begun its second after the append.
        enough = len(seen) + 4
        while first % 100 == 1 and len(seen) < enough and not failures:
            time.sleep(0.001)
    done.set()
    for reader in readers:
        reader.join()
    journal.close()
    assert not failures
    assert len(set(seen)) > 2


def test_repair_keeps_what_is_intact_and_moves_the_rest_aside(folder: Path) -> None:
    data = filled(folder).replace(b"quoted", b"quoteD")
    (folder / "000001.log").write_bytes(data)
    saved = salvage(folder)
    assert saved.gone == [range(2, 3)]
    assert "record 2 is damaged" in saved.damaged[0]
    moved = replace(folder, (record for _, record in saved.records), folder.parent / "aside")
    assert (moved / "000001.log").read_bytes() == data
    records, torn = contents(folder)
    assert ([record for _, record in records], torn) == ([r for _, r in saved.records], None)
    assert [number for number, _ in records] == [1, 2, 3]
    again = quarantine(folder, folder.parent / "aside")
    assert {moved.name, again.name} == {"journal-1", "journal-2"}
    assert salvage(folder).damaged == [f"{folder} is missing"]


def test_a_replacement_interrupted_between_the_moves_is_finished_on_opening(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(folder)
    monkeypatch.setattr("indexer.store.journal.finish_replacing", lambda _: None)
    replace(folder, RECORDS[1:], folder.parent / "aside")
    assert not folder.exists()
    monkeypatch.undo()
    assert contents(folder)[0] == list(enumerate(RECORDS[1:], 1))
