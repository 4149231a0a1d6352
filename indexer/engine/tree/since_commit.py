"""`diff` without arguments: what changed since git's last commit, or since the last root."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.changes import Change, summarize, tree_changes
from indexer.core.frames import Freshness
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.engine.code.symbol_changes import Symbols, symbols_between
from indexer.engine.code.symbols import symbols_in
from indexer.engine.documents import DiffDocument, NoteChangeDocument
from indexer.engine.frames.freshness import judge, symbol_in
from indexer.engine.tree.history import diff
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import UncheckedError
from indexer.scan.git import Blob, Commit, contents, last_commit

if TYPE_CHECKING:
    from indexer.core.hashing import WorkspaceHash
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine
    from indexer.scan.scopes import Scopes

COMMIT = "git:"
"""Stands before the id of a commit where otherwise that of a root is."""


def changes(engine: Engine) -> DiffDocument:
    """What is on disk now against git's last commit; without one, against the last root.

    Without git and without a change on disk it is the newest root against the one before.
    """
    if engine.trees.head() is None:
        raise UncheckedError("nothing has been recorded yet", hint="run `merkle scan` first")
    recorded, present = engine.tree, tree_as_on_disk(engine, paths.ROOT)
    commit = last_commit(engine.root)
    if commit is not None:
        found, read = _since(engine.root, engine.disk.scopes, present, commit)
        return _document(engine.frames, f"{COMMIT}{commit.id}", present, found, read)
    found = tree_changes(recorded, present)
    if found or engine.trees.count_roots() < 2:
        return _document(engine.frames, recorded.root_id.hex(), present, found, {})
    return diff(engine, "@-1", "@-0")


def _since(
    root: Path, scopes: Scopes, tree: Tree, commit: Commit
) -> tuple[list[Change], dict[str, Symbols | None]]:
    """The files that differ from a commit, and the symbols that it has in those that changed."""
    now = {path: entry for path, entry in tree.walk() if entry.folder is None}
    found = [Change(path, None, entry) for path, entry in now.items() if path not in commit.files]
    doubtful = [
        path for path, blob in commit.files.items() if _may_differ(scopes, now, commit, path, blob)
    ]
    read: dict[str, Symbols | None] = {}
    objects = (commit.files[path].object for path in doubtful)
    for path, content in zip(doubtful, contents(root, objects), strict=False):
        old = _entry(tree.algorithm, commit.files[path].kind, content)
        new = now.get(path)
        if new is None or (old.kind, old.content_id) != (new.kind, new.content_id):
            found.append(Change(path, old, new))
            read[path] = None if content is None else symbols_in(path, content)
    return found, read


def _may_differ(
    scopes: Scopes, now: Mapping[str, Entry], commit: Commit, path: str, blob: Blob
) -> bool:
    entry = now.get(path)
    if entry is None:
        # What git keeps and a rule leaves out here was never in the tree.
        return not scopes.ignores(path, is_folder=False)
    return path in commit.touched or blob.kind is not entry.kind


def _entry(algorithm: WorkspaceHash, kind: Kind, content: bytes | None) -> Entry:
    if content is None:
        return Entry(kind, algorithm.of_file(b""), 0)
    of = algorithm.of_link if kind is Kind.LINK else algorithm.of_file
    return Entry(kind, of(content), len(content))


def _document(
    frames: Frames,
    old: str,
    present: Tree,
    found: list[Change],
    read: dict[str, Symbols | None],
) -> DiffDocument:
    summary = summarize(found)
    return {
        "old": old,
        "new": present.root_id.hex(),
        "added": list(summary.added),
        "removed": list(summary.removed),
        "modified": list(summary.modified),
        "renamed": [
            {"old": one.old, "new": one.new, "kind": one.kind.label} for one in summary.renamed
        ],
        "symbols": symbols_between(frames.code, found, read),
        "frames": [],
        "notes": _notes(frames, present, found),
    }


def _notes(frames: Frames, tree: Tree, found: list[Change]) -> list[NoteChangeDocument]:
    """The notes about what changed that do not hold any more."""
    live = [
        (one.path, slot, head) for one in found for slot, head in frames.heads.notes_at(one.path)
    ]
    frames.load_note_inputs(head.frame_id for _, _, head in live)
    told: list[NoteChangeDocument] = []
    for path, slot, head in live:
        judged = judge(frames, tree, path, *slot, head)
        if judged.freshness in (Freshness.STALE, Freshness.ORPHANED):
            told.append(
                {
                    "path": path,
                    "symbol": symbol_in(frames.note_inputs(head.frame_id)),
                    "type": slot[0],
                    "agent": slot[1],
                    "frame_id": head.frame_id.hex(),
                    "change": judged.freshness.value,
                    "from": None,
                }
            )
    return sorted(told, key=lambda one: (one["path"], one["type"], one["agent"], one["frame_id"]))
