"""Tree operations as plans: the records that group, move, set, remove, seal and annotate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from indexer.core.canonical import canonical_json
from indexer.errors import UsageError
from indexer.sessions.budget import TokenBudget
from indexer.sessions.content import CALL_ID, DIRECTIONS, PRIORITIES
from indexer.sessions.lifecycle import Departures, plan_departures
from indexer.sessions.node import (
    AH,
    CORE,
    SEQ,
    TURN,
    Node,
    checked_attributes,
    checked_type,
    iso_of,
    own_id,
    whole,
)
from indexer.sessions.placement import (
    ReferencedError,
    check_live,
    check_movable,
    check_no_cycle,
    check_place,
    existing,
)
from indexer.sessions.plan import Placement, container, fresh_id, remaining_ttl
from indexer.sessions.records import OpRecord, Placed
from indexer.sessions.state import State
from indexer.sessions.view import core_of, preorder, region_of

OPEN: Final = "open"
GROUP: Final = "group"
MOVE: Final = "move"
REMOVE: Final = "remove"
SEAL: Final = "seal"
ANNOTATE: Final = "annotate"
ATTEMPT: Final = "attempt"
BUDGET: Final = "budget"
SET: Final = "set"
STATUSES: Final = ("running", "completed", "canceled", "error")


class AnnotationError(UsageError):
    """An annotation that says nothing known."""

    code = "E_ANNOTATION_INVALID"


class UnchangedError(UsageError):
    """A change that would change nothing."""

    code = "E_UNCHANGED"


class AttemptError(UsageError):
    """An attempt record that does not fit what was recorded before."""

    code = "E_ATTEMPT_INVALID"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One provider call within a cycle, as told by whoever makes it."""

    attempt_id: str
    status: str
    provider: str
    model: str
    params: Mapping[str, Any]
    token_in: int | None = None
    token_out: int | None = None
    error: str | None = None


def plan_group(state: State, where: Placement, removable: bool, at_ns: int) -> OpRecord:
    """The record that adds an empty container."""
    view = state.work()
    parent = where.parent or state.history.regions[AH]
    offset = whole("offset", where.offset or 0)
    node_type = checked_type(where.node_type)
    check_place(view, parent, node_type, offset)
    index = state.creation_index
    node = replace(
        container(state, node_type, offset, at_ns, index),
        ttl=None if where.ttl is None else whole("ttl", where.ttl, least=0),
        priority=whole("priority", where.priority or 0),
        removable=removable,
        attributes=checked_attributes(where.attributes),
    )
    if where.id is not None:
        node = replace(node, id=fresh_id(state, where.id))
    return OpRecord(state.next_seq, at_ns, GROUP, Placed(parent, node).to_json())


def plan_move(
    state: State, node_id: str, parent_id: str, offset: int | None, at_ns: int
) -> OpRecord:
    """The record that hangs a node elsewhere, as another node where a snapshot would show it."""
    view = state.work()
    node = check_movable(view, node_id)
    existing(view, parent_id)
    check_no_cycle(view, node_id, parent_id)
    place = node.offset if offset is None else whole("offset", offset)
    check_place(view, parent_id, node.node_type, place, moving=node_id)
    data: dict[str, Any] = {"id": node_id, "parent": parent_id, "offset": place}
    crosses = region_of(view, node_id) != (region_of(view, parent_id))
    if crosses and state.history.committed(node_id):
        _check_unreferenced(state, node_id)
        data["again"] = _again(state, replace(node, offset=place), parent_id, at_ns)
    return OpRecord(state.next_seq, at_ns, MOVE, data)


def _again(state: State, top: Node, parent_id: str, at_ns: int) -> list[dict[str, Any]]:
    """A subtree under new ids, because snapshots go on to show it under the old ones."""
    view = state.work()
    renamed: dict[str, str] = {}
    placed: list[dict[str, Any]] = []
    for step, old in enumerate(preorder(view, top.id)):
        index = state.creation_index + step
        new_id = own_id(state.name, state.working_cycle, index, old.content_hash or "")
        renamed[old.id] = fresh_id(state, new_id)
        node = replace(
            top if old.id == top.id else old,
            id=renamed[old.id],
            ttl=remaining_ttl(old, state.working_cycle),
            cycle=state.working_cycle,
            created_at_ns=at_ns + step,
            created_at_iso=iso_of(at_ns + step),
            creation_index=index,
            references=tuple(renamed.get(target, target) for target in old.references),
        )
        above = parent_id if old.id == top.id else renamed[view.parent(old.id) or ""]
        placed.append({"was": old.id, **Placed(above, node).to_json()})
    return placed


def plan_set(state: State, node_id: str, changes: Mapping[str, Any], at_ns: int) -> OpRecord:
    """The record that gives a node that is live other headers: ttl, priority, attributes.

    An attribute that is null goes.
    """
    node = check_live(state.work(), node_id, state.history.committed(node_id))
    data: dict[str, Any] = {"id": node_id}
    if "ttl" in changes:
        ttl = changes["ttl"]
        data["ttl"] = None if ttl is None else whole("ttl", ttl, least=0)
    if "priority" in changes:
        data["priority"] = whole("priority", changes["priority"])
    if "attributes" in changes:
        data["attributes"] = checked_attributes(changes["attributes"])
    if len(data) == 1 or with_headers(node, data) == node:
        raise UnchangedError(f"{node_id} is as it should be", hint="say what is to change")
    return OpRecord(state.next_seq, at_ns, SET, data)


def with_headers(node: Node, data: Mapping[str, Any]) -> Node:
    """A node with the headers that a record sets."""
    kept = {**node.attributes, **data.get("attributes", {})}
    changed = replace(
        node,
        ttl=data.get("ttl", node.ttl),
        priority=data.get("priority", node.priority),
        attributes={key: value for key, value in sorted(kept.items()) if value is not None},
    )
    if node.content is None:
        return changed
    content = node.content
    if node.kind in DIRECTIONS and isinstance(content, dict) and "call_id" in content:
        content = {**content, "call_id": changed.attributes.get(CALL_ID)}
    # Attributes take part in the hash of what a block holds.
    return changed.with_content(content)


def plan_remove(state: State, node_id: str, at_ns: int) -> OpRecord:
    """The record that takes a node and everything below it out of the working tree."""
    check_movable(state.work(), node_id)
    _check_unreferenced(state, node_id)
    return OpRecord(state.next_seq, at_ns, REMOVE, {"id": node_id})


def _check_unreferenced(state: State, node_id: str) -> None:
    below = {node.id for node in preorder(state.work(), node_id)}
    for target in below:
        for referrer in state.live.referrers.get(target, ()):
            if referrer not in below:
                raise ReferencedError(
                    f"{target} is referred to by {referrer}", hint=f"remove {referrer} first"
                )


def plan_seal(state: State, at_ns: int) -> OpRecord:
    """The record that commits the cycle: expiry, cascade, pruning, then the new turn."""
    view = state.work()
    leaving = plan_departures(
        view,
        state.live,
        state.working_cycle,
        state.policy,
        pinned=state.pinned,
        tokens=state.tokens,
    )
    newest = next(iter(view.turns()), None)
    index = state.creation_index
    # A turn stands behind all others, whatever offsets an imported tree gave them.
    turn = container(state, TURN, newest.offset if newest is not None else 0, at_ns, index)
    data: dict[str, Any] = {
        "cycle": state.working_cycle,
        "turn": Placed(state.history.regions[SEQ], turn).to_json(),
    }
    if _needs_core(state, leaving):
        core = container(state, CORE, 0, at_ns + 1, index + 1)
        data["core"] = Placed(turn.id, core).to_json()
    for name in ("expired", "cascaded", "pruned", "deferred", "kept_empty"):
        data[name] = list(getattr(leaving, name))
    return OpRecord(state.next_seq, at_ns, SEAL, data)


def _needs_core(state: State, leaving: Departures) -> bool:
    view = state.work()
    head = state.history.regions[AH]
    gone = frozenset(leaving.removed)
    core = core_of(view, head)
    if core is not None:
        return core.id in gone
    return all(node.offset != 0 or node.id in gone for node in view.children(head))


def plan_annotate(
    state: State, target: str, priority: str, reason: str | None, at_ns: int
) -> OpRecord:
    """The record that pins, skips or frees a commit."""
    if priority not in PRIORITIES:
        known = ", ".join(PRIORITIES)
        raise AnnotationError(f"unknown priority {priority!r}", hint=f"use one of: {known}")
    commit = state.log.resolve(target)
    data: dict[str, Any] = {"target": commit.commit_hash, "priority": priority}
    if reason is not None:
        data["reason"] = reason
    return OpRecord(state.next_seq, at_ns, ANNOTATE, data)


def plan_budget(state: State, budget: TokenBudget, at_ns: int) -> OpRecord:
    """The record that gives a session another budget."""
    return OpRecord(state.next_seq, at_ns, BUDGET, budget.to_json())


def plan_attempt(
    state: State, attempt: Attempt, at_ns: int, sent: Mapping[str, Any] | None = None
) -> OpRecord:
    """The record of a provider call or of its end, beside the history.

    `sent` tells what was sent; it is told once, with the first record of an attempt.
    """
    if attempt.status not in STATUSES:
        raise AttemptError(f"unknown status {attempt.status!r}: use one of {', '.join(STATUSES)}")
    known = state.log.attempts.get(attempt.attempt_id)
    if known is not None and known["status"] != STATUSES[0]:
        raise AttemptError(f"attempt {attempt.attempt_id} has already ended")
    now = iso_of(at_ns)
    params = hashlib.sha256(canonical_json(dict(attempt.params))).hexdigest()
    data: dict[str, Any] = {
        "attempt_id": attempt.attempt_id,
        "cycle_id": state.working_cycle if known is None else known["cycle_id"],
        "status": attempt.status,
        "started_at": now if known is None else known["started_at"],
        "ended_at": None if attempt.status == STATUSES[0] else now,
        "provider": attempt.provider,
        "model": attempt.model,
        "params": {"sha256": params},
        "token_in": attempt.token_in,
        "token_out": attempt.token_out,
    }
    if attempt.error is not None:
        data["error"] = attempt.error
    told = sent if known is None else known.get("sent")
    if told is not None:
        data["sent"] = dict(told)
    return OpRecord(state.next_seq, at_ns, ATTEMPT, data)
