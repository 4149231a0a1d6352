"""Packs: the same records give the same bytes, and a damaged pack yields nothing at all."""

from __future__ import annotations

import errno
import gzip
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.errors import ExitCode
from indexer.store.pack import PackError, PackFileError, read_pack, write_pack

OPENING: dict[str, Any] = {"kind": "pack", "format": 1, "hash": "xxh3_128"}
RECORDS: list[dict[str, Any]] = [
    OPENING,
    {"kind": "frame", "content": "a\nb é \u2028"},
    {"kind": "memo", "key": "00ff"},
]
NAMES = ["a.pack", "a.pack.gz"]


@pytest.mark.parametrize("name", ["x.pack", "x.gz"])
@settings(derandomize=True, deadline=None, max_examples=40, database=None)
@given(bodies=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
def test_what_is_written_is_read(name: str, bodies: list[str]) -> None:
    records = [OPENING, *({"kind": "frame", "content": body} for body in bodies)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        assert write_pack(path, iter(records)) == len(records)
        assert list(read_pack(path)) == records
        assert os.listdir(folder) == [name]


@pytest.mark.parametrize("name", NAMES)
def test_bytes_depend_on_the_records_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    first, second = tmp_path / name, tmp_path / "other" / f"b{name}"
    write_pack(first, RECORDS)
    write_pack(second, [dict(reversed(record.items())) for record in RECORDS])
    assert first.read_bytes() == second.read_bytes()
    assert (first.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_packed_and_plain_hold_the_same_lines(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.pack", tmp_path / "a.pack.gz"
    write_pack(plain, RECORDS)
    write_pack(packed, RECORDS)
    data = plain.read_bytes()
    assert gzip.decompress(packed.read_bytes()) == data
    assert data.startswith(b"merkle pack 1\n1 ")
    assert data.endswith(b' {"count":3,"kind":"end"}\n')
    renamed = packed.rename(tmp_path / "without-suffix")
    assert list(read_pack(renamed)) == RECORDS


@pytest.mark.parametrize("name", NAMES)
def test_cut_short_anywhere_yields_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_pack(path, RECORDS)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(PackError):
            read_pack(path)


def test_every_flipped_byte_is_refused_before_the_first_record(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    write_pack(path, RECORDS)
    data = path.read_bytes()
    for offset, byte in enumerate(data):
        for other in {byte ^ 1, byte ^ 0x20, 0, 10} - {byte}:
            path.write_bytes(data[:offset] + bytes([other]) + data[offset + 1 :])
            with pytest.raises(PackError) as caught:
                read_pack(path)
            line = data.count(b"\n", 0, offset) + 1
            assert f"line {line}: " in caught.value.message
            assert caught.value.exit_code == ExitCode.USAGE


def test_flipped_bytes_in_a_packed_one_never_change_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    write_pack(path, RECORDS)
    data = path.read_bytes()
    for offset, byte in enumerate(data):
        path.write_bytes(data[:offset] + bytes([byte ^ 0x11]) + data[offset + 1 :])
        try:
            # Time, system and level in the gzip header stand for nothing.
            assert list(read_pack(path)) == RECORDS
            assert 4 <= offset < 10
        except PackError:
            pass


def test_removed_swapped_and_added_lines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    write_pack(path, RECORDS)
    lines = path.read_bytes().splitlines(keepends=True)
    variants = [lines[:i] + lines[i + 1 :] for i in range(len(lines))]
    variants += [[*lines, lines[-1]], [*lines, b"\n"], [*lines[:2], lines[3], lines[2], lines[4]]]
    for variant in variants:
        path.write_bytes(b"".join(variant))
        with pytest.raises(PackError):
            read_pack(path)


def test_errors_say_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    write_pack(path, RECORDS)
    data = path.read_bytes()
    for damaged, message in [
        (data.replace(b"00ff", b"00fe"), "line 4: the record is damaged"),
        (data[: data.rindex(b"\n", 0, -1) + 1], "line 5: the pack is cut short"),
        (data.replace(b"pack 1\n", b"pack 2\n"), "format 2; this release reads 1"),
        (b"PK\x03\x04", "line 1: this is no merkle pack"),
        (b"", "line 1: this is no merkle pack"),
        (data + b"more\n", "line 6: there is more after the end"),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(PackError, match=message):
            read_pack(path)
    with pytest.raises(PackError, match="no file"):
        read_pack(tmp_path / "absent")
    with pytest.raises(PackError, match="no file"):
        read_pack(tmp_path)


@pytest.mark.parametrize(
    "records",
    [[], RECORDS[1:], [OPENING, OPENING], [OPENING, {"kind": "end", "count": 1}]],
    ids=["nothing", "no opening", "two openings", "an end"],
)
def test_records_that_make_no_pack_are_refused(
    tmp_path: Path, records: list[dict[str, Any]]
) -> None:
    with pytest.raises(PackError):
        write_pack(tmp_path / "a.pack", records)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_export_leaves_the_old_pack(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    write_pack(path, RECORDS)
    before = path.read_bytes()

    def interrupted() -> Iterator[dict[str, Any]]:
        yield OPENING
        raise KeyboardInterrupt

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        write_pack(path, interrupted())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PackFileError, match="No space left"):
        write_pack(path, RECORDS[:2])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [name]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="regular"):
        write_pack(tmp_path, RECORDS)
    with pytest.raises(PackError, match="regular"):
        write_pack(Path("/dev/null"), RECORDS)


def test_a_pack_that_changes_between_verifying_and_reading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    write_pack(path, RECORDS)
    records = read_pack(path)
    write_pack(path, [OPENING, *RECORDS[:0:-1]])
    with pytest.raises(PackError, match="changed"):
        list(records)
