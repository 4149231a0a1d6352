"""What was paid for, as the journal has it, and disks that are full."""

from __future__ import annotations

import resource
from pathlib import Path

from indexer.store.journal import salvage
from tests.support.service import Service
from tests.support.waiting import wait_until


def answers(root: Path) -> int:
    """How many answers are in the journal, in the eyes of somebody who is not its owner."""
    records = salvage(root / ".merkle" / "journal").records
    return sum(record["kind"] == "model" for _, record in records)


def has_answers(root: Path, count: int) -> None:
    wait_until(lambda: answers(root) == count, f"{count} answers are in the journal")


class Full:
    """Lets no file of a process grow beyond a size, for real."""

    def __init__(self, service: Service) -> None:
        self._pid = service.pid
        self._wal = service.root / ".merkle" / "index.duckdb.wal"
        # Notes of nodes that no type is about, so that only the database grows.
        for number in range(200):
            (service.root / f"other{number}.bin").write_bytes(b"\0")
        service.converges()

    def database(self) -> None:
        """No more commits; the journal, which is shorter by far, has room."""
        size = self._wal.stat().st_size
        assert size > 8000
        self.limit(size)

    def limit(self, size: int) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
