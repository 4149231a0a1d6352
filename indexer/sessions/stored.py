"""A session's state as rows of a store and back, without replaying its log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from indexer.sessions import operations as ops
from indexer.sessions.apply import FORMATS
from indexer.sessions.budget import TokenBudget
from indexer.sessions.content import shown_of
from indexer.sessions.history import Delta, History, Version
from indexer.sessions.keeping import DELETE, FORK, RESTORE
from indexer.sessions.lifecycle import PrunePolicy
from indexer.sessions.log import Blobs
from indexer.sessions.node import REGIONS, ROOT, Node
from indexer.sessions.records import (
    APPEND,
    EDIT,
    CommitRecord,
    LogCorruptError,
    node_from_headers,
)
from indexer.sessions.state import Seal, State
from indexer.sessions.stored_records import RecordList, RecordRow, chain_record

_COMMITS: Final = (APPEND, EDIT)


class VersionRow(NamedTuple):
    """A version of a node as it stands after a record, or the note that it is gone for good."""

    id: str
    born: int
    gone: int | None
    parent: str | None
    node_type: str
    """Empty where no snapshot will ever show this version."""
    offset: int
    created_at_ns: int
    creation_index: int
    expires: int | None
    removable: bool
    holds: bool
    """Whether it is a block with content."""
    references: str | None
    content_hash: str | None
    """The blob that holds the content; None where the headers carry it themselves."""
    node: str


@dataclass(frozen=True, slots=True)
class Counters:
    """What the next record needs to know and no row tells."""

    working: int
    creation_index: int
    last_ns: int
    released: tuple[str, ...]


def counters_of(state: State) -> Counters:
    """The counters of a state."""
    released = tuple(state.live.released)
    return Counters(state.working_cycle, state.creation_index, state.last_ns, released)


def changed_rows(state: State, delta: Delta) -> list[VersionRow]:
    """The rows that a store has to add for what a record changed."""
    gone = [_dropped(node_id, born) for node_id, born in delta.deletes]
    return gone + [_row(state, version) for version in delta.upserts.values()]


def all_rows(state: State) -> list[VersionRow]:
    """The rows of a whole session, for a store that has none of them."""
    found: list[VersionRow] = []
    for node_id, versions in state.history.ids():
        found += [_row(state, version) for version in versions]
        if not versions:
            found.append(_dropped(node_id, state.working_cycle))
    return found


def _dropped(node_id: str, born: int) -> VersionRow:
    return VersionRow(node_id, born, None, None, "", 0, 0, 0, None, False, False, None, None, "")


def _row(state: State, version: Version) -> VersionRow:
    node, log = version.node, state.log
    commit = log.of_node(node.id)
    said = log.said(commit) if commit is not None else []
    shown = (c for c in reversed(said) if _shown(state, node, c) == node.content)
    held = next(shown, None)
    fields = node.document() if held is None else node.headers()
    return VersionRow(
        node.id, version.born, version.gone, version.parent, node.node_type, node.offset,
        node.created_at_ns, node.creation_index, node.expires, node.removable,
        node.content is not None, json.dumps(node.references) if node.references else None,
        held.content_hash if held is not None else None,
        json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False),
    )  # fmt: skip


def _shown(state: State, node: Node, commit: CommitRecord) -> object:
    return shown_of(state.log.content(commit), node.attributes, state.version)


def load_state(
    records: Sequence[RecordRow],
    versions: Iterable[VersionRow],
    blobs: Mapping[str, str],
    counters: Counters,
) -> State:
    """The state that rows describe, equal to that of a replay; nodes are read when asked for."""
    if not records or records[0].op != ops.OPEN:
        raise LogCorruptError(0, "a log begins with the record that opens the session")
    opened = json.loads(records[0].record)
    document = opened.get("document")
    base = 0 if document is None else document.get("cycle") or 0
    state = State(
        name=opened["name"],
        base_cycle=base,
        imported=document is not None,
        version=FORMATS[opened["format"]],
        budget=TokenBudget.from_json(opened["budget"]),
        policy=PrunePolicy.from_json(opened["prune"]) if "prune" in opened else None,
        history=History(base),
    )
    state.log.blobs = Blobs(blobs)
    state.records = RecordList(records, state.log.blobs)
    state.creation_index, state.last_ns = counters.creation_index, counters.last_ns
    _load_log(state, records)
    kept = _newest(versions)
    _load_history(state, kept, counters.working)
    _load_liveness(state, kept)
    for node_id in state.live.blocks:
        commit = state.log.of_node(node_id)
        for said in state.log.said(commit) if commit is not None else ():
            state.tokens_now.enter(said)
    state.live.released = dict.fromkeys(counters.released)
    return state


def _load_log(state: State, records: Iterable[RecordRow]) -> None:
    for row in records:
        if row.op in _COMMITS:
            state.log.add(chain_record(row))
        elif row.op == ops.SEAL:
            data = json.loads(row.record)
            state.seals.append(Seal(data["cycle"], row.at_ns, data["turn"]["node"]["id"], row.seq))
        elif row.op == ops.ANNOTATE:
            data = json.loads(row.record)
            state.log.priorities[data["target"]] = data["priority"]
        elif row.op == ops.ATTEMPT:
            data = json.loads(row.record)
            for own in ("kind", "seq", "at_ns", "op", "author"):
                data.pop(own, None)
            state.log.attempts[data["attempt_id"]] = data
        elif row.op == ops.BUDGET:
            state.budget = TokenBudget.from_json(json.loads(row.record))
        elif row.op == FORK:
            state.name = json.loads(row.record)["name"]
        elif row.op in (DELETE, RESTORE):
            state.deleted = row.op == DELETE
        elif row.op == ops.MOVE:
            for item in json.loads(row.record).get("again", ()):
                commit = state.log.of_node(item["was"])
                if commit is not None:
                    state.log.rename(commit.commit_hash, item["node"]["id"])


def _newest(versions: Iterable[VersionRow]) -> dict[str, dict[int, VersionRow]]:
    """The rows that hold, by id in order of entry and by the cycle they came in."""
    found: dict[str, dict[int, VersionRow]] = {}
    for row in versions:
        known = found.setdefault(row.id, {})
        if row.node_type:
            known[row.born] = row
        else:
            known.pop(row.born, None)
    return found


def _load_history(state: State, kept: Mapping[str, dict[int, VersionRow]], working: int) -> None:
    history = state.history
    blobs = state.log.blobs
    for node_id, rows in kept.items():
        for row in rows.values():
            if row.node_type == ROOT:
                history.root_id = node_id
            elif row.node_type in REGIONS:
                history.regions[row.node_type] = node_id
    history.restore(
        (
            (node_id, [_version(rows[born], blobs, state.version) for born in sorted(rows)])
            for node_id, rows in kept.items()
        ),
        working,
    )


def _version(row: VersionRow, blobs: Blobs, rules: int) -> Version:
    key = (row.offset, row.created_at_ns, row.creation_index, row.id)
    # Only what the node is made from is held on to, not the row.
    made = partial(_node, row.node, row.content_hash, blobs, rules)
    return Version(made, row.parent, row.born, row.gone, key)


def _node(headers: str, content_hash: str | None, blobs: Blobs, rules: int) -> Node:
    node = node_from_headers(json.loads(headers))
    if content_hash is None:
        return node
    return replace(node, content=shown_of(blobs[content_hash], node.attributes, rules))


def _load_liveness(state: State, kept: Mapping[str, dict[int, VersionRow]]) -> None:
    """The indexes over what is alive, in the order in which it came."""
    live, working = state.live, state.working_cycle
    filled = {
        row.parent
        for rows in kept.values()
        for row in rows.values()
        if row.gone is None and row.parent is not None
    }
    for node_id, rows in kept.items():
        if not rows:
            continue
        newest = rows[max(rows)]
        if newest.gone is not None:
            continue
        if newest.expires is not None:
            cycle = max(newest.expires, min(rows), state.base_cycle + 1)
            if cycle < working:
                live.deferred[node_id] = None
            else:
                live.expiring.setdefault(cycle, {})[node_id] = None
        for target in json.loads(newest.references) if newest.references else ():
            live.referrers.setdefault(target, {})[node_id] = None
        if newest.holds:
            live.blocks[node_id] = None
        if newest.removable and node_id not in filled:
            live.touched[node_id] = None
