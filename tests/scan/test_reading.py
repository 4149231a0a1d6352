"""Reading one file: a torn or foreign read is never taken for its content."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.core.hashing import HASHES
from indexer.scan import reading
from indexer.scan.reading import PIECE, TornReadError, hash_file, open_folder, read_bytes

XXH3 = HASHES["xxh3_128"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def seen(folder: int, name: str = "f") -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def on_read(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None], *, before: bool = True
) -> list[int]:
    """Call `act` with the number of the read just before (or after) each `os.read`."""
    real, calls = os.read, []

    def read(descriptor: int, size: int) -> bytes:
        calls.append(size)
        if before:
            act(len(calls))
        content = real(descriptor, size)
        if not before:
            act(len(calls))
        return content

    monkeypatch.setattr(reading.os, "read", read)
    return calls


@pytest.mark.parametrize(
    "size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 17], ids=str
)
@pytest.mark.parametrize("name", sorted(HASHES))
def test_any_size_is_hashed_as_a_whole(tmp_path: Path, folder: int, size: int, name: str) -> None:
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "f").write_bytes(content)
    content_id, stat, _ = hash_file(HASHES[name], "f", folder, seen(folder))
    assert content_id == HASHES[name].of_file(content)
    # Reading moves the time of the last access, and nothing else.
    now = seen(folder)
    assert (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) == (
        now.st_ino,
        now.st_size,
        now.st_mtime_ns,
        now.st_ctime_ns,
    )


def test_a_file_in_place_of_the_one_listed_is_read_with_its_own_stat(
    tmp_path: Path, folder: int
) -> None:
    (tmp_path / "f").write_bytes(b"old")
    old = seen(folder)
    (tmp_path / "g").write_bytes(b"brand new")
    (tmp_path / "g").rename(tmp_path / "f")
    content_id, stat, _ = hash_file(XXH3, "f", folder, old)
    assert content_id == XXH3.of_file(b"brand new")
    assert (stat.st_ino, stat.st_size) == (seen(folder).st_ino, 9)


@pytest.mark.parametrize("size", [10, PIECE, 3 * PIECE])
@pytest.mark.parametrize("before", [True, False], ids=["before the read", "after the read"])
def test_a_write_during_the_read_is_noticed(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch, size: int, before: bool
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * size)
    listed = seen(folder)

    def scribble(number: int) -> None:
        if number == 1:
            path.write_bytes(b"b" * size)
            os.utime(path, ns=(1, 1))

    on_read(monkeypatch, scribble, before=before)
    content_id, stat, _ = hash_file(XXH3, "f", folder, listed)
    assert content_id == XXH3.of_file(b"b" * size)
    assert stat.st_mtime_ns == 1


@pytest.mark.parametrize("change", [1, -1], ids=["grows", "shrinks"])
@pytest.mark.parametrize("size", [10, 2 * PIECE])
def test_a_file_of_another_length_is_read_again(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch, size: int, change: int
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * size)
    listed = seen(folder)
    on_read(monkeypatch, lambda n: os.truncate(path, size + change) if n == 1 else None)
    content_id, stat, _ = hash_file(XXH3, "f", folder, listed)
    assert content_id == XXH3.of_file((b"a" * size + b"\0")[: size + change])
    assert stat.st_size == size + change


@pytest.mark.parametrize("size", [10, 2 * PIECE])
def test_a_file_that_never_rests_is_torn(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * size)
    on_read(monkeypatch, lambda n: os.utime(path, ns=(n, n)))
    with pytest.raises(TornReadError, match="keeps changing"):
        hash_file(XXH3, "f", folder, seen(folder))


def test_short_answers_are_put_together(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems answer a read with less than there is."""
    content = bytes(range(256)) * 8
    (tmp_path / "f").write_bytes(content)
    real = os.read
    monkeypatch.setattr(reading.os, "read", lambda fd, size: real(fd, min(size, 100)))
    assert hash_file(XXH3, "f", folder, seen(folder))[0] == XXH3.of_file(content)


@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.timeout(10)
def test_a_fifo_in_its_place_neither_hangs_nor_counts(
    tmp_path: Path, folder: int, size: int
) -> None:
    (tmp_path / "f").write_bytes(b"x" * size)
    listed = seen(folder)
    (tmp_path / "f").unlink()
    os.mkfifo(tmp_path / "f")
    with pytest.raises(OSError, match="no longer a regular file"):
        hash_file(XXH3, "f", folder, listed)


def test_a_fifo_with_the_very_stat_of_an_empty_file_does_not_count(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inode reused within one tick of the clock: only the kind tells them apart."""
    os.mkfifo(tmp_path / "f")
    with pytest.raises(OSError, match="no longer a regular file"):
        hash_file(XXH3, "f", folder, seen(folder))


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, folder: int) -> None:
    (tmp_path / "secret").write_bytes(b"12345")
    (tmp_path / "f").write_bytes(b"12345")
    listed = seen(folder)
    (tmp_path / "f").unlink()
    (tmp_path / "f").symlink_to("secret")
    with pytest.raises(OSError) as caught:  # noqa: PT011  # any of several errors is right
        hash_file(XXH3, "f", folder, listed)
    assert caught.value.errno == errno.ELOOP


def test_a_file_that_went_is_not_found(tmp_path: Path, folder: int) -> None:
    (tmp_path / "f").write_bytes(b"1")
    listed = seen(folder)
    (tmp_path / "f").unlink()
    with pytest.raises(FileNotFoundError):
        hash_file(XXH3, "f", folder, listed)


@pytest.mark.parametrize("what", ["missing", "fifo", "link", "folder"])
@pytest.mark.timeout(10)
def test_small_files_are_read_only_when_regular(tmp_path: Path, folder: int, what: str) -> None:
    (tmp_path / "there").write_bytes(b"content")
    if what == "fifo":
        os.mkfifo(tmp_path / "f")
    elif what == "link":
        (tmp_path / "f").symlink_to("there")
    elif what == "folder":
        (tmp_path / "f").mkdir()
    assert read_bytes("f", folder, 100) is None
    assert read_bytes("there", folder, 100) == b"content"
    assert read_bytes("there", folder, 3) == b"con"


def test_a_folder_is_reached_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "outside" / "in").mkdir(parents=True)
    root = tmp_path / "root"
    (root / "real" / "deep").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path / "outside")
    os.close(open_folder(root, "real/deep"))
    before = len(os.listdir("/proc/self/fd"))
    for path in ("link", "link/in", "real/nothing", "real/deep/x"):
        with pytest.raises(OSError):  # noqa: PT011  # any of several errors is right
            open_folder(root, path)
    assert len(os.listdir("/proc/self/fd")) == before, "no descriptor is left open"
