"""A walk shared with forked processes, each of which takes one folder after another.

Looking at a file is a system call and a few lines of Python, and threads would wait for each other
at both. A forked process has all that there is to compare with in memory, tells in a few bytes
that nothing has changed, and sends what it read where something has. Only a short command may do
this, before it has opened anything that does not survive a fork.
"""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import sys
import threading
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Final

from indexer.core import listing, paths
from indexer.core.changes import nodes_of
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.listing import Listing
from indexer.core.tree import Entry, Tree
from indexer.scan.assemble import assemble
from indexer.scan.forked import forked
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Observed, Remark, SeenFolder, StoredFolder, Walker

_WORTH: Final = 4_000
"""Nodes below which a fork takes longer than it saves."""
_WORTH_WATCHING: Final = 40_000
"""Nodes below which one process has looked at everything by the time a service is loaded."""
_WORTH_READING: Final = 16
"""How many folders of the second level there are where it pays to share a first reading."""
_SHARE: Final = 48
"""Into how many parts a tree is split: many, because one folder often holds half of all."""
_SMALLEST: Final = 8
"""Nodes in a folder that is not taken apart, however small the tree is."""
_LEVELS: Final = 2
"""Levels whose folders whoever begins a first walk enters itself."""
_WIDE: Final = 24
"""Folders in a folder of which every second one is queued, because there are so many."""
_DEEPEST: Final = 4
"""The level from which on all folders of a first walk are queued, a single one too."""
_MOST_PROCESSES: Final = 4
_AS_LISTED: Final = b"as listed"
_PACKET: Final = 512
"""Bytes of a part in the queue: a pipe gives and takes as many as one, so no two are mixed up."""
_ROOM: Final = 1 << 20
"""Bytes of the pipe, as far as the system allows so many."""
_KINDS: Final = {int(kind): kind for kind in Kind}
_SIZE: Final = itemgetter(0)

Part = tuple[str, list[str]]
"""A folder, and some of the folders in it."""


def listed_parts(listings: Mapping[str, Listing]) -> list[Part]:
    """The folders that processes take one after the other; none where that does not pay."""
    if not _is_worth(listings):
        return []
    nodes_in = listing.nodes_in
    most = max(nodes_in(listings[paths.ROOT]) // _SHARE, _SMALLEST)
    nodes = {path: nodes_in(found) for path, found in listings.items()}
    heavy: dict[str, list[str]] = {path: [] for path, count in nodes.items() if count > most}
    for path in nodes:
        parent, _, name = path.rpartition("/")
        if path not in heavy and parent in heavy:
            heavy[parent].append(name)
    parts: list[tuple[int, Part]] = []
    for parent, names in heavy.items():
        # Small ones that are beside each other go together.
        together, size = [], 0
        for name in names:
            together.append(name)
            size += nodes[paths.join(parent, name)]
            if size > most:
                parts.append((size, (parent, together)))
                together, size = [], 0
        if together:
            parts.append((size, (parent, together)))
    # What takes long is begun first, so that all end together.
    return [part for _, part in sorted(parts, key=_SIZE, reverse=True)]


def _is_worth(listings: Mapping[str, Listing], least: int = 1) -> bool:
    return bool(listings) and listing.nodes_in(listings[paths.ROOT]) >= max(_WORTH, least)


def is_worth_reading(root: os.PathLike[str], scopes: Scopes) -> bool:
    """Whether there is so much that a first reading is better shared."""
    count = 0
    with contextlib.suppress(OSError):
        for name in _folders(root):
            if not scopes.ignores(paths.name_to_text(name), is_folder=True):
                count += len(_folders(os.path.join(root, name)))
    return count >= _WORTH_READING


def _folders(path: os.PathLike[str] | str) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def walk_shared(
    walker: Walker,
    listings: Mapping[str, Listing] | None,
    meanwhile: Callable[[], object] | None = None,
    watches: _Watches | None = None,
) -> Observed:
    """What `walker.walk()` finds, by as many processes as there are processors for.

    What each takes follows from the `listings`; without them it is found on the way. `meanwhile`
    is done here once others have work. With `watches`, everybody watches what it looks at.
    """
    least = 1 if watches is None else _WORTH_WATCHING
    forks = _may_fork() and (listings is None or _is_worth(listings, least))
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES) if forks else 1
    if processes == 1:
        return walker.walk()
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(contextlib.closing(_Queue()))
        parts: Sequence[Part] | None = None
        if watches is not None and listings is not None:
            parts = listed_parts(listings)
            # Before anybody looks at a part: where it is replaced after that, the watch above it
            # tells, and so it does where the rules are others than those that are read from now on.
            watches.add_above(parts)
            walker.scopes.forget(paths.ROOT)
        work = _read_first if listings is None else _look_at
        keeps = (queue.reading, *(watches.keeps if watches is not None else ()))
        others = [
            stack.enter_context(forked(partial(work, walker, queue, watches), keeps))
            for _ in range(processes - 1)
        ]
        if listings is None:
            observed = walker.walk(leave=queue.leave)
        else:
            # While the others read the rules, which they need first.
            given = queue.put_all(listed_parts(listings) if parts is None else parts)
            observed = walker.walk(leave=lambda path, names: _without(given, path, names))
        if meanwhile is not None:
            meanwhile()
        # A folder that the walk did not reach is ignored or gone: nobody has to look at it.
        left = dict.fromkeys(observed.left)
        for parent, names in queue.rest():
            wanted = [name for name in names if paths.join(parent, name) in left]
            for path, seen in walker.walk_each(parent, wanted):
                del left[path]
                observed.join(seen if listings is not None else _put_together(walker, path, seen))
        for other in others:
            _take(observed, walker, other(), left, watches)
        for path in left:
            walker.walk_more(observed, path)
    return observed


@contextlib.contextmanager
def contents_compared(
    walker: Walker, listings: Mapping[str, Listing]
) -> Iterator[Callable[[], bool] | None]:
    """Let another process begin to read every file; calling what this gives helps it to finish.

    The call tells whether all is as it is listed; False may also mean that it could not be told.
    None where there is no other process to be had, or little to read.
    """
    parts = listed_parts(listings)
    if not parts or not _may_fork() or len(os.sched_getaffinity(0)) < 2:
        yield None
        return
    with contextlib.closing(_Queue()) as queue:
        given = queue.put_all(parts)
        work = partial(_compare, walker, queue, given, listings)
        with forked(work, keeps=(queue.reading,)) as result:

            def are_as_listed() -> bool:
                walker.trust = False
                rest = _compared(walker, queue.rest(), listings)
                return rest and result() == _AS_LISTED

            yield are_as_listed


@contextlib.contextmanager
def looked_beside(
    walker: Walker,
    listings: Mapping[str, Listing],
    watch: Callable[[str], int],
    keeps: Sequence[int],
) -> Iterator[Callable[[], tuple[Observed, dict[str, int]] | None] | None]:
    """Let other processes look at everything, which watch each folder before they look at it.

    What this gives waits for what was found and the numbers of the watches, None where anything
    is not as it was; None itself where there is no other process to be had.
    """
    if not _may_fork() or len(os.sched_getaffinity(0)) < 2:
        yield None
        return
    work = partial(_look_and_watch, walker, listings, _Watches(watch, keeps))
    with forked(work, keeps) as result:

        def found() -> tuple[Observed, dict[str, int]] | None:
            said = _whole(result())
            if said is None:
                return None
            numbers, skipped, linked = said
            watched = dict(zip(listings, array("i", numbers), strict=True))
            observed = Observed(skipped=[Remark(*each) for each in skipped], linked=set(linked))
            root = observed.folders[paths.ROOT] = _seen(observed, walker, paths.ROOT)
            root.whole = True
            return observed, watched

        yield found


@dataclass(frozen=True, slots=True)
class _Watches:
    """Sets watches on folders, and keeps their numbers."""

    watch: Callable[[str], int]
    keeps: Sequence[int]
    """The descriptors that a process needs to set them."""
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, path: str) -> None:
        """Watch a folder."""
        self.numbers[path] = self.watch(path)

    def add_above(self, parts: Sequence[Part]) -> None:
        """Watch the folders that parts are in, from the root down."""
        above = {each for parent, _ in parts for each in (parent, *paths.ancestors(parent))}
        for path in sorted(above, key=paths.depth):
            self.add(path)


def _may_fork() -> bool:
    """Whether nothing is here that a forked process would find half done."""
    alone = threading.active_count() == 1 and {"duckdb", "_duckdb"}.isdisjoint(sys.modules)
    return alone and sys.platform == "linux"


# -- the queue


class _Queue:
    """A pipe with parts that are to be looked at; the process that is ready takes the next one."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _ROOM)

    def put(self, parent: str, names: Sequence[str]) -> bool:
        """Add folders of a folder; False where the pipe is full, or one name is too long for it."""
        packet = "\0".join((parent, *names)).encode()
        if len(packet) > _PACKET:
            middle = len(names) // 2
            return (
                bool(middle)
                and self.put(parent, names[:middle])
                and self.put(parent, names[middle:])
            )
        try:
            return os.write(self._writing, packet.ljust(_PACKET, b"\0")) == _PACKET
        except BlockingIOError:
            return False

    def put_all(self, parts: Sequence[Part]) -> set[str]:
        """Add parts before anything is looked at; gives the paths of the folders in the queue."""
        return {
            paths.join(parent, name)
            for parent, names in parts
            if self.put(parent, names)
            for name in names
        }

    def leave(self, path: str, names: list[str]) -> list[str]:
        """Queue folders of a folder of which nothing is known; gives those that are not queued.

        Much may be below a folder that has very many in it, or just one. Of very many, every second
        one is queued, so that others have something to do where nothing is further down.
        """
        depth = paths.depth(path)
        if 0 < depth < _DEEPEST and len(names) >= _WIDE:
            return names[1::2] if self.put(path, names[::2]) else names
        if depth < _LEVELS or (depth < _DEEPEST and len(names) == 1):
            return names
        return [] if self.put(path, names) else names

    def rest(self) -> Iterator[Part]:
        """Add nothing more, and take all that others have not taken."""
        self._end()
        return _taken(self.reading)

    def _end(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1

    def close(self) -> None:
        """Let go of it."""
        self._end()
        os.close(self.reading)


def _without(given: Container[str], path: str, names: list[str]) -> list[str]:
    """The folders of a folder that were not given to others."""
    return [name for name in names if paths.join(path, name) not in given]


def _taken(queue: int) -> Iterator[Part]:
    while packet := os.read(queue, _PACKET):
        parent, *names = packet.rstrip(b"\0").decode().split("\0")
        yield parent, names


# -- in a forked process


def _look_at(walker: Walker, queue: _Queue, watches: _Watches | None) -> bytes:
    """What is found in the parts that this process comes to take."""
    found = []
    numbers = watches.numbers if watches is not None else {}
    # Those of before the fork are known to who asked.
    numbers.clear()
    for path, seen in _looked_at(walker, queue):
        same = seen.unchanged and not seen.unreadable
        folders = None if same else [_packed(folder) for folder in seen.folders.values()]
        found.append((path, len(seen.folders), folders, *_beside_folders(seen)))
    return marshal.dumps((found, numbers))


def _read_first(walker: Walker, queue: _Queue, _: _Watches | None) -> bytes:
    """What is found in parts of which nothing was known, put together as it will be stored."""
    found = []
    for path, seen in _looked_at(walker, queue):
        count = len(seen.folders)
        whole = _put_together(walker, path, seen).folders[path].stored
        if whole is not None:
            listings = [(where, *each) for where, each in whole.listings.items()]
            stored = (whole.content_id, listings, whole.nodes)
            found.append((path, count, stored, *_beside_folders(seen)))
    return marshal.dumps((found, {}))


def _looked_at(walker: Walker, queue: _Queue) -> Iterator[tuple[str, Observed]]:
    mine = _copy(walker)
    assert mine.between is not None
    with contextlib.suppress(OSError):
        mine.scopes.of(paths.ROOT)
    for parent, names in _taken(queue.reading):
        mine.between()
        # A folder that cannot be opened is left to who asked: there, it is known what to say of it.
        yield from mine.walk_each(parent, names)


def _beside_folders(seen: Observed) -> tuple[object, ...]:
    remarks = [list(map(tuple, each)) for each in (seen.skipped, seen.unreadable)]
    return (*remarks, sorted(seen.linked), seen.hashed, seen.vanished)


def _put_together(walker: Walker, path: str, seen: Observed) -> Observed:
    """What was found in a folder of which nothing was known, as one `StoredFolder`."""
    folder = assemble(Tree.empty(walker.algorithm), seen, path)
    assert folder is not None, path
    listings = listing.below(path, folder)
    nodes = nodes_of(walker.algorithm, path, folder)
    whole = seen.folders[path]
    whole.stored = StoredFolder(folder.content_id, listings, nodes)
    seen.folders = {path: whole}
    return seen


def _copy(walker: Walker, *, trust: bool = True) -> Walker:
    asked_by = os.getppid()

    def end_alone() -> None:
        if os.getppid() != asked_by:
            raise SystemExit

    return Walker(
        walker.root, walker.algorithm, walker.scopes, walker.before, walker.seen_ns,
        own=walker.own, trust=trust, between=end_alone, on_folder=walker.on_folder,
    )  # fmt: skip


def _packed(seen: SeenFolder) -> tuple[object, ...]:
    entries = seen.entries and [
        (name, int(kind), bytes(content_id), size, stat)
        for name, (kind, content_id, size, stat, _) in seen.entries.items()
    ]
    return seen.path, seen.folders, seen.lost, seen.entries is None, entries or []


def _look_and_watch(walker: Walker, listings: Mapping[str, Listing], watches: _Watches) -> bytes:
    """The watches that were set, and what goes with it where all is as it was."""
    mine = _copy(walker)
    mine.on_folder = watches.add
    try:
        seen = walk_shared(mine, listings, watches=watches)
    except OSError:
        return b""
    if not seen.unchanged or seen.unreadable:
        return b""
    # Who asked has the paths, and nothing else to do than to wait for this.
    numbers = list(map(watches.numbers.get, listings))
    # A folder that has two names was moved meanwhile, and nobody knows from which to which.
    if None in numbers or len(set(numbers)) < len(watches.numbers):
        return b""
    told = array("i", filter(None, numbers)).tobytes()
    return marshal.dumps((told, list(map(tuple, seen.skipped)), sorted(seen.linked)))


def _compare(
    walker: Walker, queue: _Queue, given: Container[str], listings: Mapping[str, Listing]
) -> bytes:
    """Whether what is in the parts that this process comes to take, and around all, is listed."""
    mine = _copy(walker, trust=False)
    with contextlib.suppress(OSError):
        around = mine.walk(leave=lambda path, names: _without(given, path, names))
        same = _is_as_listed(around, listings, walker.algorithm.size)
        if same and _compared(mine, _taken(queue.reading), listings):
            return _AS_LISTED
    # Taken by nobody: there is no need to read more.
    for _ in _taken(queue.reading):
        pass
    return b""


def _compared(walker: Walker, parts: Iterable[Part], listings: Mapping[str, Listing]) -> bool:
    size = walker.algorithm.size
    for parent, names in parts:
        count = 0
        for _, seen in walker.walk_each(parent, names):
            if not _is_as_listed(seen, listings, size):
                return False
            count += 1
        if count < len(names):
            return False
    return True


def _is_as_listed(seen: Observed, listings: Mapping[str, Listing], size: int) -> bool:
    """Whether folders hold what they are listed with: names, kinds and contents."""
    if seen.vanished or seen.unreadable:
        return False
    for path, folder in seen.folders.items():
        if folder.entries is None:
            # By its stats, and every content was compared.
            continue
        listed, below = listings.get(path), list[str]()
        if listed is None:
            return False
        found = {name: (entry[0], entry[1]) for name, entry in folder.entries.items()}
        for name, kind, content_id, _ in listing.decode(listed, size):
            if kind is Kind.DIRECTORY:
                below.append(name)
            elif found.pop(name, None) != (kind, content_id):
                return False
        if found or below != folder.folders:
            return False
    return True


# -- taking in what another process found


def _whole(said: bytes) -> Any:
    """What a process has to say; None where that is nothing, or it was killed meanwhile."""
    try:
        return marshal.loads(said)
    except (EOFError, TypeError, ValueError):
        return None


def _take(
    observed: Observed,
    walker: Walker,
    said: bytes,
    left: dict[str, None],
    watches: _Watches | None,
) -> None:
    """Take in what a process found in the parts that are wanted, which are then no longer left."""
    told = _whole(said)
    if told is None:
        # Its parts are looked at here.
        return
    found, numbers = told
    if watches is not None:
        watches.numbers.update(numbers)
    for part, count, folders, *beside in found:
        if part not in left:
            continue
        del left[part]
        seen = observed.folders[part] = _seen(observed, walker, part)
        if folders is None:
            seen.whole = True
        elif isinstance(folders, tuple):
            content_id, listings, nodes = folders
            kept = {path: Listing(*each) for path, *each in listings}
            seen.stored = StoredFolder(ContentId(content_id), kept, nodes)
        else:
            for path, below, lost, same, entries in folders:
                seen = observed.folders[path] = _seen(observed, walker, path)
                seen.folders, seen.lost = below, lost
                seen.entries = None if same else dict(map(_entry, entries))
        skipped, unreadable, linked, hashed, vanished = beside
        observed.skipped += [Remark(*each) for each in skipped]
        observed.unreadable += [Remark(*each) for each in unreadable]
        observed.linked |= set(linked)
        observed.hashed += hashed
        observed.vanished |= vanished
        if walker.progress is not None:
            walker.progress(count)


def _seen(observed: Observed, walker: Walker, path: str) -> SeenFolder:
    return SeenFolder(path, walker.seen_ns, observed.unreadable, walker.before)


def _entry(packed: tuple[str, int, bytes, int, bytes]) -> tuple[str, Entry]:
    name, kind, content_id, size, stat = packed
    return name, Entry(_KINDS[kind], ContentId(content_id), size, stat)
