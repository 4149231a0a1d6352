"""From what a walk saw to a new tree that shares every folder that did not change."""

from __future__ import annotations

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.listing import ListedFolder
from indexer.core.tree import Entry, Folder, Tree
from indexer.scan.walk import Observed


def assemble(old: Tree, observed: Observed, start: str = paths.ROOT) -> Folder | None:
    """The folder at `start` as it is now; None when it was lost and never known."""
    touched = _touched(observed)
    built: dict[str, Folder | None] = {}
    for path, seen in reversed(observed.folders.items()):
        if path not in touched and path != start:
            continue
        before = old.folder(path)
        if seen.lost:
            built[path] = before.made_unreadable(seen.lost) if before else None
            continue
        if seen.stored is not None:
            content_id, listings, _ = seen.stored
            # Copied: what is decoded is taken out.
            built[path] = ListedFolder(old.algorithm, dict(listings), path, content_id)
            continue
        if seen.whole:
            assert before is not None, path
            built[path] = before
            continue
        below = {
            name: built[where]
            if (where := paths.join(path, name)) in touched
            else old.folder(where)
            for name in seen.folders
        }
        if seen.entries is None:
            assert before is not None, path
            built[path] = _with_new_folders(old.algorithm, before, below)
        else:
            entries: dict[str, Entry] = dict(seen.entries)
            entries.update((name, sub.as_entry()) for name, sub in below.items() if sub)
            # The old object when nothing differs: identity means "unchanged, stats included".
            same = before is not None and before.entries == entries
            built[path] = before if same else Folder.of(old.algorithm, entries)
    return built[start]


def _touched(observed: Observed) -> set[str]:
    """The folders that are not as they were, and those around them."""
    if observed.vanished:
        return set(observed.folders)
    touched: set[str] = set()
    for path, seen in observed.folders.items():
        if seen.is_changed():
            touched.update((path, *paths.ancestors(path)))
    return touched


def _with_new_folders(
    algorithm: WorkspaceHash, before: Folder, below: dict[str, Folder | None]
) -> Folder:
    changes: dict[str, Entry | None] = {}
    for name, sub in below.items():
        was = before.entries.get(name)
        if sub is None:
            changes[name] = None
        elif was is None or was.folder is not sub:
            changes[name] = sub.as_entry()
    # A sub-folder that vanished between listing and entering is not among `below`.
    for name, entry in before.entries.items():
        if entry.folder is not None and name not in below:
            changes[name] = None
    return before.with_changes(algorithm, changes) if changes else before
