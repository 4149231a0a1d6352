"""`log` and `diff`: recorded roots and what lies between two of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import Count
from indexer.core.changes import Change, summarize
from indexer.core.clock import iso_utc
from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import NodeId, is_id_prefix
from indexer.core.tree import Entry
from indexer.engine.code.known import KnownFacts
from indexer.engine.code.symbol_changes import symbols_between
from indexer.engine.documents import DiffDocument, JsonObject
from indexer.engine.search.manifests import PREFIX, compare_manifests, find_manifest, has_manifest
from indexer.engine.tree.lost import LostDocument, lost_documents, lost_text
from indexer.engine.tree.note_changes import Side, notes_between
from indexer.errors import UsageError
from indexer.store.code import CodeStore
from indexer.store.frames import FrameStore, Made
from indexer.store.roots import Root
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

MISSING: Final = "missing"
"""A frame was made for what a node held, and none for what it holds."""

_BATCHES_AGO: Final = re.compile(r"@-(\d{1,9})")


class UnknownRootError(UsageError):
    """No recorded root is meant by that."""

    code = "unknown_root"


class RootDocument(TypedDict):
    """One line of `log`."""

    seq: int
    root: str
    at: str
    cause: str
    added: int
    modified: int
    removed: int
    renamed: int
    nodes: int


class LogDocument(TypedDict):
    """Result of `log`."""

    roots: list[RootDocument]
    lost: list[LostDocument]


def log(engine: Engine, limit: Count = 20) -> LogDocument:
    """Recorded roots, newest first."""
    return {
        "roots": [
            {
                "seq": root.seq,
                "root": root.root.hex(),
                "at": iso_utc(root.at_ns),
                "cause": root.cause,
                "added": root.added,
                "modified": root.modified,
                "removed": root.removed,
                "renamed": root.renamed,
                "nodes": root.totals.nodes,
            }
            for root in engine.trees.roots(limit)
        ],
        "lost": lost_documents(engine.trees),
    }


def find_root(trees: TreeStore, text: str) -> Root:
    """The recorded root that `@-N` or an id prefix stands for."""
    head = trees.head()
    if head is None:
        raise UnknownRootError("nothing has been recorded yet", hint="run `merkle scan` first")
    if match := _BATCHES_AGO.fullmatch(text):
        found = trees.root_before(int(match.group(1)))
        if found is None:
            raise UnknownRootError(
                f"{text} goes back too far: the oldest recorded root is"
                f" @-{trees.count_roots() - 1}",
                hint=_forgotten(trees) or "`merkle log` lists them",
            )
        return found
    if not is_id_prefix(text):
        raise UnknownRootError(
            f"{text!r} is neither a root id (6 or more hexadecimal digits) nor @-N",
            hint="`merkle log` lists the recorded roots",
        )
    hits = trees.roots_by_prefix(text)
    if not hits:
        raise UnknownRootError(
            f"no recorded root begins with {text}",
            hint=_forgotten(trees, text) or "`merkle log` lists the recorded roots",
        )
    if len(hits) > 1:
        listed = ", ".join(hit.root.hex()[:16] for hit in hits[:5])
        raise UnknownRootError(f"{text} is ambiguous: {listed}", hint="give more digits")
    return hits[0]


def _forgotten(trees: TreeStore, prefix: str = "") -> str | None:
    """What became of older roots, where some were forgotten or lost."""
    if lost := [each for each in trees.lost() if prefix and each.root.hex().startswith(prefix)]:
        return lost_text(lost[0].first, lost[0].last)
    oldest = trees.root_at(trees.oldest_seq())
    if oldest is None or oldest.seq == 1:
        return None
    return (
        f"roots from before {iso_utc(oldest.at_ns)} were forgotten by `merkle compact`,"
        " as `history.keep` and `history.keep_count` say"
    )


def _is_manifest(store: Callable[[], FrameStore], trees: TreeStore, text: str) -> bool:
    """Whether a manifest is meant; digits that begin a root's id too are refused."""
    if text.startswith(PREFIX):
        find_manifest(store(), text)
        return True
    # The store is opened only where it could be one: a damaged journal hides no root.
    if not is_id_prefix(text) or not has_manifest(store(), text):
        return False
    if trees.roots_by_prefix(text):
        raise UnknownRootError(
            f"{text} begins a root's id and a manifest's",
            hint=f"write {PREFIX}{text}, or more digits",
        )
    return True


def diff(engine: Engine, old: str, new: str) -> DiffDocument:
    """What differs between two recorded roots, or between two recorded manifests."""
    trees = engine.trees
    kinds = [_is_manifest(lambda: engine.frames.store, trees, text) for text in (old, new)]
    if all(kinds):
        return compare_manifests(engine.frames.store, old, new)
    if any(kinds):
        raise UnknownRootError(
            f"one of {old} and {new} is a manifest, the other is not",
            hint="compare two manifests or two roots",
        )
    before, after = find_root(trees, old), find_root(trees, new)
    changes = trees.changes_between(before.seq, after.seq)
    summary = summarize(changes)
    store = FrameStore(engine.database)
    made = _made_between(engine.algorithm, store, changes)
    return {
        "old": before.root.hex(),
        "new": after.root.hex(),
        "added": list(summary.added),
        "removed": list(summary.removed),
        "modified": list(summary.modified),
        "renamed": [
            {"old": rename.old, "new": rename.new, "kind": rename.kind.label}
            for rename in summary.renamed
        ],
        "symbols": symbols_between(KnownFacts(CodeStore(engine.database)), changes),
        "frames": frames_between(changes, *made),
        "notes": notes_between(
            engine.frames,
            trees,
            changes,
            Side(before.seq, made[0]),
            Side(after.seq, made[1]),
        ),
    }


_MadeAt = dict[str, Made]
"""By path, the frames that generators made for what it held."""


def _made_between(
    algorithm: WorkspaceHash, store: FrameStore, changes: Sequence[Change]
) -> tuple[_MadeAt, _MadeAt]:
    """The frames that generators made for what changed paths held before and hold after."""

    def node_of(path: str, entry: Entry | None) -> NodeId | None:
        if entry is None:
            return None
        return algorithm.node_id(entry.kind, paths.text_to_bytes(path), entry.content_id)

    nodes = [(one.path, node_of(one.path, one.old), node_of(one.path, one.new)) for one in changes]
    named = [node for _, *both in nodes for node in both if node is not None]
    # Of the database alone: a damaged journal is no reason not to read it.
    made = store.made_for(named, GENERATED_AGENT_PREFIX)
    before = {path: made[old] for path, old, _ in nodes if old in made}
    after = {path: made[new] for path, _, new in nodes if new in made}
    return before, after


def frames_between(
    changes: Sequence[Change], made_before: _MadeAt, made_after: _MadeAt
) -> list[JsonObject]:
    """The frames that generators made for what two roots hold differently.

    A frame is bound to content, not to a root: one that came late counts for the root it is about.
    """
    none: Made = {}
    found: list[JsonObject] = []
    for path, _, new in sorted(changes, key=lambda change: change.path):
        before, after = made_before.get(path, none), made_after.get(path, none)
        for slot in sorted({*before, *after}):
            was, now = before.get(slot), after.get(slot)
            change = "modified" if was and now else "added" if now else "removed"
            if now is None and new is not None:
                change = MISSING
            found.append(
                {
                    "path": path,
                    "type": slot[0],
                    "agent": slot[1],
                    "change": change,
                    "old": was and was.hex(),
                    "new": now and now.hex(),
                }
            )
    return found
