"""How a record changes a session's state: the one way in, for live work and for replay alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from indexer.errors import UsageError
from indexer.sessions import keeping
from indexer.sessions import operations as ops
from indexer.sessions.budget import TokenBudget
from indexer.sessions.content import shown_of
from indexer.sessions.documents import parse_document
from indexer.sessions.history import Delta, History
from indexer.sessions.lifecycle import PrunePolicy
from indexer.sessions.node import AH, check_headers, iso_of, text, whole
from indexer.sessions.placement import check_live, check_place
from indexer.sessions.plan import fresh_id
from indexer.sessions.records import CommitRecord, LogCorruptError, OpRecord, Placed, Record
from indexer.sessions.sent import is_sent_data
from indexer.sessions.state import Seal, State
from indexer.sessions.view import preorder

FORMATS: Final = {"merkle-session/1": 1, "merkle-session/2": 2}
"""Logs that can be read. In the first, absent options took no part in what was hashed, and a
tool's call or result stood in the tree as the text of its payload alone."""
FORMAT: Final = "merkle-session/2"


def open_data(
    name: str,
    budget: TokenBudget,
    policy: PrunePolicy | None,
    document: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of the record that opens a session, on an imported tree or on an empty one."""
    data: dict[str, Any] = {"format": FORMAT, "name": name, "budget": budget.to_json()}
    if policy is not None:
        data["prune"] = policy.to_json()
    if document is not None:
        data["document"] = document
    return data


def open_state(record: Record) -> State:
    """The state right after the record that opens a session."""
    try:
        return _opened(record)
    except (UsageError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise LogCorruptError(record.seq, f"the session cannot be opened: {error}") from error


def _opened(record: Record) -> State:
    if not isinstance(record, OpRecord) or record.op != ops.OPEN or record.seq != 0:
        raise LogCorruptError(record.seq, "a log begins with the record that opens the session")
    data = record.data
    whole("at_ns", record.at_ns)
    text("name", data["name"])
    if data.get("format") not in FORMATS:
        raise LogCorruptError(record.seq, f"unknown format {data.get('format')!r}")
    document = data.get("document")
    parsed = parse_document({"root": {}} if document is None else document)
    history = History(parsed.cycle)
    state = State(
        name=data["name"],
        base_cycle=parsed.cycle,
        imported=document is not None,
        version=FORMATS[data["format"]],
        budget=TokenBudget.from_json(data["budget"]),
        policy=PrunePolicy.from_json(data["prune"]) if "prune" in data else None,
        history=history,
    )
    for parent, node in parsed.placed:
        history.add(node, parent, born=parsed.cycle)
        state.live.add(node, state.working_cycle)
    state.last_ns = max(record.at_ns, *(node.created_at_ns for _, node in parsed.placed))
    state.records.append(record)
    return state


def apply(state: State, record: Record, *, verify: bool) -> Delta:
    """Apply the next record; with `verify` one that does not follow from the state is refused."""
    if record.seq != state.next_seq:
        raise LogCorruptError(record.seq, f"the next record is number {state.next_seq}")
    if verify:
        try:
            _verify(state, record)
        except UsageError as error:
            raise LogCorruptError(record.seq, error.message) from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LogCorruptError(record.seq, f"not a record: {error!r}") from error
    state.last_ns = max(state.last_ns, record.at_ns)
    if isinstance(record, CommitRecord):
        _apply_commit(state, record)
    else:
        _APPLY[record.op](state, record)
    state.records.append(record)
    return state.history.take_delta()


def _enter(state: State, placed: Placed) -> None:
    """Put a node into the working tree and its indexes."""
    state.history.add(placed.node, placed.parent)
    state.live.add(placed.node, state.working_cycle)
    state.creation_index += 1
    state.last_ns = max(state.last_ns, placed.node.created_at_ns)


def _leave(state: State, node_id: str) -> None:
    """Take one node out of the working tree and its indexes."""
    version = state.history.current(node_id)
    assert version is not None
    commit = state.log.of_node(node_id)
    if commit is not None:
        state.tokens_now.leave(commit)
    state.live.drop(version.node, version.parent, state.working_cycle)
    state.history.close(node_id)


def _apply_commit(state: State, record: CommitRecord) -> None:
    state.log.add(record)
    if state.log.replaces(record):
        current = state.history.current(record.node_id)
        assert current is not None
        assert current.parent is not None
        content = shown_of(state.log.content(record), current.node.attributes, state.version)
        state.history.relocate(current.node.with_content(content), current.parent)
    for placed in record.placed:
        node = placed.node
        if node.id == record.node_id:
            content = state.log.content(record)
            node = node.with_content(shown_of(content, node.attributes, state.version))
        _enter(state, Placed(placed.parent, node))
    state.tokens_now.enter(record)


def _apply_group(state: State, record: OpRecord) -> None:
    _enter(state, Placed.from_json(record.data))


def _apply_move(state: State, record: OpRecord) -> None:
    data = record.data
    again = data.get("again")
    if again is None:
        version = state.history.current(data["id"])
        assert version is not None
        assert version.parent is not None
        state.live.touched[version.parent] = None
        state.history.relocate(replace(version.node, offset=data["offset"]), data["parent"])
        return
    contents = {item["was"]: state.work().node(item["was"]) for item in again}
    _apply_remove(state, record)
    for item in again:
        old = contents[item["was"]]
        placed = Placed.from_json(item)
        node = placed.node
        if old is not None and old.content is not None:
            node = node.with_content(old.content)
        _enter(state, Placed(placed.parent, node))
        commit = state.log.of_node(item["was"])
        if commit is not None:
            state.log.rename(commit.commit_hash, node.id)
            state.tokens_now.enter(commit)


def _apply_set(state: State, record: OpRecord) -> None:
    version = state.history.current(record.data["id"])
    assert version is not None
    assert version.parent is not None
    node = ops.with_headers(version.node, record.data)
    state.live.retime(version.node, node, state.working_cycle)
    state.history.relocate(node, version.parent)


def _apply_remove(state: State, record: OpRecord) -> None:
    for node in reversed(list(preorder(state.work(), record.data["id"]))):
        _leave(state, node.id)


def _apply_seal(state: State, record: OpRecord) -> None:
    data = record.data
    for name in ("expired", "cascaded", "pruned"):
        for node_id in data[name]:
            _leave(state, node_id)
    turn = Placed.from_json(data["turn"])
    _enter(state, turn)
    for child in state.work().children(state.history.regions[AH]):
        state.history.relocate(child, turn.node.id)
    if "core" in data:
        _enter(state, Placed.from_json(data["core"]))
    cycle = state.working_cycle
    state.live.sealed(cycle, dict.fromkeys(data["deferred"]), dict.fromkeys(data["kept_empty"]))
    state.history.advance()
    state.creation_index = 0
    state.seals.append(Seal(cycle, record.at_ns, turn.node.id, record.seq))


def _apply_annotate(state: State, record: OpRecord) -> None:
    data = record.data
    state.log.priorities[data["target"]] = data["priority"]
    state.tokens_now.count(data["target"])


def _apply_attempt(state: State, record: OpRecord) -> None:
    state.log.attempts[record.data["attempt_id"]] = dict(record.data)


def _apply_budget(state: State, record: OpRecord) -> None:
    state.budget = TokenBudget.from_json(record.data)


def _apply_fork(state: State, record: OpRecord) -> None:
    # What the branch makes from here on must not have the ids of what the other one makes.
    state.name = record.data["name"]


def _apply_presence(state: State, record: OpRecord) -> None:
    state.deleted = record.op != keeping.RESTORE


def _apply_nothing(state: State, record: OpRecord) -> None:
    """Leave the state as it is: the record is only for those who read the log."""


_APPLY: Final[Mapping[str, Callable[[State, OpRecord], None]]] = {
    ops.GROUP: _apply_group,
    ops.MOVE: _apply_move,
    ops.REMOVE: _apply_remove,
    ops.SEAL: _apply_seal,
    ops.ANNOTATE: _apply_annotate,
    ops.ATTEMPT: _apply_attempt,
    ops.BUDGET: _apply_budget,
    ops.SET: _apply_set,
    keeping.FORK: _apply_fork,
    keeping.MERGE: _apply_nothing,
    keeping.RENAME: _apply_nothing,
    keeping.DELETE: _apply_presence,
    keeping.RESTORE: _apply_presence,
    keeping.PURGE: _apply_presence,
}


def _verify(state: State, record: Record) -> None:
    """Refuse a record that could not have been planned from this state."""
    if whole("at_ns", record.at_ns) <= state.last_ns:
        raise LogCorruptError(record.seq, "it is not later than the record before it")
    if record.author is not None:
        text("author", record.author)
    if state.deleted and not (isinstance(record, OpRecord) and record.op in keeping.NAMING):
        raise LogCorruptError(record.seq, "the session was deleted before it")
    if isinstance(record, CommitRecord):
        _verify_commit(state, record)
    elif record.op not in _APPLY:
        raise LogCorruptError(record.seq, f"unknown operation {record.op!r}")
    elif record.op in keeping.NAMING or record.op in (keeping.FORK, keeping.MERGE):
        keeping.verify_kept(state, record)
    elif record.op == ops.GROUP:
        _verify_placed(state, (Placed.from_json(record.data),))
    elif record.op == ops.ATTEMPT:
        known = state.log.attempts.get(record.data["attempt_id"], {"status": "running"})
        if record.data["status"] not in ops.STATUSES or known["status"] != "running":
            raise LogCorruptError(record.seq, "the attempt had already ended")
        _verify_sent(state, record)
    elif _replanned(state, record).to_json() != replace(record, author=None).to_json():
        raise LogCorruptError(record.seq, f"this {record.op} does not follow from the log")


def _verify_sent(state: State, record: OpRecord) -> None:
    """Refuse an attempt that tells something else of what it sent than it can have sent."""
    sent, known = record.data.get("sent"), state.log.attempts.get(record.data["attempt_id"])
    if known is not None:
        if sent != known.get("sent"):
            raise LogCorruptError(record.seq, "the attempt sent something else before")
    elif sent is not None and not is_sent_data(sent, record.seq):
        raise LogCorruptError(record.seq, "it does not tell what was sent")


def _verify_commit(state: State, record: CommitRecord) -> None:
    state.log.verify(record)
    whole("token_count", record.token_count, least=0)
    text("node_id", record.node_id)
    if record.timestamp_iso != iso_of(record.at_ns):
        raise LogCorruptError(record.seq, "its two times differ")
    if not record.placed and state.log.replaces(record):
        check_live(state.work(), record.node_id, state.history.committed(record.node_id))
    elif not record.placed:
        node = state.work().node(record.node_id)
        if node is None or node.content is None or state.log.of_node(node.id) is not None:
            raise LogCorruptError(record.seq, "it names no block that was imported")
    elif record.placed[-1].node.id != record.node_id:
        raise LogCorruptError(record.seq, "it places another block than it names")
    _verify_placed(state, record.placed)


def _verify_placed(state: State, placed: tuple[Placed, ...]) -> None:
    for position, item in enumerate(placed):
        check_headers(item.node)
        fresh_id(state, item.node.id)
        if item.node.cycle != state.working_cycle:
            raise LogCorruptError(state.next_seq, f"{item.node.id} is not of the cycle at work")
        # The block of a core that the same record makes is placed by that core.
        if position == 0 or item.parent != placed[0].node.id:
            check_place(state.work(), item.parent, item.node.node_type, item.node.offset)


def _replanned(state: State, record: OpRecord) -> OpRecord:
    """What this operation would be recorded as, planned anew."""
    data: Mapping[str, Any] = record.data
    if record.op == ops.MOVE:
        return ops.plan_move(state, data["id"], data["parent"], data["offset"], record.at_ns)
    if record.op == ops.SET:
        changes = {key: value for key, value in data.items() if key != "id"}
        return ops.plan_set(state, data["id"], changes, record.at_ns)
    if record.op == ops.REMOVE:
        return ops.plan_remove(state, data["id"], record.at_ns)
    if record.op == ops.ANNOTATE:
        target, reason = data["target"], data.get("reason")
        return ops.plan_annotate(state, target, data["priority"], reason, record.at_ns)
    if record.op == ops.BUDGET:
        return ops.plan_budget(state, TokenBudget.from_json(data), record.at_ns)
    return ops.plan_seal(state, record.at_ns)
