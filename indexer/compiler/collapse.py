"""The collapse policy: which of the selected nodes are dropped, and which shrink to a reference."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from indexer.compiler.events import Node
from indexer.compiler.plugins import Plugins, collapsed_by
from indexer.compiler.policy import COLLAPSE_MODES, CollapsePolicy
from indexer.compiler.selection import Selection, keep_newest, whole_pairs


def within_target(selection: Selection, policy: CollapsePolicy) -> tuple[Node, ...]:
    """The selected nodes without the oldest above the target; what is held stays."""
    newest = keep_newest(selection.nodes, policy.target, selection.pinned_ids, selection.held_ids)
    return whole_pairs(selection.nodes, newest)


def ids_to_collapse(
    nodes: Sequence[Node], policy: CollapsePolicy, held: AbstractSet[str], plugins: Plugins
) -> tuple[str, ...]:
    """What the mode names, as far as its kind may be collapsed and nobody pinned it."""
    if policy.mode == "none" or not nodes:
        return ()
    if policy.mode in COLLAPSE_MODES:
        newest = max(nodes, key=lambda node: node.age_key)
        named = frozenset(node.id for node in nodes if node is not newest)
    else:
        named = collapsed_by(plugins, nodes, policy)
    kinds = policy.kind_allowlist
    return tuple(
        node.id
        for node in nodes
        if node.id in named and node.id not in held and (kinds is None or node.kind in kinds)
    )
