"""Nodes as they are recorded, checked without putting their tree together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId, NodeId
from indexer.core.kinds import Kind
from indexer.core.tree import Totals

_KINDS = frozenset(map(int, Kind))
_FOLDER = int(Kind.DIRECTORY)


def add_up_to(
    algorithm: WorkspaceHash,
    nodes: Sequence[tuple[Any, ...]],
    root: NodeId,
    content_id: ContentId,
    totals: Totals,
) -> bool:
    """Whether nodes are one whole tree with this root, and every id follows from what is there.

    Each folder's id is compared with what its children's are recorded as: where that holds for
    all, it holds for the tree that they make. A node is its path, kind, ids and size.
    """
    if not nodes:
        return False
    named, kinds, content_ids, node_ids, sizes = zip(*nodes, strict=True)
    if not _KINDS.issuperset(kinds):
        return False
    raws = [path.encode() if "\\" not in path else paths.text_to_bytes(path) for path in named]
    if algorithm.node_ids(zip(kinds, raws, content_ids, strict=True)) != list(node_ids):
        return False
    children: dict[bytes, list[tuple[bytes, Kind, ContentId]]] = {
        raw: [] for raw, kind in zip(raws, kinds, strict=True) if kind == _FOLDER
    }
    for raw, kind, found in zip(raws, kinds, content_ids, strict=True):
        above, _, name = raw.rpartition(b"/")
        if raw:
            if above not in children:
                return False
            children[above].append((name, kind, found))
    ids = dict(zip(raws, content_ids, strict=True))
    for raw, listed in children.items():
        listed.sort()
        if algorithm.of_folder(algorithm.encode_children(listed), len(listed)) != ids[raw]:
            return False
    count = Counter(kinds)
    size = sum(size for size, kind in zip(sizes, kinds, strict=True) if kind != _FOLDER)
    counted = Totals(count[Kind.FILE], count[Kind.DIRECTORY], count[Kind.LINK], size)
    top = (paths.ROOT, _FOLDER, content_id, root)
    return counted == totals and any(node[:4] == top for node in nodes)
