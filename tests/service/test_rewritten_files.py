"""A file that is rewritten again and again: no status ever calls a torn reading of it current."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.core.hashing import workspace_hash

ROUNDS = 12

WRITER = """
import os, sys, time
path, size, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
file = os.open(path, os.O_RDWR)
for number, _ in enumerate(sys.stdin):
    content = bytes([97 + number % 26]) * size
    print("begun", flush=True)
    # In two halves and with its old times: whoever reads between them has half of each.
    os.pwrite(file, content[: size // 2], 0)
    time.sleep(pause)
    os.pwrite(file, content[size // 2 :], size // 2)
    os.utime(path, ns=(10**18, 10**18))
    print("done", flush=True)
"""


@pytest.mark.parametrize(("size", "pause"), [(1 << 24, 0.0), (1 << 16, 0.02)])
def test_no_torn_id_is_ever_final(
    services: Callable[..., Any], folder: Path, size: int, pause: float
) -> None:
    path, algorithm = folder / "rewritten", workspace_hash("xxh3_128")
    path.write_bytes(b"." * size)
    service = services(folder).ready()
    client = service.client
    wrong = asked = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path, str(size), str(pause)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    ) as writer:  # fmt: skip
        assert writer.stdin is not None
        assert writer.stdout is not None
        for number in range(ROUNDS):
            writer.stdin.write("again\n")
            assert writer.stdout.readline() == "begun\n"
            # Asked while it is written, so that it is read then, halves and all.
            for _ in range(1 + number % 3):
                client.get("/v1/status")
                asked += 1
            assert writer.stdout.readline() == "done\n"
            # At rest now: whoever says that the index is true has what the file holds.
            status = client.get("/v1/status")
            node = client.post("/v1/get-node", {"node": "rewritten"})
            if status["state"] == "current":
                wrong += node["content_id"] != algorithm.of_file(path.read_bytes()).hex()
        writer.stdin.close()
    assert wrong == 0, f"{wrong} of {ROUNDS} rewrites, asked {asked} times"
    assert service.converges()
