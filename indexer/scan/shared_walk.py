"""A walk shared with forked processes, which look at a part each and tell whether it is as it was.

Looking at a file is a system call and a few lines of Python, and threads would wait for each other
at both. A forked process has all that there is to compare with in memory, and tells in a few bytes
that nothing has changed; a part in which something has is looked at again by who asked. Only a
short command may do this, before it has opened anything that does not survive a fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from indexer.core import listing
from indexer.core.kinds import Kind
from indexer.core.listing import Listing
from indexer.scan.walk import Observed, Remark, SeenFolder, Walker

_WORTH: Final = 4_000
"""Folders and files below which a fork takes longer than it saves."""
_MOST: Final = 4
_DESCRIPTORS: Final = 4_096
_AS_LISTED: Final = b"as listed"
_FOLDER_WEIGHT: Final = 150
_FILE_WEIGHT: Final = 50
"""How many bytes of a listing take as long as opening a folder, and how many a file has."""


Part = TypeVar("Part")


class MovedError(Exception):
    """Something is not as it was."""


class _Comparing(Walker):
    """A walk that gives up at the first difference."""

    def _read(self, *_: object) -> None:
        raise MovedError


def walk_shared(walker: Walker, listings: Mapping[str, Listing]) -> Observed:
    """What `walker.walk()` finds, by as many processes as there are processors for."""
    parts = _parts(listings, min(len(os.sched_getaffinity(0)), _MOST)) if _may_fork() else []
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(_beside(_compare, walker, starts)) for starts in parts]
        walker.elsewhere = frozenset(start for starts in parts for start in starts)
        observed = walker.walk()
        unchanged: set[str] = set()
        for other in others:
            unchanged |= _take(observed, walker, other())
        for path in observed.left:
            if path in unchanged:
                observed.folders[path] = SeenFolder(
                    path, walker.seen_ns, observed.unreadable, walker.before, whole=True
                )
            else:
                walker.walk_more(observed, path)
    return observed


@contextlib.contextmanager
def contents_compared(
    walker: Walker, listings: Mapping[str, Listing]
) -> Iterator[Callable[[], bool] | None]:
    """Let another process read every file; what this gives tells whether all is as it is listed.

    None where there is no other process to be had. "Not" may also mean that it could not tell.
    """
    if not _may_fork() or len(os.sched_getaffinity(0)) < 2:
        yield None
        return
    with _beside(_read_all, walker, listings) as answer:
        yield lambda: answer() == _AS_LISTED


def _read_all(walker: Walker, listings: Mapping[str, Listing]) -> bytes:
    """In a forked process: whether every file has the content that it is listed with."""
    reading = Walker(
        walker.root, walker.algorithm, walker.scopes, walker.before, walker.seen_ns,
        own=walker.own, trust=False,
    )  # fmt: skip
    seen, size = reading.walk(), walker.algorithm.size
    if seen.vanished or seen.unreadable or seen.folders.keys() != listings.keys():
        return b""
    for path, folder in seen.folders.items():
        entries = folder.entries or {}
        found = {name: (entry.kind, entry.content_id) for name, entry in entries.items()}
        for name, kind, content_id, _ in listing.decode(listings[path], size):
            if kind is not Kind.DIRECTORY and found.pop(name, None) != (kind, content_id):
                return b""
        if found:
            return b""
    return _AS_LISTED


def _may_fork() -> bool:
    """Whether nothing is here that a forked process would find half done."""
    return sys.platform == "linux" and threading.active_count() == 1


def _parts(listings: Mapping[str, Listing], processes: int) -> list[list[str]]:
    """Folders of the second level for each process but this one, which looks at everything else."""
    weights: dict[str, int] = {}
    rest = 0
    for path, (stats, _) in listings.items():
        weight = len(stats) + _FOLDER_WEIGHT
        first, _, below = path.partition("/")
        if below:
            unit = f"{first}/{below.partition('/')[0]}"
            weights[unit] = weights.get(unit, 0) + weight
        else:
            rest += weight
    if processes < 2 or sum(weights.values()) < _WORTH * _FILE_WEIGHT:
        return []
    shares: list[tuple[int, list[str]]] = [(rest, []), *((0, []) for _ in range(processes - 1))]
    for unit in sorted(weights, key=lambda unit: (-weights[unit], unit)):
        lightest = min(range(processes), key=lambda index: shares[index][0])
        weight, units = shares[lightest]
        units.append(unit)
        shares[lightest] = weight + weights[unit], units
    return [units for _, units in shares[1:] if units]


@contextlib.contextmanager
def _beside(
    work: Callable[[Walker, Part], bytes], walker: Walker, part: Part
) -> Iterator[Callable[[], bytes]]:
    """Do something in a forked process; what this gives waits for what that has to say."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        # Whatever happens here, nothing of the process that was forked may go on, and nothing
        # that it had open may stay so: the lock would.
        try:
            os.closerange(3, writing)
            os.closerange(writing + 1, _DESCRIPTORS)
            _say(writing, work(walker, part))
        finally:
            os._exit(0)
    os.close(writing)
    said: list[bytes] = []

    def answer() -> bytes:
        while piece := os.read(reading, 1 << 16):
            said.append(piece)
        return b"".join(said)

    try:
        yield answer
    finally:
        os.close(reading)
        # It has nothing more to say, or nobody wants to hear it.
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _say(pipe: int, said: bytes) -> None:
    while said:
        said = said[os.write(pipe, said) :]


def _compare(walker: Walker, starts: Sequence[str]) -> bytes:
    """In a forked process: which parts are as they were, and what is remarkable in them."""
    comparing = _Comparing(
        walker.root, walker.algorithm, walker.scopes, walker.before, walker.seen_ns, own=walker.own
    )
    found = []
    for start in starts:
        with contextlib.suppress(MovedError, OSError):
            seen = comparing.walk(start)
            if seen.unchanged and not seen.unreadable:
                found.append([start, len(seen.folders), seen.skipped, sorted(seen.linked)])
    return json.dumps(found).encode()


def _take(observed: Observed, walker: Walker, said: bytes) -> set[str]:
    """Take in what a process found; gives the parts that are as they were."""
    unchanged = set()
    # One that was killed has said nothing, or half of it: then its parts are looked at here.
    with contextlib.suppress(ValueError):
        for start, folders, skipped, linked in json.loads(said):
            observed.skipped += [Remark(*each) for each in skipped]
            observed.linked |= set(linked)
            unchanged.add(start)
            if walker.progress is not None:
                walker.progress(folders)
    return unchanged
