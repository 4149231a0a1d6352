"""A tree from the rows of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from indexer.core import filestat, listing, paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.listing import Listing
from indexer.core.tree import Entry, Folder, Tree
from indexer.errors import CorruptError
from indexer.store.database import Row

GONE: Final = 0
"""What stands for the kind of a node that is no longer there."""
_FOLDER: Final = int(Kind.DIRECTORY)
# Looking a kind up is cheaper than making it from its number.
_KINDS: Final = {int(kind): kind for kind in Kind}


def vouched(listings: Mapping[str, Listing], id_size: int) -> dict[tuple[str, bytes], bytes]:
    """Stats by (path, content id): a pair stays true even when the tree has moved on."""
    return {
        (paths.join(folder, listed.name), listed.content_id): listed.stat
        for folder, found in listings.items()
        for listed in listing.decode(found, id_size)
        if listed.kind is not Kind.DIRECTORY
    }


def tree_from_rows(
    algorithm: WorkspaceHash,
    rows: Iterable[Row],
    stats: Mapping[tuple[str, bytes], bytes],
) -> Tree:
    """The tree of nodes by path, kind, content id and size, with the stats that vouch for some."""
    children: dict[str, dict[str, Entry]] = {paths.ROOT: {}}
    above, around = paths.ROOT, children[paths.ROOT]
    for path, code, content_id, size in rows:
        if code == _FOLDER:
            children.setdefault(path, {})
        elif code != GONE:
            parent, name = paths.split(path)
            if parent != above:
                # Most rows stand beside those of the same folder.
                above, around = parent, children.setdefault(parent, {})
            stat = stats.get((path, content_id)) or filestat.unvouched(size)
            kind = _KINDS.get(code) or kind_of(code)
            around[name] = Entry(kind, ContentId(content_id), size, stat)
    return _build(algorithm, children)


def kind_of(code: int) -> Kind:
    """The kind that a row names."""
    try:
        return Kind(code)
    except ValueError:
        raise CorruptError(
            f"the index lists a node of kind {code}", hint="run `merkle doctor` for what to do"
        ) from None


def _build(algorithm: WorkspaceHash, children: dict[str, dict[str, Entry]]) -> Tree:
    """Fold folders into their parents, deepest first."""
    for path in sorted(children, key=paths.depth, reverse=True):
        if path:
            parent, name = paths.split(path)
            if parent not in children:
                raise CorruptError(
                    f"the index lists {path} but not the folder around it",
                    hint="run `merkle doctor` for what to do",
                )
            children[parent][name] = Folder.of(algorithm, children[path]).as_entry()
    return Tree(algorithm, Folder.of(algorithm, children[paths.ROOT]))
