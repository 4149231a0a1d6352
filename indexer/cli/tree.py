"""The recorded tree for `status --tree`: ids, names and sizes, indented like the folders."""

from __future__ import annotations

from typing import Final

import click

from indexer.cli.columns import listed_name, pad, size, width
from indexer.core import paths
from indexer.engine.documents import JsonObject
from indexer.service.workspace import Workspace

_EVERYTHING: Final = 10_000_000
_TIMEOUT: Final = 60.0
_DIGITS: Final = 10
_WIDEST: Final = 72
_COLUMNS: Final = ("path", "kind", "node_id", "content_id", "size")


def tree_nodes(workspace: Workspace, depth: int | None) -> list[JsonObject]:
    """Every recorded node down to a depth, parents first, siblings in byte order."""
    where = ""
    if depth is not None:
        where = f"WHERE path = '' OR length(path) - length(replace(path, '/', '')) < {depth:d}"
    found = workspace.sql(
        f"SELECT {', '.join(_COLUMNS)} FROM nodes {where}", limit=_EVERYTHING, timeout=_TIMEOUT
    )
    nodes = [dict(zip(_COLUMNS, row, strict=True)) for row in found["rows"]]
    return sorted(nodes, key=lambda node: paths.sort_key(node["path"]).split(b"/"))


def tree_text(nodes: list[JsonObject]) -> str:
    """The nodes as lines: NodeID, drawn branch and name, size."""
    # Nodes come in the order of the drawing, so the last one seen of a folder is its last child.
    last = {paths.split(node["path"])[0]: node["path"] for node in nodes if node["path"]}
    names = (listed_name(paths.split(node["path"])[1], node["kind"]) for node in nodes)
    lines = [
        (node, _branch(node["path"], last) + name) for node, name in zip(nodes, names, strict=True)
    ]
    widest = min(_WIDEST, max((width(drawn) for _, drawn in lines), default=0))
    return "\n".join(
        f"{click.style(node['node_id'][:_DIGITS], fg='cyan')}  {pad(drawn, widest)}  "
        + click.style(f"{size(node['size']):>10}", dim=True)
        for node, drawn in lines
    )


def _branch(place: str, last: dict[str, str]) -> str:
    """The lines that lead from the root to a node."""
    drawn = ""
    here = place
    while here:
        folder = paths.split(here)[0]
        ends = last[folder] == here
        if here == place:
            drawn = "└── " if ends else "├── "
        else:
            drawn = ("    " if ends else "│   ") + drawn
        here = folder
    return drawn
