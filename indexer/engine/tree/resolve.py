"""From what a user typed to a node: a path, or a unique prefix of a NodeID."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.ids import NodeId, is_id_prefix
from indexer.core.paths import on_screen
from indexer.core.tree import Tree
from indexer.errors import UsageError
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


_ALIKE: Final = 0.75
_GUESSED_AMONG: Final = 1000
"""Names that are compared at most: many names may come from a pipe, each of them wrong."""

_CANDIDATES: Final = 6
"""Nodes of one name that are listed."""


class UnknownNodeError(UsageError):
    """Nothing in the index is called that."""

    code = "unknown_node"


class AmbiguousNodeError(UsageError):
    """More than one node could be meant."""

    code = "ambiguous_node"


class NodeDocument(TypedDict):
    """Where a node argument leads."""

    path: str
    kind: str
    node_id: str
    content_id: str
    size: int
    superseded: bool


def resolve(engine: Engine, node: str, *, by_name: bool = False) -> NodeDocument:
    """The node that a path or an id prefix stands for.

    With `by_name`, what is no path counts as the end of one, where only one node's ends so.
    """
    try:
        return resolve_node(engine.tree, engine.trees, node)
    except UnknownNodeError:
        if not by_name or node.startswith(("path:", "id:")):
            raise
        named = _ending_in(engine.tree, paths.parse(node))
        if not named:
            raise
    if len(named) > 1:
        listed = ", ".join(map(on_screen, named[:_CANDIDATES]))
        more = f" and {len(named) - _CANDIDATES:,} more" if len(named) > _CANDIDATES else ""
        raise AmbiguousNodeError(
            f"{on_screen(node)} could be one of {len(named):,}: {listed}{more}",
            hint="give more of the path",
        )
    return resolve_node(engine.tree, engine.trees, f"path:{named[0]}")


def _ending_in(tree: Tree, end: str) -> list[str]:
    """The paths that end in some names, in byte order."""
    folder, name = paths.split(end)
    found = [
        paths.join(around, name)
        for around, each in tree.folders()
        if name and name in each.entries and f"/{around}".endswith(f"/{folder}" if folder else "")
    ]
    return sorted(found, key=paths.sort_key)


def resolve_node(tree: Tree, store: TreeStore, text: str) -> NodeDocument:
    """The node that a path or an id prefix stands for; `path:` or `id:` says which is meant."""
    if text.startswith("path:"):
        return _by_path(tree, paths.parse(text.removeprefix("path:")))
    if text.startswith("id:"):
        prefix = text.removeprefix("id:")
        if not is_id_prefix(prefix):
            raise UnknownNodeError(
                f"{on_screen(prefix)!r} is no id prefix",
                hint="give 6 or more lower-case hexadecimal digits",
            )
        return _by_id(tree, store, prefix)
    path = paths.parse(text)
    if tree.get(path) is None and is_id_prefix(text):
        return _by_id(tree, store, text)
    return _by_path(tree, path)


def _by_path(tree: Tree, path: str) -> NodeDocument:
    entry = tree.get(path)
    if entry is None:
        shown = on_screen(path)
        hint = f"`merkle scan` brings it up to date; `merkle status --why-ignored {shown}` tells"
        hint += " whether a rule leaves it out"
        if path.isidentifier():
            hint = f"`merkle definition {shown}` tells where a symbol of that name is; {hint}"
        raise UnknownNodeError(f"{shown} is not in the index{_guess(tree, path)}", hint=hint)
    return _document(tree, path, tree.node_id(path, entry), superseded=False)


def _guess(tree: Tree, path: str) -> str:
    """A neighbour of nearly the same name, if there is one."""
    # Imported late: only a mistyped name needs it.
    import difflib

    parent, name = paths.split(path)
    folder = tree.folder(parent)
    if folder is None or len(folder.entries) > _GUESSED_AMONG:
        return ""
    # Whoever leaves out an ending means the one file that begins like that.
    near = [each for each in folder.entries if each.startswith(name + ".")]
    if len(near) != 1:
        near = difflib.get_close_matches(name, folder.entries, n=1, cutoff=_ALIKE)
    return f"; did you mean {on_screen(paths.join(parent, near[0]))}?" if near else ""


def _by_id(tree: Tree, store: TreeStore, prefix: str) -> NodeDocument:
    hits = store.nodes_by_prefix(prefix)
    present = [hit for hit in hits if hit[2] and tree.get(hit[0]) is not None]
    candidates = present or hits
    if not candidates:
        raise UnknownNodeError(
            f"no node has or had an id that begins with {prefix}",
            hint="`merkle sql 'SELECT path, node_id FROM nodes'` lists them",
        )
    if len({hit[1] for hit in candidates}) > 1:
        listed = ", ".join(f"{hit[1].hex()[:12]} ({on_screen(hit[0])})" for hit in candidates[:4])
        raise AmbiguousNodeError(f"{prefix} is ambiguous: {listed}", hint="give more digits")
    path, node_id, _ = candidates[0]
    return _document(tree, path, node_id, superseded=not present)


def _document(tree: Tree, path: str, node_id: NodeId, *, superseded: bool) -> NodeDocument:
    entry = tree.get(path)
    return {
        "path": path,
        "kind": entry.kind.label if entry else "gone",
        "node_id": node_id.hex(),
        "content_id": entry.content_id.hex() if entry else "",
        "size": entry.size if entry else 0,
        "superseded": superseded,
    }


class RuleDocument(TypedDict):
    """A rule of an ignore file, or a built-in one."""

    pattern: str
    source: str
    line: int
    negated: bool


class WhyIgnoredDocument(TypedDict):
    """Result of `status --why-ignored`."""

    path: str
    ignored: bool
    rule: RuleDocument | None


def why_ignored(engine: Engine, path: str) -> WhyIgnoredDocument:
    """The rule that leaves a path out of the tree, or lets it in.

    It is judged as what is on disk there, and as a folder when in doubt.
    """
    text, path = path, paths.parse(path)
    # Not by pathlib, which fails on a name that is longer than any can be.
    is_folder = os.path.isdir(engine.root / paths.text_to_os(path)) or text.endswith("/")
    rule = engine.disk.scopes.judge(path, is_folder) if path else None
    kept_by = None
    if rule is None and path:
        parent, name = paths.split(path)
        kept_by = engine.disk.scopes.of(parent).why(paths.text_to_bytes(name), is_folder)
    named = rule or kept_by
    return {
        "path": path,
        "ignored": rule is not None,
        "rule": None
        if named is None
        else {
            "pattern": named.pattern,
            "source": named.source,
            "line": named.line,
            "negated": named.negated,
        },
    }
