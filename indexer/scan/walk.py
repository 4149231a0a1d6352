"""The walk: every folder listed, every entry judged and stat'ed, only doubtful files read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.changes import Node
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.listing import HEADERS, Listing
from indexer.core.progress import Progress
from indexer.core.tree import Entry
from indexer.scan.hashpool import HashPool, Outcome
from indexer.scan.ignore import Scope
from indexer.scan.large_files import LARGE, LargeFiles
from indexer.scan.previous import Previous
from indexer.scan.reading import OPEN_FOLDER, Between, Reading, hash_file, open_folder, opened
from indexer.scan.scopes import Scopes

MAX_DEPTH: Final = 400
"""Folders nested deeper are listed as skipped: each level keeps a descriptor open."""


class Remark(NamedTuple):
    """A path the tree leaves out or could not read, and why."""

    path: str
    reason: str


class StoredFolder(NamedTuple):
    """A folder and all below it in the form in which it is stored."""

    content_id: ContentId
    listings: dict[str, Listing]
    nodes: list[Node]


@dataclass(slots=True, eq=False, repr=False)
class SeenFolder:
    """What a walk found in one folder; `entries` is None when it is as it was before."""

    path: str
    seen_ns: int
    unreadable: list[Remark]
    before: Previous
    entries: dict[str, Entry] | None = None
    folders: list[str] = field(default_factory=list)
    lost: int = 0
    """The error number where the folder itself could not be read: what was known of it stays."""
    whole: bool = False
    """Whether everything below it, too, is known to be as it was before."""
    stored: StoredFolder | None = None
    """What it and everything below it was put together to, where nothing was known of it."""
    expected: dict[str, ContentId] | None = None
    """What its files should have in them, where they are read only to find out whether they do."""

    def is_changed(self) -> bool:
        """Whether anything in the folder itself, by stats, is not as it was."""
        return self.entries is not None or bool(self.lost) or self.stored is not None

    def take(self, name: str, outcome: Outcome) -> None:
        """Store a hashed file, or what was known of it when it could not be read."""
        if self.entries is None:
            assert self.expected is not None
            if isinstance(outcome, tuple):
                content_id, _, open_to_others = outcome
                if content_id == self.expected[name] and not open_to_others:
                    return
            known = self.before.entries_of(self.path).items()
            self.entries = {each: entry for each, entry in known if entry.folder is None}
        if isinstance(outcome, tuple):
            content_id, seen, open_to_others = outcome
            stat = filestat.vouching(seen, self.seen_ns, open_to_others)
            self.entries[name] = Entry(Kind.FILE, content_id, seen.st_size, stat)
        elif isinstance(outcome, FileNotFoundError):
            self.entries.pop(name, None)
        else:
            self.keep_old(name, outcome)

    def keep_old(self, name: str, problem: Exception) -> None:
        """Remark on an unreadable file; its last known id stays in the tree."""
        assert self.entries is not None
        self.unreadable.append(Remark(paths.join(self.path, name), reason_of(problem)))
        old = self.before.entries_of(self.path).get(name)
        if old is not None and old.kind is not Kind.DIRECTORY:
            self.entries[name] = not_read(old, problem)


Leave = Callable[[str, list[str]], list[str]]
"""Takes a folder and the folders in it; gives those that are not left to another process."""


@dataclass(slots=True, eq=False, repr=False)
class Observed:
    """What a walk found: folders in the order they were entered, parents first."""

    folders: dict[str, SeenFolder] = field(default_factory=dict)
    skipped: list[Remark] = field(default_factory=list)
    unreadable: list[Remark] = field(default_factory=list)
    hashed: int = 0
    vanished: bool = False
    """Whether a folder went between its parent's listing and its own."""

    linked: set[str] = field(default_factory=set)
    """Files with another name besides, under which they can change without an event here."""

    left: list[str] = field(default_factory=list)
    """Folders that somebody else looks at."""

    def join(self, other: Observed) -> None:
        """Add what was found somewhere else."""
        self.folders.update(other.folders)
        self.skipped += other.skipped
        self.unreadable += other.unreadable
        self.hashed += other.hashed
        self.vanished |= other.vanished
        self.linked |= other.linked

    @property
    def unchanged(self) -> bool:
        """Whether every folder is, by its stats, exactly as it was."""
        return not self.vanished and not any(map(SeenFolder.is_changed, self.folders.values()))


def reason_of(problem: Exception) -> str:
    """Why something could not be read, without the path in it."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower()
    return str(problem)


def not_read(known: Entry, problem: Exception) -> Entry:
    """What is known of a file or link that cannot be read now."""
    number = problem.errno if isinstance(problem, OSError) else errno.EAGAIN
    return known._replace(stat=filestat.unreadable(known.size, number or errno.EIO))


OWN: Final = "the index's own database"
"""Why a file is skipped that is the database under another name: reading it drops its lock."""


@dataclass(slots=True, eq=False, repr=False)
class Walker:
    """Walks a workspace or one folder of it."""

    root: Path
    algorithm: WorkspaceHash
    scopes: Scopes
    before: Previous
    seen_ns: int
    trust: bool = True
    """Whether an equal stat vouches for equal content; False reads every file."""
    on_folder: Callable[[str], None] | None = None
    """Called before a folder is listed, so that a watch is in place before the look."""
    progress: Progress | None = None
    """Called with the number of entries of each folder."""
    own: frozenset[tuple[int, int]] = frozenset()
    """Device and inode of files that this process must never open and close."""
    between: Between | None = None
    """Called while much is read; what it raises breaks the walk off."""
    large: LargeFiles | None = None
    """Reads large files on its own thread, where others wait for this one; None: read them here."""
    _own_inodes: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._own_inodes = frozenset(inode for _, inode in self.own)

    def walk(self, start: str = paths.ROOT, leave: Leave | None = None) -> Observed:
        """Look at a folder and everything below; raises OSError when it cannot be opened."""
        if self.on_folder is not None:
            self.on_folder(start)
        return self._walk(open_folder(self.root, start), start, None, leave)

    def walk_each(self, parent: str, names: Iterable[str]) -> Iterator[tuple[str, Observed]]:
        """Look at folders of a folder, each alone, but for those that cannot be opened."""
        with contextlib.suppress(OSError), opened(open_folder(self.root, parent)) as descriptor:
            scope = self.scopes.of(parent)
            for name in names:
                with contextlib.suppress(OSError):
                    path = paths.join(parent, name)
                    if self.on_folder is not None:
                        self.on_folder(path)
                    below = os.open(paths.text_to_os(name), OPEN_FOLDER, dir_fd=descriptor)
                    yield path, self._walk(below, path, scope)

    def _walk(
        self, descriptor: int, start: str, scope: Scope | None, leave: Leave | None = None
    ) -> Observed:
        observed = Observed()
        with HashPool(self.algorithm, between=self.between, large=self.large) as pool:
            try:
                level = self._look(observed, pool, descriptor, start, scope, leave)
            except BaseException:
                os.close(descriptor)
                raise
            self._go_down(observed, pool, [level], leave)
        return observed

    def walk_more(self, observed: Observed, path: str) -> None:
        """Look at a folder that was left to somebody else, after everything else."""
        parent, name = paths.split(path)
        try:
            descriptor = open_folder(self.root, parent)
        except OSError:
            # Gone since it was listed: the next look sees what is there.
            observed.folders[parent].folders.remove(name)
            observed.vanished = True
            return
        with HashPool(self.algorithm, between=self.between, large=self.large) as pool:
            self._go_down(observed, pool, [(descriptor, parent, None, [name])])

    def _go_down(
        self, observed: Observed, pool: HashPool, stack: list[_Level], leave: Leave | None = None
    ) -> None:
        """Look at the folders that open ones still have to be entered for, and all below them."""
        try:
            while stack:
                descriptor, _, _, folders = stack[-1]
                if not folders:
                    stack.pop()
                    pool.release(descriptor)
                    continue
                name = folders.pop()
                self._descend(observed, pool, stack, name, leave)
        finally:
            for descriptor, *_ in stack:
                os.close(descriptor)
        pool.flush()
        observed.hashed += pool.hashed

    def _descend(
        self,
        observed: Observed,
        pool: HashPool,
        stack: list[_Level],
        name: str,
        leave: Leave | None,
    ) -> None:
        parent, parent_path, parent_scope, _ = stack[-1]
        path = paths.join(parent_path, name)
        if paths.depth(path) > MAX_DEPTH:
            observed.skipped.append(Remark(path, f"nested deeper than {MAX_DEPTH} folders"))
            observed.folders[parent_path].folders.remove(name)
            return
        if self.on_folder is not None:
            self.on_folder(path)
        try:
            descriptor = os.open(paths.text_to_os(name), OPEN_FOLDER, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            # Gone or swapped since its parent was listed: the next look sees what is there.
            observed.folders[parent_path].folders.remove(name)
            observed.vanished = True
            return
        except OSError as problem:
            self._lose(observed, path, problem)
            return
        try:
            stack.append(self._look(observed, pool, descriptor, path, parent_scope, leave))
        except OSError as problem:
            os.close(descriptor)
            self._lose(observed, path, problem)

    def _lose(self, observed: Observed, path: str, problem: OSError) -> None:
        observed.unreadable.append(Remark(path, reason_of(problem)))
        observed.folders[path] = SeenFolder(
            path, self.seen_ns, observed.unreadable, self.before, lost=problem.errno or errno.EIO
        )

    def _look(
        self,
        observed: Observed,
        pool: HashPool,
        descriptor: int,
        path: str,
        parent_scope: Scope | None,
        leave: Leave | None,
    ) -> _Level:
        """List one open folder, judge its entries, and hash the files nothing vouches for."""
        seen = SeenFolder(path, self.seen_ns, observed.unreadable, self.before)
        with os.scandir(descriptor) as listing:
            listed = list(listing)
        names = [entry.name for entry in listed]
        scope = self._scope(path, parent_scope, descriptor, names)
        files, stats = self._judge(listed, names, scope, seen, observed)
        observed.folders[path] = seen
        if self.progress is not None:
            self.progress(len(files) + len(seen.folders))
        if self.before.stats_of(path) != stats:
            self._read(seen, files, pool, descriptor)
        elif not self.trust:
            self._compare(seen, files, pool, descriptor)
        mine = seen.folders
        if leave is not None and mine and (mine := leave(path, mine)) is not seen.folders:
            kept = frozenset(mine)
            others = (name for name in seen.folders if name not in kept)
            observed.left += (paths.join(path, name) for name in others)
        return descriptor, path, scope, mine[::-1]

    def _judge(
        self,
        listed: list[os.DirEntry[str]],
        names: list[str],
        scope: Scope,
        seen: SeenFolder,
        observed: Observed,
    ) -> tuple[list[_SeenFile], bytes]:
        """Sort a listing into files and links, folders (into `seen`), and what is skipped.

        Also returns the `stats` string of the folder as it is now. What can be told of all names
        at once is: whether any has to be escaped, and which of them a rule may have a say on.
        """
        text = "".join(names)
        plain = text.isascii() and text.isprintable() and "\\" not in text
        listed.sort(key=_NAME if plain else _raw_name)
        doubtful = scope.doubtful(names)
        files: list[_SeenFile] = []
        lines: list[bytes] = []
        folders, own, pack = seen.folders, self._own_inodes, filestat.PACK
        for entry in listed:
            name = entry.name
            raw = name.encode() if plain else os.fsencode(name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if name in doubtful and scope.ignores(raw, is_folder):
                continue
            if is_folder:
                folders.append(name if plain else paths.name_to_text(name))
                lines += (_FOLDER_HEADERS[len(raw)], raw)
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            kind, headers, inode = Kind.FILE, _FILE_HEADERS, stat.st_ino
            if stat.st_mode & _KIND_BITS != modes.S_IFREG or inode in own:
                if modes.S_ISLNK(stat.st_mode):
                    kind, headers = Kind.LINK, _LINK_HEADERS
                elif (reason := self.why_not_read(stat)) is not None:
                    where = paths.join(seen.path, paths.name_to_text(name))
                    observed.skipped.append(Remark(where, reason))
                    continue
            if stat.st_nlink > 1 and kind is Kind.FILE:
                observed.linked.add(paths.join(seen.path, paths.name_to_text(name)))
            files.append((name if plain else paths.name_to_text(name), name, stat, kind))
            try:
                packed = pack(inode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            except struct.error:
                packed = filestat.pack(stat)
            lines += (headers[len(raw)], raw, packed)
        return files, b"".join(lines)

    def why_not_read(self, stat: os.stat_result) -> str | None:
        """Why a file that is no link is left out, where it is."""
        if not modes.S_ISREG(stat.st_mode):
            return special_kind(stat.st_mode)
        return OWN if (stat.st_dev, stat.st_ino) in self.own else None

    def hash_one(self, folder: int, path: str, stat: os.stat_result) -> Reading:
        """Read one file of an open folder, unless it is large and somebody else reads it."""
        if self.large is not None and stat.st_size >= LARGE:
            return self.large.read(path, stat)
        name = paths.text_to_os(paths.split(path)[1])
        return hash_file(self.algorithm, name, folder, stat, self.between)

    def _scope(self, path: str, parent: Scope | None, descriptor: int, names: list[str]) -> Scope:
        if not path:
            return self.scopes.enter_root(descriptor, names)
        above, name = paths.split(path)
        parent = parent or self.scopes.of(above)
        return self.scopes.enter(parent, path, paths.text_to_bytes(name), descriptor, names)

    def _read(
        self, seen: SeenFolder, files: list[_SeenFile], pool: HashPool, descriptor: int
    ) -> None:
        entries = seen.entries = {}
        old = self.before.entries_of(seen.path) if self.trust else {}
        for name, os_name, stat, kind in files:
            known = old.get(name)
            if known is not None and known.kind is kind and known.stat == filestat.pack(stat):
                entries[name] = known
            elif kind is Kind.FILE:
                pool.submit(descriptor, os_name, name, stat, seen)
            else:
                self._read_link(seen, name, os_name, stat, descriptor)

    def _compare(
        self, seen: SeenFolder, files: list[_SeenFile], pool: HashPool, descriptor: int
    ) -> None:
        """Read the files of a folder that is, by its stats, as it was."""
        names = [name for name, _, _, kind in files if kind is Kind.FILE] + seen.folders
        names.sort(key=paths.sort_key if "\\" in "".join(names) else None)
        ids = self.before.ids_of(seen.path)
        if len(ids) != len(names):
            # A link is among them.
            self._read(seen, files, pool, descriptor)
            return
        seen.expected = dict(zip(names, ids, strict=True))
        for name, os_name, stat, _ in files:
            pool.submit(descriptor, os_name, name, stat, seen)

    def _read_link(
        self, seen: SeenFolder, name: str, os_name: str, stat: os.stat_result, descriptor: int
    ) -> None:
        assert seen.entries is not None
        try:
            target = os.fsencode(os.readlink(os_name, dir_fd=descriptor))
        except FileNotFoundError:
            return
        except OSError as problem:
            seen.keep_old(name, problem)
            return
        packed = filestat.vouching(stat, self.seen_ns)
        content_id = self.algorithm.of_link(target)
        seen.entries[name] = Entry(Kind.LINK, content_id, stat.st_size, packed)


# An open folder, its path, its rules where they are at hand, and the folders still to be entered.
_Level = tuple[int, str, Scope | None, list[str]]
# Name in text form and as the system gives it; what lstat said; file or link.
_SeenFile = tuple[str, str, os.stat_result, Kind]

_FILE_HEADERS: Final = HEADERS[Kind.FILE]
_FOLDER_HEADERS: Final = HEADERS[Kind.DIRECTORY]
_LINK_HEADERS: Final = HEADERS[Kind.LINK]
_NAME: Final = attrgetter("name")
_KIND_BITS: Final = 0o170000


def _raw_name(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)


def special_kind(mode: int) -> str:
    """The word for a file that is neither regular, folder nor link."""
    if modes.S_ISFIFO(mode):
        return "fifo"
    if modes.S_ISSOCK(mode):
        return "socket"
    if modes.S_ISDIR(mode):
        return "folder"
    return "device"
