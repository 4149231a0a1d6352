"""A file that is rewritten while it is read: what is recorded in the end is what it holds."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.hashing import workspace_hash
from tests.support.engines import Engine

WRITER = """
import mmap, os, sys, time
path, size = sys.argv[1], int(sys.argv[2])
os.utime(path, ns=(10**18, 10**18))
for number, line in enumerate(sys.stdin):
    content = bytes([97 + number % 26]) * size
    print("begun", flush=True)
    with open(path, "r+b", buffering=0) as file:
        if line == "one write\\n":
            os.pwrite(file.fileno(), content, 0)
        elif line == "two writes\\n":
            os.pwrite(file.fileno(), content[: size // 2], 0)
            time.sleep(0.03)
            os.pwrite(file.fileno(), content[size // 2 :], size // 2)
        else:
            with mmap.mmap(file.fileno(), size) as pages:
                # Stamped with the first change of a page, and not with the later ones.
                pages[:4096] = content[:4096]
                time.sleep(0.1)
                pages[:4096] = content[:4096].upper()
    if line != "mapped\\n":
        os.utime(path, ns=(10**18, 10**18))
    print("done", flush=True)
"""


class Writer:
    """Another process that rewrites one file in place, always with as many bytes."""

    def __init__(self, path: Path, size: int) -> None:
        path.write_bytes(b"." * size)
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(size)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begin(self, how: str) -> None:
        """Let it begin a rewrite."""
        self._tell(how + "\n")
        assert self._hear() == "begun\n"

    def finish(self) -> None:
        """Wait until it is done."""
        assert self._hear() == "done\n"

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture
def engine(workspace: Path) -> Iterator[Engine]:
    with Engine.create(workspace) as engine:
        yield engine


def recorded(engine: Engine, path: str) -> bytes:
    entry = engine.tree.get(path)
    assert entry is not None
    return bytes(entry.content_id)


@pytest.mark.parametrize(
    ("how", "size", "rounds"),
    [
        ("one write", 48 << 20, 12), ("two writes", 1 << 16, 20), ("mapped", 1 << 16, 3),
        pytest.param("mapped", 1 << 16, 10, marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_the_last_content_is_what_is_recorded(
    engine: Engine, how: str, size: int, rounds: int, record_property: Any
) -> None:
    path = engine.root / "rewritten"
    writer = Writer(path, size)
    wrong = looks = 0
    try:
        engine.scan()
        for _ in range(rounds):
            writer.begin(how)
            until = time.monotonic() + 0.06
            while time.monotonic() < until:
                engine.scan()
                looks += 1
            writer.finish()
            engine.scan()
            actual = workspace_hash("xxh3_128").of_file(path.read_bytes())
            wrong += recorded(engine, "rewritten") != actual
            if wrong:
                engine.scan(force=True)
    finally:
        writer.close()
    record_property("looks", looks)
    assert wrong == 0, f"{wrong} of {rounds} rewrites, in {looks} looks"
