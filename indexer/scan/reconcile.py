"""From paths that events named to a new tree: `lstat` decides what is there now."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from indexer.core import filestat, paths
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.scan.assemble import assemble
from indexer.scan.large_files import BeingReadError
from indexer.scan.reading import TornReadError, open_folder
from indexer.scan.scopes import RULE_FILES
from indexer.scan.walk import MAX_DEPTH, Remark, Walker, not_read, reason_of


@dataclass(slots=True, eq=False, repr=False)
class Reconciled:
    """A tree brought up to date in the places that were named."""

    tree: Tree
    walked: list[str] = field(default_factory=list)
    """Folders that were looked at with everything below them."""
    looked: list[str] = field(default_factory=list)
    """Single paths that were looked at."""
    hashed: int = 0
    skipped: list[Remark] = field(default_factory=list)
    unreadable: list[Remark] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    """Files that changed under our eyes: to be looked at again."""
    linked: set[str] = field(default_factory=set)
    """Files with another name besides."""


def reconcile(walker: Walker, tree: Tree, dirty: Iterable[tuple[str, bool]]) -> Reconciled:
    """Look at each dirty path (with `deep`, at everything below it) and apply what is found.

    Raises OSError when the root itself cannot be opened.
    """
    found = Reconciled(tree)
    deep, shallow = _split(walker, tree, dirty)
    found.walked, found.looked = deep, shallow
    for path in deep:
        _look_deep(walker, found, path)
    updates: dict[str, dict[str, Entry | None]] = {}
    walked, folders = set(deep), _OpenFolders(walker)
    with contextlib.closing(folders):
        for path in shallow:
            if walked.isdisjoint((path, *paths.ancestors(path))):
                _look_at(walker, found, updates, folders, path)
    # A folder may have gone while its neighbours were looked at; its own event will come.
    standing = {
        path: changes
        for path, changes in updates.items()
        if found.tree.folder(path) and not _is_replaced(path, updates)
    }
    if standing:
        found.tree = found.tree.with_updates(standing)
    return found


def _is_replaced(path: str, updates: Mapping[str, Mapping[str, Entry | None]]) -> bool:
    """Whether the updates replace or remove a folder, or one around it."""
    while path:
        path, name = paths.split(path)
        if name in updates.get(path, ()):
            return True
    return False


def _split(
    walker: Walker, tree: Tree, dirty: Iterable[tuple[str, bool]]
) -> tuple[list[str], list[str]]:
    """Split into folders to walk (outermost only) and single paths."""
    deep: set[str] = set()
    shallow: set[str] = set()
    for path, below in dirty:
        parent, name = paths.split(path)
        is_rules = name in RULE_FILES
        if is_rules:
            walker.scopes.forget(parent)
        if tree.folder(parent) is None:
            # Inside a folder that is itself new, that folder has to be walked.
            deep.add(_first_unknown(tree, path))
        elif is_rules:
            # Other rules: everything they reach has to be judged again.
            deep.add(parent)
        elif below or not path:
            deep.add(path)
        else:
            shallow.add(path)
    outermost = [path for path in sorted(deep) if deep.isdisjoint(paths.ancestors(path))]
    return outermost, sorted(shallow)


def _first_unknown(tree: Tree, path: str) -> str:
    """The topmost part of a path that is not yet a folder in the tree."""
    return next(
        (above for above in reversed(paths.ancestors(path)) if tree.folder(above) is None), path
    )


def _look_deep(walker: Walker, found: Reconciled, path: str) -> None:
    """Walk a folder; when it is not one (any more), look at it as a single path."""
    if paths.depth(path) > MAX_DEPTH:
        return
    if path and walker.scopes.ignores(path, is_folder=True):
        # There may be a file now, which a rule for folders does not mean.
        _look_alone(walker, found, path)
        return
    try:
        observed = walker.walk(path)
    except OSError as problem:
        if not path:
            raise
        if problem.errno in (errno.EACCES, errno.EPERM, errno.EIO):
            found.unreadable.append(Remark(path, reason_of(problem)))
            known = found.tree.folder(path)
            if known is not None:
                _apply(found, path, known.made_unreadable(problem.errno).as_entry())
            return
        _look_alone(walker, found, path)
        return
    found.hashed += observed.hashed
    found.unreadable += observed.unreadable
    found.skipped += observed.skipped
    found.linked |= observed.linked
    folder = assemble(found.tree, observed, path)
    if folder is None:
        return
    if not path:
        found.tree = Tree(found.tree.algorithm, folder)
    else:
        _apply(found, path, folder.as_entry())


def _look_alone(walker: Walker, found: Reconciled, path: str) -> None:
    """Look at a single path and apply at once what is found."""
    updates: dict[str, dict[str, Entry | None]] = {}
    with contextlib.closing(_OpenFolders(walker)) as folders:
        _look_at(walker, found, updates, folders, path)
    if updates:
        found.tree = found.tree.with_updates(updates)


def _apply(found: Reconciled, path: str, entry: Entry) -> None:
    parent, name = paths.split(path)
    known = found.tree.folder(parent)
    if known is None:
        return
    old = known.entries.get(name)
    if old is None or old.folder is None or old.folder is not entry.folder:
        found.tree = found.tree.with_updates({parent: {name: entry}})


class _OpenFolders:
    """Descriptors of the folders that a batch's files are in, each opened once."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._open: dict[str, int] = {}

    def get(self, path: str) -> int:
        """A descriptor; raises OSError when the folder is gone or no longer a folder."""
        if path not in self._open:
            # A batch may touch thousands of folders; descriptors are few.
            if len(self._open) >= 128:
                self.close()
            self._open[path] = open_folder(self._walker.root, path)
        return self._open[path]

    def close(self) -> None:
        """Close them all."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


def _look_at(
    walker: Walker,
    found: Reconciled,
    updates: dict[str, dict[str, Entry | None]],
    folders: _OpenFolders,
    path: str,
) -> None:
    """Look at one path whose folder is in the tree."""
    parent, name = paths.split(path)
    known = found.tree.folder(parent)
    if known is None:
        return
    old = known.entries.get(name)
    try:
        folder = folders.get(parent)
        stat = os.stat(paths.text_to_os(name), dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        # When the parent is what went, its own event says so; a look at the child is idle.
        if old is not None and _still_a_folder(walker, parent):
            updates.setdefault(parent, {})[name] = None
        return
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            found.unreadable.append(Remark(path, reason_of(problem)))
            marked = not_read(old, problem) if old is not None and old.folder is None else old
            if marked != old:
                updates.setdefault(parent, {})[name] = marked
        return
    is_folder = modes.S_ISDIR(stat.st_mode)
    if walker.scopes.ignores(path, is_folder):
        if old is not None:
            updates.setdefault(parent, {})[name] = None
        return
    if is_folder:
        if old is None or old.kind is not Kind.DIRECTORY:
            _look_deep(walker, found, path)
        return
    entry = _read(walker, found, folder, path, stat, old)
    if entry != old:
        updates.setdefault(parent, {})[name] = entry


def _still_a_folder(walker: Walker, path: str) -> bool:
    try:
        os.close(open_folder(walker.root, path))
    except OSError:
        return False
    return True


def _read(
    walker: Walker,
    found: Reconciled,
    folder: int,
    path: str,
    stat: os.stat_result,
    old: Entry | None,
) -> Entry | None:
    """The entry of a file or link as it is now; the old one when it cannot be told."""
    name = paths.text_to_os(paths.split(path)[1])
    is_link = modes.S_ISLNK(stat.st_mode)
    kind = Kind.LINK if is_link else Kind.FILE
    reason = None if is_link else walker.why_not_read(stat)
    if reason is not None:
        found.skipped.append(Remark(path, reason))
        return None
    if not is_link and stat.st_nlink > 1:
        found.linked.add(path)
    if old is not None and old.kind is kind and old.stat == filestat.pack(stat):
        return old
    open_to_others = False
    try:
        if is_link:
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            content_id = walker.algorithm.of_link(target)
        else:
            content_id, stat, open_to_others = walker.hash_one(folder, path, stat)
            found.hashed += 1
    except FileNotFoundError:
        return None
    except TornReadError as problem:
        found.unsettled.append(path)
        return old and not_read(old, problem)
    except (OSError, BeingReadError) as problem:
        found.unreadable.append(Remark(path, reason_of(problem)))
        return old and not_read(old, problem)
    packed = filestat.vouching(stat, walker.seen_ns, open_to_others)
    return Entry(kind, content_id, stat.st_size, packed)
