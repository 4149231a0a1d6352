"""What differs between two trees, and which of it is a rename."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Folder, Tree


class Change(NamedTuple):
    """One path that holds something else than before; None means it was or is not there."""

    path: str
    old: Entry | None
    new: Entry | None


Node = tuple[str, int, bytes | None, bytes | None, int | None]
"""A path, and what the log has of it: kind, content id, NodeID and size."""


class Rename(NamedTuple):
    """A node that went from one path to another with its content unchanged."""

    old: str
    new: str
    kind: Kind


class Summary(NamedTuple):
    """A set of changes as people see it: paths, sorted; renames are also in added and removed."""

    added: tuple[str, ...]
    modified: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: tuple[Rename, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def tree_changes(old: Tree, new: Tree) -> list[Change]:
    """Every path that differs, folders included; branches with equal ids are not entered."""
    found: list[Change] = []
    if old.root.content_id == new.root.content_id:
        return found
    found.append(Change(paths.ROOT, old.root.as_entry(), new.root.as_entry()))
    stack: list[tuple[str, Folder | None, Folder | None]] = [(paths.ROOT, old.root, new.root)]
    while stack:
        path, before, after = stack.pop()
        for name in _names(before, after):
            was = before.entries.get(name) if before else None
            entry = after.entries.get(name) if after else None
            if was is entry or (was and entry and was[1] == entry[1] and was[0] is entry[0]):
                continue
            where = paths.join(path, name)
            found.append(Change(where, was, entry))
            below = was.folder if was else None, entry.folder if entry else None
            if below != (None, None):
                stack.append((where, *below))
    return found


def _names(before: Folder | None, after: Folder | None) -> Iterable[str]:
    """The names of a folder that may have changed."""
    if before is None:
        return after.entries if after else ()
    return after.touched_since(before) if after else before.entries


def node_of(algorithm: WorkspaceHash, path: str, entry: Entry) -> Node:
    """A node as the log has it."""
    kind, content_id = entry[0], entry[1]
    raw = path.encode() if "\\" not in path else paths.text_to_bytes(path)
    # A bare number: the database library takes an enum the long way.
    return path, int(kind), content_id, algorithm.node_id(kind, raw, content_id), entry[2]


def nodes_of(
    algorithm: WorkspaceHash, start: str, folder: Folder, known: Container[str] = ()
) -> list[Node]:
    """A folder and every node below it as the log has them, but for the folders in `known`."""
    found: list[Node] = []
    stack = [(start, folder.as_entry())]
    while stack:
        path, entry = stack.pop()
        found.append(node_of(algorithm, path, entry))
        assert entry.folder is not None
        for name, below in entry.folder.entries.items():
            where = paths.join(path, name)
            if below[4] is None:
                found.append(node_of(algorithm, where, below))
            elif where not in known:
                stack.append((where, below))
    return found


def first_changes(tree: Tree) -> list[Change]:
    """What a first scan adds: every node, the root among them."""
    return [Change(path, None, entry) for path, entry in tree.walk()]


class Counts(NamedTuple):
    """How many paths were added, modified, removed and renamed."""

    added: int
    modified: int
    removed: int
    renamed: int


def count(changes: Sequence[Change]) -> Counts:
    """The sizes of what `summarize` lists, without sorting anything."""
    added = modified = removed = 0
    for _, old, new in changes:
        if old is None:
            added += 1
        elif new is None:
            removed += 1
        elif old[0] is not new[0] or new[0] is not Kind.DIRECTORY:
            modified += 1
    renamed = len(find_renames(changes)) if added and removed else 0
    return Counts(added, modified, removed, renamed)


def summarize(changes: Sequence[Change]) -> Summary:
    """Sort changes into added, modified, removed and renamed; a folder is modified only in kind."""
    added, modified, removed = [], [], []
    for path, old, new in changes:
        if old is None:
            added.append(path)
        elif new is None:
            removed.append(path)
        elif old.kind is not new.kind or new.kind is not Kind.DIRECTORY:
            modified.append(path)
    return Summary(
        tuple(sorted(added, key=paths.sort_key)),
        tuple(sorted(modified, key=paths.sort_key)),
        tuple(sorted(removed, key=paths.sort_key)),
        tuple(find_renames(changes)),
    )


def find_renames(changes: Sequence[Change]) -> list[Rename]:
    """Pair each content that disappeared once with the same content that appeared once.

    Folders come first, and what lies below a renamed folder went with it. Empty files are never
    paired: one is as good as any other, so that equal ids show nothing.
    """
    gone = {change.path: change.old for change in changes if change.old and not change.new}
    come = {change.path: change.new for change in changes if change.new and not change.old}
    renames: list[Rename] = []
    for kinds in ((Kind.DIRECTORY,), (Kind.FILE, Kind.LINK)):
        old_side = _unique_by_content(gone, kinds)
        new_side = _unique_by_content(come, kinds)
        for key in sorted(old_side.keys() & new_side.keys()):
            renames.append(Rename(old_side[key], new_side[key], key[0]))
        if kinds == (Kind.DIRECTORY,):
            renames = _outermost(renames)
            gone = _without(gone, [rename.old for rename in renames])
            come = _without(come, [rename.new for rename in renames])
    return sorted(renames)


def _unique_by_content(
    entries: dict[str, Entry], kinds: tuple[Kind, ...]
) -> dict[tuple[Kind, ContentId], str]:
    keyed = {
        path: (entry.kind, entry.content_id)
        for path, entry in entries.items()
        if entry.kind in kinds and not _is_hollow(entry)
    }
    counts = Counter(keyed.values())
    return {key: path for path, key in keyed.items() if counts[key] == 1}


def _is_hollow(entry: Entry) -> bool:
    """Whether it is an empty file, or a folder of nothing but such."""
    if entry.folder is not None:
        return entry.folder.totals.files > 0 and not entry.size
    return entry.kind is Kind.FILE and not entry.size


def _outermost(renames: list[Rename]) -> list[Rename]:
    """Leave out a folder that moved only because the folder around it did."""
    moved = {(rename.old, rename.new) for rename in renames}
    kept = []
    for rename in renames:
        old, new = rename.old, rename.new
        carried = False
        while old and new and paths.split(old)[1] == paths.split(new)[1]:
            old, new = paths.split(old)[0], paths.split(new)[0]
            if (old, new) in moved:
                carried = True
                break
        if not carried:
            kept.append(rename)
    return kept


def _without(entries: dict[str, Entry], folders: list[str]) -> dict[str, Entry]:
    if not folders:
        return entries
    roots = set(folders)
    return {
        path: entry
        for path, entry in entries.items()
        if path not in roots and roots.isdisjoint(paths.ancestors(path))
    }
