"""A walk shared with forked processes, each of which takes one folder after another.

Looking at a file is a system call and a few lines of Python, and threads would wait for each other
at both. A forked process has all that there is to compare with in memory, tells in a few bytes
that nothing has changed, and sends what it read where something has. Only a short command may do
this, before it has opened anything that does not survive a fork.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from indexer.core import listing, paths
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.listing import Listing
from indexer.core.tree import Entry
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Observed, Remark, SeenFolder, Walker

_WORTH: Final = 200_000
"""Bytes of listings, a few thousand files, below which a fork takes longer than it saves."""
_WORTH_READING: Final = 16
"""How many folders of the second level there are where it pays to share a first reading."""
_MOST: Final = 4
_MOST_PARTS: Final = 8_000
"""Their numbers fit into a pipe that nobody reads yet."""
_DESCRIPTORS: Final = 4_096
_AS_LISTED: Final = b"as listed"
_NUMBER: Final = struct.Struct("=I")
_KINDS: Final = {int(kind): kind for kind in Kind}

Part = TypeVar("Part")


def listed_parts(listings: Mapping[str, Listing]) -> list[str]:
    """The folders that processes take one after the other; none where that does not pay."""
    if sum(len(each.stats) for each in listings.values()) < _WORTH:
        return []
    return [path for path in listings if path.count("/") == 1][:_MOST_PARTS]


def parts_on_disk(root: os.PathLike[str], scopes: Scopes) -> list[str]:
    """The same where nothing is known: folders of the second level that no rule leaves out."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for first in _folders(root):
            above = paths.name_to_text(first)
            if not scopes.ignores(above, is_folder=True):
                below = (paths.name_to_text(name) for name in _folders(os.path.join(root, first)))
                found += (paths.join(above, name) for name in below)
    wanted = [path for path in found if not scopes.ignores(path, is_folder=True)]
    return wanted[:_MOST_PARTS] if len(wanted) >= _WORTH_READING else []


def _folders(path: os.PathLike[str] | str) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def walk_shared(
    walker: Walker, parts: Sequence[str], meanwhile: Callable[[], object] | None = None
) -> Observed:
    """What `walker.walk()` finds, by as many processes as there are processors for.

    `meanwhile` is done here once the others have begun.
    """
    processes = min(len(os.sched_getaffinity(0)), _MOST) if parts and _may_fork() else 1
    if processes == 1:
        return walker.walk()
    with contextlib.ExitStack() as stack:
        line = stack.enter_context(_in_line(len(parts)))
        others = [
            stack.enter_context(_beside(_look_at, walker, (parts, line), keeps=(line,)))
            for _ in range(processes - 1)
        ]
        if meanwhile is not None:
            meanwhile()
        walker.elsewhere = frozenset(parts)
        observed = walker.walk()
        # Those that are not reached any more, by the rules or because they went, are nobody's.
        left = dict.fromkeys(observed.left)
        for part in _drawn(line, parts):
            if part in left:
                del left[part]
                walker.walk_more(observed, part)
        for other in others:
            _take(observed, walker, other(), left)
        for part in left:
            walker.walk_more(observed, part)
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


def _may_fork() -> bool:
    """Whether nothing is here that a forked process would find half done."""
    alone = threading.active_count() == 1 and "duckdb" not in sys.modules
    return alone and sys.platform == "linux"


# -- in turns


@contextlib.contextmanager
def _in_line(count: int) -> Iterator[int]:
    """A pipe with the numbers of all parts, which whoever has time takes from."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b"".join(_NUMBER.pack(number) for number in range(count)))
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _drawn(line: int, parts: Sequence[str]) -> Iterator[str]:
    while number := os.read(line, _NUMBER.size):
        yield parts[_NUMBER.unpack(number)[0]]


@contextlib.contextmanager
def _beside(
    work: Callable[[Walker, Part], bytes], walker: Walker, part: Part, keeps: Sequence[int] = ()
) -> Iterator[Callable[[], bytes]]:
    """Do something in a forked process; what this gives waits for what that has to say."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        # Whatever happens here, nothing of the process that was forked may go on, and what it had
        # open is let go of: the lock must not outlive it.
        try:
            low = 3
            for kept in (*sorted((*keeps, writing)), _DESCRIPTORS):
                os.closerange(low, kept)
                low = kept + 1
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


# -- in a forked process


def _look_at(walker: Walker, given: tuple[Sequence[str], int]) -> bytes:
    """What is found in the parts that this process comes to take."""
    parts, line = given
    mine = _copy(walker)
    found = []
    for part in _drawn(line, parts):
        # One that cannot be opened is left to who asked, and knows what to say.
        with contextlib.suppress(OSError):
            seen = mine.walk(part)
            folders = None
            if not seen.unchanged or seen.unreadable:
                folders = [_packed(folder) for folder in seen.folders.values()]
            found.append(
                (part, folders, len(seen.folders), _pairs(seen.skipped), _pairs(seen.unreadable),
                 sorted(seen.linked), seen.hashed, seen.vanished)
            )  # fmt: skip
    return marshal.dumps(found)


def _copy(walker: Walker, *, trust: bool | None = None) -> Walker:
    asked_by = os.getppid()

    def end_alone() -> None:
        if os.getppid() != asked_by:
            raise SystemExit

    return Walker(
        walker.root, walker.algorithm, walker.scopes, walker.before, walker.seen_ns,
        own=walker.own, trust=walker.trust if trust is None else trust, between=end_alone,
    )  # fmt: skip


def _packed(seen: SeenFolder) -> tuple[object, ...]:
    entries = seen.entries and [
        (name, int(kind), bytes(content_id), size, stat)
        for name, (kind, content_id, size, stat, _) in seen.entries.items()
    ]
    return seen.path, seen.folders, seen.lost, seen.entries is None, entries or []


def _pairs(remarks: Iterable[Remark]) -> list[tuple[str, str]]:
    return [(remark.path, remark.reason) for remark in remarks]


def _read_all(walker: Walker, listings: Mapping[str, Listing]) -> bytes:
    """Whether every file has the content that it is listed with."""
    seen, size = _copy(walker, trust=False).walk(), walker.algorithm.size
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


# -- and back


def _take(observed: Observed, walker: Walker, said: bytes, left: dict[str, None]) -> None:
    """Take in what a process found in the parts that are wanted, which are then no longer left."""
    try:
        found = marshal.loads(said)
    except (EOFError, TypeError, ValueError):
        # It was killed: its parts are looked at here.
        return
    for part, folders, count, skipped, unreadable, linked, hashed, vanished in found:
        if part not in left:
            continue
        del left[part]
        observed.skipped += [Remark(*each) for each in skipped]
        observed.unreadable += [Remark(*each) for each in unreadable]
        observed.linked |= set(linked)
        observed.hashed += hashed
        observed.vanished |= vanished
        if folders is None:
            observed.folders[part] = _seen(observed, walker, part, whole=True)
        for path, below, lost, same, entries in folders or ():
            seen = observed.folders[path] = _seen(observed, walker, path)
            seen.folders, seen.lost = below, lost
            seen.entries = None if same else dict(map(_entry, entries))
        if walker.progress is not None:
            walker.progress(count)


def _seen(observed: Observed, walker: Walker, path: str, *, whole: bool = False) -> SeenFolder:
    return SeenFolder(path, walker.seen_ns, observed.unreadable, walker.before, whole=whole)


def _entry(packed: tuple[str, int, bytes, int, bytes]) -> tuple[str, Entry]:
    name, kind, content_id, size, stat = packed
    return name, Entry(_KINDS[kind], ContentId(content_id), size, stat)
