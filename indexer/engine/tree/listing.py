"""`ls`: what is in a folder, and how much is known about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from indexer.core import paths
from indexer.engine.frames.coverage import Known
from indexer.engine.tree.resolve import UnknownNodeError, resolve_node
from indexer.engine.tree.scan import tree_as_on_disk

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class ListedDocument(TypedDict):
    """One line of `ls`."""

    path: str
    name: str
    kind: str
    size: int
    nodes: int
    """How many there are at and below it."""
    freshness: str
    """The worst that can be said of the frames about the node itself; `none` without any."""
    counts: dict[str, int]
    """How many of the nodes at and below it are `fresh`, `stale`, and so on, or have `none`."""
    notes: int
    """How many notes there are about it."""


class ListingDocument(TypedDict):
    """Result of `ls`."""

    path: str
    kind: str
    entries: list[ListedDocument]


def ls(engine: Engine, node: str = "") -> ListingDocument:
    """The children of a folder, or a file alone: kind, size, and how fresh what is known is."""
    path = resolve_node(engine.tree, engine.trees, node)["path"] if node else paths.ROOT
    tree = tree_as_on_disk(engine, path)
    with engine.coverage as coverage:
        coverage.bring_up_to(tree)
        here = coverage.known(path)
        if here is None:
            raise UnknownNodeError(f"{paths.on_screen(path)} is gone", hint="run `merkle scan`")
        folder = tree.folder(path)
        names = [paths.join(path, name) for name in folder.entries] if folder else [path]
        known = [coverage.known(name) for name in names]
    notes = engine.frames.heads.notes
    entries = [_listed(one, len(notes.get(one.path, ()))) for one in known if one is not None]
    return {"path": path, "kind": here.kind, "entries": entries}


def _listed(one: Known, notes: int) -> ListedDocument:
    return {
        "path": one.path,
        "name": one.name,
        "kind": one.kind,
        "size": one.bytes,
        "nodes": one.nodes,
        "freshness": one.state,
        "counts": {word: count for word, count in one.counts.items() if count},
        "notes": notes,
    }
