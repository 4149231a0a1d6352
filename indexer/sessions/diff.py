"""What differs between two snapshots, node by node, with the id as identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from indexer.sessions.node import HEADERS, OPTIONAL, REFERENCES, Node
from indexer.sessions.selector import Selector
from indexer.sessions.selector_eval import evaluate
from indexer.sessions.view import View, document_key, preorder

_ORDER = {name: rank for rank, name in enumerate((*HEADERS, "parent", *OPTIONAL, REFERENCES))}


class Changed(TypedDict):
    """A node that is in both snapshots and not the same."""

    id: str
    fields: list[str]


class Diff(TypedDict):
    """The normative shape of a difference."""

    added: list[str]
    removed: list[str]
    changed: list[Changed]


class Moved(TypedDict):
    """A node that went and one that came with the same content."""

    removed: str
    added: str


def diff_views(older: View, newer: View, selector: Selector | None = None) -> Diff:
    """Ids that came, went and changed, in canonical order of the newer snapshot."""
    before, after = selected(older, selector), selected(newer, selector)
    known, left = frozenset(before), frozenset(before) - frozenset(after)
    changed: list[Changed] = []
    for node_id in (i for i in after if i in known):
        fields = changed_fields(older, newer, node_id)
        if fields:
            changed.append({"id": node_id, "fields": fields})
    return {
        "added": [i for i in after if i not in known],
        "removed": [i for i in before if i in left],
        "changed": changed,
    }


def selected(view: View, selector: Selector | None) -> list[str]:
    """The ids to compare, in canonical order: those a selector finds, or all."""
    if selector is None:
        return [node.id for node in preorder(view, view.root_id)]
    ids = evaluate(selector, view)
    return sorted(ids, key=lambda node_id: document_key(view, node_id))


def changed_fields(older: View, newer: View, node_id: str) -> list[str]:
    """Names of the headers that differ, content by its hash, place by the parent."""
    before, after = tracked(older, node_id), tracked(newer, node_id)
    names = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
    return sorted(names, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))


def tracked(view: View, node_id: str) -> dict[str, Any]:
    """Everything about a node that counts as a change when it differs."""
    node = view.node(node_id)
    assert node is not None
    return {**node.headers(), "parent": view.parent(node_id)}


def infer_moves(older: View, newer: View, difference: Diff) -> list[Moved]:
    """Pairs of removed and added blocks with equal content, each node in one pair at most."""
    waiting: dict[str, list[str]] = {}
    for node in _blocks(older, difference["removed"]):
        waiting.setdefault(node.content_hash or "", []).append(node.id)
    moves: list[Moved] = []
    for node in _blocks(newer, difference["added"]):
        partners = waiting.get(node.content_hash or "")
        if partners:
            moves.append({"removed": partners.pop(0), "added": node.id})
    return moves


def _blocks(view: View, ids: Sequence[str]) -> list[Node]:
    nodes = (view.node(node_id) for node_id in ids)
    return [node for node in nodes if node is not None and node.content_hash is not None]
