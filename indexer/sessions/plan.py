"""Content commits as plans: the record an append or an edit would add, checked before anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from indexer.core.canonical import canonical_json, content_hash
from indexer.core.tokens import TokenCounter
from indexer.sessions.content import (
    CALL_ID,
    TOOL_IO,
    ContentError,
    checked_content,
    kind_of,
    role_of,
    shown_of,
    text_of,
)
from indexer.sessions.log import EditTargetError, HashCollisionError, chain_hash
from indexer.sessions.node import (
    AH,
    BLOCK,
    CORE,
    EDIT_TYPE,
    SYS,
    Node,
    canonical_type,
    checked_attributes,
    checked_type,
    iso_of,
    node_content_hash,
    own_id,
    text,
    whole,
)
from indexer.sessions.placement import (
    IdTakenError,
    PlacementError,
    check_live,
    check_place,
    existing,
)
from indexer.sessions.records import APPEND, EDIT, CommitRecord, Placed
from indexer.sessions.state import State
from indexer.sessions.view import core_of, implicit_core, path, region_of

_REGIONS: Mapping[str, str] = {"sys": SYS, "ah": AH, SYS: SYS, AH: AH}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how a new block is to stand; what is not given is worked out."""

    region: str | None = None
    parent: str | None = None
    offset: int | None = None
    ttl: int | None = None
    priority: int | None = None
    id: str | None = None
    node_type: str = "cb"
    role: str | None = None
    kind: str | None = None
    references: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    provenance: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What is written beside a commit and takes no part in its hash."""

    message: str | None = None
    metadata: Mapping[str, Any] | None = None


def plan_append(
    state: State,
    content: Mapping[str, Any],
    at_ns: int,
    counter: TokenCounter,
    where: Placement,
    note: Note,
) -> CommitRecord:
    """The record that adds a block; nothing is changed."""
    checked = checked_content(content, state.version)
    if canonical_type(where.node_type) != BLOCK:
        raise PlacementError(f"a node of type {where.node_type} holds no content")
    if where.node_type == EDIT_TYPE:
        raise PlacementError(f"a block of type {EDIT_TYPE} comes from an edit only")
    parent, offset = _parent_for(state, checked["content_type"], where)
    placed: list[Placed] = []
    if parent is None:
        core = container(state, CORE, 0, at_ns, state.creation_index)
        check_place(state.work(), state.history.regions[AH], CORE, 0)
        placed.append(Placed(state.history.regions[AH], core))
        parent = core.id
    else:
        check_place(state.work(), parent, where.node_type, offset)
    node = _block(state, checked, replace(where, offset=offset), at_ns, len(placed))
    placed.append(Placed(parent, node))
    return _commit(state, checked, at_ns, counter, placed, note, None)


def plan_edit(
    state: State,
    target: str,
    content: Mapping[str, Any],
    at_ns: int,
    counter: TokenCounter,
    where: Placement,
    note: Note,
) -> CommitRecord:
    """The record that edits a block: a new block beside the one it replaces when compiled."""
    checked = checked_content(content, state.version)
    commit = state.log.edit_target(target)
    _check_direction(state.log.content(commit), checked)
    view = state.work()
    node = view.node(state.log.node_of(commit.commit_hash))
    if node is None:
        raise EditTargetError(f"{target} is no longer in the tree")
    ids = path(view, node.id)
    if region_of(view, node.id) == SYS:
        # Behind all that is there: time decides among siblings, and never goes back.
        parent, offset = ids[-2], node.offset
    else:
        turn = 1 if ids[1] == state.history.regions[AH] else 2
        parent, offset = ids[turn], max(1, existing(view, ids[turn + 1]).offset)
    if commit.content_type == checked["content_type"] == TOOL_IO:
        where = _as_it_was(where, node)
    placed = replace(
        where,
        offset=offset,
        node_type=EDIT_TYPE,
        references=(node.id, *where.references),
        ttl=_ttl_with(state, ids) if where.ttl is None else where.ttl,
        priority=node.priority if where.priority is None else where.priority,
    )
    check_place(view, parent, EDIT_TYPE, offset)
    edit = _block(state, checked, placed, at_ns, 0)
    return _commit(state, checked, at_ns, counter, [Placed(parent, edit)], note, commit.commit_hash)


def _as_it_was(where: Placement, node: Node) -> Placement:
    """The placement of an edit of a call or result, which stays whose it was and what it was."""
    kept = {CALL_ID: node.attributes[CALL_ID]} if CALL_ID in node.attributes else {}
    return replace(
        where,
        role=where.role or node.role,
        kind=where.kind or node.kind,
        attributes={**kept, **where.attributes},
    )


def _check_direction(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse an edit that would make a result of a call, or the other way round."""
    if before["content_type"] != TOOL_IO or after["content_type"] != TOOL_IO:
        return
    if before["direction"] != after["direction"]:
        raise ContentError(
            f"an edit cannot turn a {before['direction']} into a {after['direction']}",
            hint="append the other one as a block of its own",
        )


def plan_replace(
    state: State,
    target: str,
    content: Mapping[str, Any],
    at_ns: int,
    counter: TokenCounter,
    note: Note,
) -> CommitRecord:
    """The record that gives a block that is live another content in its place."""
    checked = checked_content(content, state.version)
    commit = state.log.edit_target(target)
    node_id = state.log.node_of(commit.commit_hash)
    node = check_live(state.work(), node_id, state.history.committed(node_id))
    before = state.log.content(state.log.shown(commit))
    for name in ("content_type", "role", "direction"):
        if checked.get(name) != before.get(name):
            raise EditTargetError(
                f"{node.id} stays what it is: its {name} is {before.get(name)!r}",
                hint="remove it and append another one instead",
            )
    return _commit(state, checked, at_ns, counter, [], note, commit.commit_hash, node_id)


def plan_imported(
    state: State, node: Node, content: Mapping[str, Any], at_ns: int, counter: TokenCounter
) -> CommitRecord:
    """The record that enters a block of an imported tree into the chain, an edit as an edit."""
    checked = checked_content(content, state.version)
    target = state.log.of_node(node.references[0]) if node.references else None
    edits = node.node_type == EDIT_TYPE and target is not None and target.operation == APPEND
    reply_to = target.commit_hash if edits and target is not None else None
    return _commit(state, checked, at_ns, counter, [], Note(), reply_to, node.id)


def _parent_for(state: State, content_type: str, where: Placement) -> tuple[str | None, int]:
    """The parent and offset a block gets; no parent where the active head needs a core first."""
    offset = whole("offset", where.offset or 0)
    if where.parent is not None:
        return where.parent, offset
    default = SYS if content_type == "instruction" else AH
    region = _REGIONS.get(where.region or default)
    if region is None:
        raise PlacementError(f"a block goes to sys or ah, not {where.region!r}")
    head = state.history.regions[region]
    if region == SYS or offset != 0:
        return head, offset
    view = state.work()
    core = core_of(view, head)
    if core is not None:
        return core.id, offset
    return (head if implicit_core(view, existing(view, head)) else None), offset


def _block(
    state: State, content: Mapping[str, Any], where: Placement, at_ns: int, ahead: int
) -> Node:
    """The node of a block, with the headers this moment gives it; `ahead` stand before it."""
    for target in where.references:
        existing(state.work(), target)
    index = state.creation_index + ahead
    node = Node(
        id="",
        node_type=checked_type(where.node_type),
        offset=whole("offset", where.offset),
        ttl=None if where.ttl is None else whole("ttl", where.ttl, least=0),
        priority=whole("priority", where.priority or 0),
        cycle=state.working_cycle,
        created_at_ns=at_ns + ahead,
        created_at_iso=iso_of(at_ns + ahead),
        creation_index=index,
        role=role_of(content) if where.role is None else text("role", where.role),
        kind=kind_of(content) if where.kind is None else text("kind", where.kind),
        provenance=None if where.provenance is None else text("provenance", where.provenance),
        references=tuple(dict.fromkeys(where.references)),
        attributes=checked_attributes(where.attributes),
    )
    node = node.with_content(shown_of(content, node.attributes, state.version))
    hashed = node.content_hash or ""
    made = own_id(state.name, state.working_cycle, index, hashed)
    new_id = where.id if where.id is not None else made
    # The log keeps content by hash; the node gets its own when the record is applied.
    return replace(node, id=fresh_id(state, new_id), content=None, content_hash=None)


def container(state: State, node_type: str, offset: int, ns: int, index: int) -> Node:
    """A container node of the session's own making."""
    cycle = state.working_cycle
    return Node(
        id=fresh_id(state, own_id(state.name, cycle, index, node_content_hash({}))),
        node_type=node_type,
        offset=offset,
        cycle=cycle,
        created_at_ns=ns,
        created_at_iso=iso_of(ns),
        creation_index=index,
    )


def fresh_id(state: State, node_id: str) -> str:
    """An id nobody has used in this session."""
    if text("id", node_id).startswith("^"):
        raise IdTakenError(f"{node_id!r}: ids that begin with ^ are kept for regions")
    if state.history.knows(node_id):
        raise IdTakenError(f"the id {node_id!r} was used before in this session")
    return node_id


def _ttl_with(state: State, ids: list[str]) -> int | None:
    """The ttl with which an edit goes when its target does, or what the target stands in."""
    nodes = [existing(state.work(), node_id) for node_id in ids]
    left = [ttl for n in nodes if (ttl := remaining_ttl(n, state.working_cycle)) is not None]
    return min(left, default=None)


def remaining_ttl(node: Node, cycle: int) -> int | None:
    """The ttl with which a node of this cycle expires together with another."""
    return None if node.expires is None else max(0, node.expires - cycle)


def _commit(
    state: State,
    content: Mapping[str, Any],
    at_ns: int,
    counter: TokenCounter,
    placed: list[Placed],
    note: Note,
    reply_to: str | None,
    node_id: str | None = None,
) -> CommitRecord:
    """The commit of a checked content, its hash computed last."""
    hashed = content_hash(content)
    known = state.log.blobs.find(hashed)
    if known is not None and canonical_json(dict(known)) != canonical_json(dict(content)):
        raise HashCollisionError(hashed)
    tokens = counter.count_text(text_of(content))
    metadata = None if note.metadata is None else json.loads(canonical_json(dict(note.metadata)))
    record = CommitRecord(
        seq=state.next_seq,
        at_ns=at_ns,
        commit_hash="",
        parent_hash=state.log.head,
        content_hash=hashed,
        content_type=content["content_type"],
        operation=APPEND if reply_to is None else EDIT,
        timestamp_iso=iso_of(at_ns),
        node_id=node_id if node_id is not None else placed[-1].node.id,
        token_count=tokens,
        reply_to=reply_to,
        message=note.message,
        metadata=metadata,
        content=None if known is not None else content,
        placed=tuple(placed),
    )
    return replace(record, commit_hash=chain_hash(record))
