"""Hashing many files: inline while the page cache answers, on threads once the disk has to."""

from __future__ import annotations

import os
import resource
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash
from indexer.scan.large_files import LARGE, BeingReadError, LargeFiles
from indexer.scan.reading import Between, Reading, TornReadError, hash_file

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

THREADS: Final = 4
WINDOW: Final = 128
"""Files after which it is looked whether the disk was read; threads get as many at once."""
# Blocks of 512 bytes that a window of files had to fetch from the disk, per file, for the cache
# to count as cold. Time would not do: a busy machine is slow too, and threads on cached files
# only fight over the interpreter.
_COLD: Final = 4
# Asking for one thread is much cheaper, where the system has it.
_WHOSE: Final = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


Outcome = Reading | OSError | TornReadError | BeingReadError
"""What was read of a file, or why it could not be."""


class Taker(Protocol):
    """Takes the outcomes for the files of one folder."""

    path: str
    """The folder that the files are in."""

    def take(self, name: str, outcome: Outcome) -> None:
        """The file called `name` (text form) was hashed, or could not be."""
        ...


class Job(NamedTuple):
    """One file to hash: where it is, what lstat said, and who takes the outcome."""

    folder: int
    os_name: str
    name: str
    seen: os.stat_result
    taker: Taker


class HashPool:
    """Takes files to hash while their folder is open, and gives each outcome to its taker."""

    def __init__(
        self,
        algorithm: WorkspaceHash,
        threads: int = THREADS,
        between: Between | None = None,
        large: LargeFiles | None = None,
    ) -> None:
        self._algorithm = algorithm
        self._between = between
        self._large = large
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._queued: list[Job] = []
        self._open: list[int] = []
        self._in_window = 0
        self._blocks = _blocks_read()
        self.hashed = 0

    def __enter__(self) -> HashPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self._close_folders()
            if self._executor is not None:
                self._executor.shutdown()

    def submit(
        self, folder: int, os_name: str, name: str, seen: os.stat_result, taker: Taker
    ) -> None:
        """Hash now, or queue for the threads."""
        self.hashed += 1
        if self._large is not None and seen.st_size >= LARGE:
            taker.take(name, self._ask(self._large, paths.join(taker.path, name), seen))
        elif self._executor is None:
            taker.take(name, self._hash(os_name, folder, seen))
            self._in_window += 1
            if self._in_window == WINDOW:
                self._measure()
        else:
            self._queued.append(Job(folder, os_name, name, seen, taker))
            if len(self._queued) >= WINDOW:
                self.flush()

    def release(self, folder: int) -> None:
        """Close a folder's descriptor once its queued files are done."""
        if not self._queued:
            os.close(folder)
            return
        self._open.append(folder)
        # Thousands of folders may go by while few files are queued; descriptors are few.
        if len(self._open) >= WINDOW:
            self.flush()

    def flush(self) -> None:
        """Hash everything that is queued."""
        if self._between is not None:
            self._between()
        if self._executor is not None and self._queued:
            queued, self._queued = self._queued, []
            size = -(-len(queued) // self._threads)
            slices = [queued[i : i + size] for i in range(0, len(queued), size)]
            for part, outcomes in zip(
                slices, self._executor.map(self._run_all, slices), strict=True
            ):
                for job, outcome in zip(part, outcomes, strict=True):
                    job.taker.take(job.name, outcome)
        self._close_folders()

    @staticmethod
    def _ask(large: LargeFiles, path: str, seen: os.stat_result) -> Outcome:
        try:
            return large.read(path, seen)
        except (OSError, TornReadError, BeingReadError) as error:
            return error

    def _run_all(self, jobs: list[Job]) -> list[Outcome]:
        return [self._hash(job.os_name, job.folder, job.seen) for job in jobs]

    def _hash(self, os_name: str, folder: int, seen: os.stat_result) -> Outcome:
        try:
            return hash_file(self._algorithm, os_name, folder, seen, self._between)
        except (OSError, TornReadError) as error:
            return error

    def _measure(self) -> None:
        """Go over to threads when the files of the last window came from the disk."""
        if self._between is not None:
            self._between()
        read = _blocks_read()
        if read - self._blocks >= WINDOW * _COLD and self._threads > 1:
            # Imported late: most scans find their files in the page cache.
            import concurrent.futures

            self._executor = concurrent.futures.ThreadPoolExecutor(
                self._threads, thread_name_prefix="merkle-hash"
            )
        self._blocks, self._in_window = read, 0

    def _close_folders(self) -> None:
        while self._open:
            os.close(self._open.pop())


def _blocks_read() -> int:
    """Blocks that had to be read from a disk so far."""
    return resource.getrusage(_WHOSE).ru_inblock
