"""What leaves the tree at a commit: expiry, cascade and pruning, in that order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from indexer.errors import UsageError
from indexer.sessions.liveness import Liveness
from indexer.sessions.node import AH, EDIT_TYPE, Node
from indexer.sessions.view import View, document_key, path, preorder


class PolicyError(UsageError):
    """A pruning policy that cannot be followed."""

    code = "E_POLICY_INVALID"


@dataclass(frozen=True, slots=True)
class PrunePolicy:
    """Limits that pruning keeps; a limit of None is not set, a limit of 0 keeps nothing."""

    max_nodes: int | None = None
    max_tokens: int | None = None
    protect_turns: int = 0

    def __post_init__(self) -> None:
        for name in ("max_nodes", "max_tokens", "protect_turns"):
            value = getattr(self, name)
            optional = value is None and name != "protect_turns"
            if not optional and (type(value) is not int or value < 0):
                raise PolicyError(f"{name} must be a whole number from 0 on, not {value!r}")

    def to_json(self) -> dict[str, Any]:
        """The policy as a JSON value."""
        return {
            "max_nodes": self.max_nodes,
            "max_tokens": self.max_tokens,
            "protect_turns": self.protect_turns,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PrunePolicy:
        """The policy written by `to_json`."""
        return cls(data["max_nodes"], data["max_tokens"], data["protect_turns"])


@dataclass(frozen=True, slots=True)
class Departures:
    """Which nodes a commit removes and why, and what it had to leave standing."""

    expired: tuple[str, ...]
    cascaded: tuple[str, ...]
    pruned: tuple[str, ...]
    deferred: tuple[str, ...]
    kept_empty: tuple[str, ...]

    @property
    def removed(self) -> tuple[str, ...]:
        """Every node that goes."""
        return (*self.expired, *self.cascaded, *self.pruned)


@dataclass(slots=True)
class _Leaving:
    """The set of nodes that go, as it grows."""

    view: View
    live: Liveness
    gone: dict[str, None] = field(default_factory=dict)

    def below(self, node_id: str) -> list[Node]:
        """A node and what is below it, as far as it stays."""
        return [node for node in preorder(self.view, node_id) if node.id not in self.gone]

    def with_edits(self, node_id: str) -> dict[str, None]:
        """A node, what is below it, and the edits of all that; apart they would mislead."""
        found = {node.id: None for node in self.below(node_id)}
        pending = list(found)
        while pending:
            for referrer in self.live.referrers.get(pending.pop(), ()):
                node = self.view.node(referrer)
                if node is not None and node.node_type == EDIT_TYPE and referrer not in found:
                    more = [n.id for n in self.below(referrer)]
                    found.update(dict.fromkeys(more))
                    pending.extend(more)
        return found

    def protected(self, ids: Iterable[str], going: Mapping[str, None]) -> bool:
        """Whether something that stays refers to one of these nodes."""
        return any(
            referrer not in self.gone and referrer not in going
            for node_id in ids
            for referrer in self.live.referrers.get(node_id, ())
        )

    def released(self, ids: Iterable[str]) -> dict[str, None]:
        """Deferred nodes that these nodes referred to."""
        targets = (t for i in ids if (n := self.view.node(i)) is not None for t in n.references)
        return {t: None for t in targets if t in self.live.deferred and t not in self.gone}


def plan_departures(
    view: View,
    live: Liveness,
    cycle: int,
    policy: PrunePolicy | None,
    *,
    pinned: Callable[[str], bool],
    tokens: Callable[[str], int],
) -> Departures:
    """Decide what the commit of a cycle removes, without changing anything."""
    leaving = _Leaving(view, live)
    expired, deferred = _expire(leaving, live.candidates(cycle))
    lost = {parent: None for i in expired if (parent := view.parent(i)) is not None}
    cascaded, kept_empty = _cascade(leaving, {**live.touched, **lost})
    pruned: list[str] = []
    if policy is not None:
        pruned = _prune(leaving, policy, pinned, tokens)
        lost = {parent: None for i in pruned if (parent := view.parent(i)) is not None}
        more, kept = _cascade(leaving, lost)
        cascaded, kept_empty = cascaded + more, {**kept_empty, **kept}
    ordered = sorted(expired, key=lambda node_id: document_key(view, node_id))
    still = (i for i in deferred if i not in leaving.gone)
    return Departures(
        tuple(ordered), tuple(cascaded), tuple(pruned), tuple(sorted(still)), tuple(kept_empty)
    )


def _expire(leaving: _Leaving, candidates: dict[str, None]) -> tuple[list[str], dict[str, None]]:
    """Let expired nodes go with everything below them, except where a reference protects."""
    asked = dict(candidates)
    while True:
        below = {i: [n.id for n in leaving.below(i)] for i in asked}
        going = _unprotected(leaving, below)
        more = {i: None for i in leaving.released(going) if i not in asked}
        if not more:
            leaving.gone.update(going)
            return list(going), {i: None for i in asked if i not in going}
        asked.update(more)


def _unprotected(leaving: _Leaving, below: dict[str, list[str]]) -> dict[str, None]:
    """The largest set of subtrees that nothing outside of it refers to."""
    chosen = dict(below)
    while True:
        going = {node_id: None for ids in chosen.values() for node_id in ids}
        kept = [root for root, ids in chosen.items() if leaving.protected(ids, going)]
        if not kept:
            return going
        for root in kept:
            del chosen[root]


def _cascade(leaving: _Leaving, parents: Iterable[str]) -> tuple[list[str], dict[str, None]]:
    """Remove removable containers that have become empty, and those that this empties."""
    removed: list[str] = []
    kept: dict[str, None] = {}
    here = (i for i in parents if leaving.view.node(i) is not None)
    # In document order: what a session was loaded from must not show in its log.
    pending = sorted(here, key=lambda node_id: document_key(leaving.view, node_id))
    while pending:
        node = leaving.view.node(pending.pop(0))
        if node is None or not node.removable or node.id in leaving.gone:
            continue
        if any(child.id not in leaving.gone for child in leaving.view.children(node.id)):
            continue
        if leaving.protected((node.id,), {}):
            kept[node.id] = None
            continue
        leaving.gone[node.id] = None
        removed.append(node.id)
        parent = leaving.view.parent(node.id)
        if parent is not None:
            pending.append(parent)
    return removed, kept


def _prune(
    leaving: _Leaving,
    policy: PrunePolicy,
    pinned: Callable[[str], bool],
    tokens: Callable[[str], int],
) -> list[str]:
    """Remove blocks by priority, age and id until the limits hold or only protected ones stay."""
    load = _Load(policy, tokens)
    staying = [i for i in leaving.live.blocks if i not in leaving.gone]
    load.add(staying, 1)
    if not load.over():
        return []
    pruned: list[str] = []
    order = _prunable(leaving.view, staying, policy, pinned)
    progress = True
    # Pruning a block can lift the protection of one that came earlier in the order.
    while progress:
        progress = False
        for node in order:
            if not load.over():
                return pruned
            below = leaving.with_edits(node.id)
            if not below or leaving.protected(below, below) or any(map(pinned, below)):
                continue
            leaving.gone.update(below)
            load.add((i for i in below if i in leaving.live.blocks), -1)
            pruned.extend(below)
            progress = True
    return pruned


def _prunable(
    view: View, blocks: list[str], policy: PrunePolicy, pinned: Callable[[str], bool]
) -> list[Node]:
    """Blocks that no pin and no recent turn protects, first to go first; edits go with theirs."""
    shelter = _sheltered(view, policy.protect_turns)
    nodes = (node for i in blocks if not pinned(i) and (node := view.node(i)) is not None)
    free = (node for node in nodes if node.node_type != EDIT_TYPE)
    found = [node for node in free if shelter.isdisjoint(path(view, node.id))]
    return sorted(found, key=lambda node: (node.priority, node.created_at_ns, node.id))


@dataclass(slots=True)
class _Load:
    """How much stays, against the limits of a policy."""

    policy: PrunePolicy
    tokens: Callable[[str], int]
    count: int = 0
    total: int = 0

    def add(self, ids: Iterable[str], sign: int) -> None:
        for node_id in ids:
            self.count += sign
            if self.policy.max_tokens is not None:
                self.total += sign * self.tokens(node_id)

    def over(self) -> bool:
        nodes, tokens = self.policy.max_nodes, self.policy.max_tokens
        return (nodes is not None and self.count > nodes) or (
            tokens is not None and self.total > tokens
        )


def _sheltered(view: View, turns: int) -> frozenset[str]:
    """The active head and the newest sealed turns, which pruning leaves alone."""
    return frozenset((view.region_id(AH), *(turn.id for turn in islice(view.turns(), turns))))
