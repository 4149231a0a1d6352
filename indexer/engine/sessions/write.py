"""What changes a session: each operation plans, journals and stores one record, or refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict

from indexer.core.arguments import Count, Whole, exactly_one, one_of
from indexer.core.canonical import canonical_json
from indexer.core.secrets import check_secrets
from indexer.engine.documents import JsonObject
from indexer.errors import ArgumentsError, UsageError
from indexer.sessions import (
    CommitRecord,
    Note,
    OpRecord,
    Placement,
    Plan,
    PrunePolicy,
    Session,
    TokenBudget,
    make_content,
)
from indexer.sessions.budget import REJECT, WARN
from indexer.sessions.content import (
    CALL_ID,
    CONTENT_TYPES,
    DIRECTIONS,
    PRIORITIES,
    STATUSES,
    TOOL_IO,
)

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

LONGEST: Final = 1 << 20
"""Bytes of a content, at most; a request that holds it stays within what the service takes."""

OnBudget = Annotated[str, one_of(WARN, REJECT)]
BlockType = Annotated[str, one_of(*CONTENT_TYPES)]
Priority = Annotated[str, one_of(*PRIORITIES)]
Direction = Annotated[str, one_of(*DIRECTIONS)]
ToolStatus = Annotated[str, one_of(*STATUSES)]

LONGEST_NAME: Final = 200


class SessionNameError(UsageError):
    """A name that no session can have."""

    code = "E_SESSION_NAME"


class SessionContentError(UsageError):
    """A content that is too long to be kept, or holds a secret."""

    code = "E_CONTENT_INVALID"


def check_name(name: str) -> str:
    """A name that a session may have: some text, on one line."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise SessionNameError("the name of a session must be valid Unicode text") from None
    if not name.strip() or size > LONGEST_NAME or any(char in name for char in "\0\n\r"):
        raise SessionNameError(
            f"{name!r} cannot be the name of a session",
            hint=f"use one line of text, at most {LONGEST_NAME} bytes",
        )
    return name


class BegunDocument(TypedDict):
    """Result of `session new`."""

    name: str
    cycle: int
    budget: JsonObject
    prune: JsonObject | None


def new(
    engine: Engine,
    name: str,
    *,
    budget: Count | None = None,
    on_budget: OnBudget | None = None,
    max_nodes: Count | None = None,
    max_tokens: Count | None = None,
    protect_turns: Count | None = None,
    agent: str | None = None,
) -> BegunDocument:
    """Begin a session, with a token budget and limits that pruning keeps."""
    check_name(name)
    if on_budget is not None and budget is None:
        raise ArgumentsError("there is no budget to act on", hint="give a budget too")
    policy = None
    if max_nodes is not None or max_tokens is not None:
        policy = PrunePolicy(max_nodes, max_tokens, protect_turns or 0)
    elif protect_turns is not None:
        raise ArgumentsError(
            "nothing is pruned, so nothing needs protection", hint="give max_nodes or max_tokens"
        )
    session = Session.new(
        name,
        clock=engine.clock,
        counter=engine.counter,
        budget=TokenBudget(budget, on_budget or WARN),
        prune=policy,
        author=engine.sessions.author(agent),
    )
    made = engine.sessions.create(name, session)
    return {
        "name": name,
        "cycle": made.cycle,
        "budget": made.state.budget.to_json(),
        "prune": policy.to_json() if policy is not None else None,
    }


def _content(
    content_type: str,
    text: str | None,
    payload: Mapping[str, Any] | None,
    role: str | None,
    label: str | None,
    direction: str | None = None,
    status: str | None = None,
) -> dict[str, Any]:
    content = make_content(
        content_type,
        text=text,
        payload=payload,
        role=role,
        name=label,
        direction=direction,
        status=status,
    )
    return checked_size(content)


def checked_size(content: dict[str, Any]) -> dict[str, Any]:
    """A content that is not too long to be kept."""
    size = len(canonical_json(content))
    if size > LONGEST:
        raise SessionContentError(
            f"the content has {size:,} bytes; a block holds at most {LONGEST:,}",
            hint="say less, or split it over several blocks",
        )
    return content


def _check_secrets(content: Mapping[str, Any], where: Placement, note: Note) -> None:
    check_secrets(SessionContentError, "content", content)
    check_secrets(SessionContentError, "metadata", where.attributes, note.message, note.metadata)


class CommittedDocument(TypedDict):
    """Result of `session append`."""

    id: str
    commit: str
    content_hash: str
    tokens: int
    total_tokens: int
    live_tokens: int
    """Of what is live, which a budget is about."""
    cycle: int
    warnings: list[str]


class EditedDocument(CommittedDocument):
    """Result of `session edit`."""

    target: str | None


@exactly_one("text", "payload")
def append(
    engine: Engine,
    name: str,
    *,
    type: BlockType,
    role: str | None = None,
    text: str | None = None,
    payload: Mapping[str, Any] | None = None,
    label: str | None = None,
    region: str | None = None,
    parent: str | None = None,
    offset: Whole | None = None,
    ttl: Count | None = None,
    priority: Whole | None = None,
    id: str | None = None,
    node_type: str | None = None,
    kind: str | None = None,
    references: Sequence[str] = (),
    attributes: Mapping[str, Any] | None = None,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    direction: Direction | None = None,
    call_id: str | None = None,
    status: ToolStatus | None = None,
    allow_secrets: bool = False,
    agent: str | None = None,
) -> CommittedDocument:
    """Add a block; `label` names who speaks, the tool, or the kind of artifact.

    A tool's call and its result have a `direction`, share a `call_id`, and may have a
    `status`.
    """
    content = _content(type, text, payload, role, label, direction, status)
    if call_id is not None:
        if type != TOOL_IO:
            raise UsageError(f"a block of type {type} answers no call", hint=f"use {TOOL_IO}")
        attributes = {**(attributes or {}), CALL_ID: call_id}
    where = _placement(
        region=region,
        parent=parent,
        offset=offset,
        ttl=ttl,
        priority=priority,
        id=id,
        node_type=node_type,
        kind=kind,
        attributes=attributes,
        # A dialogue's role is part of what it says.
        role=role if type != "dialogue" else None,
        references=tuple(references),
    )
    note = Note(message, metadata)
    if not allow_secrets:
        _check_secrets(content, where, note)
    session, plan = engine.sessions.write(
        name, lambda s: s.plan_append(content, where, note), engine.sessions.author(agent)
    )
    return _committed(session, plan)


@exactly_one("text", "payload")
def edit(
    engine: Engine,
    name: str,
    target: str,
    *,
    type: BlockType | None = None,
    role: str | None = None,
    text: str | None = None,
    payload: Mapping[str, Any] | None = None,
    label: str | None = None,
    ttl: Count | None = None,
    priority: Whole | None = None,
    id: str | None = None,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    allow_secrets: bool = False,
    agent: str | None = None,
) -> EditedDocument:
    """Replace what a block says when compiled; what it said stays in the tree."""
    where = _placement(ttl=ttl, priority=priority, id=id)
    note = Note(message, metadata)

    def plan(session: Session) -> Plan:
        commit = session.state.log.edit_target(target)
        before = session.state.log.content(commit)
        kind = type if type is not None else commit.content_type
        # What is not said anew stays: an edit of a user's words is still the user's.
        kept = before if kind == commit.content_type else {}
        who = role if role is not None else kept.get("role")
        called = label if label is not None else kept.get(_NAMED.get(kind, "name"))
        # A payload that is a whole content says for itself what it is.
        whole = payload is not None and kind == TOOL_IO and payload.keys() >= _WHOLE
        stays = kept if kind == TOOL_IO and not whole else {}
        content = _content(
            kind, text, payload, who, called, stays.get("direction"), stays.get("status")
        )
        if not allow_secrets:
            _check_secrets(content, where, note)
        return session.plan_edit(target, content, where, note)

    session, done = engine.sessions.write(name, plan, engine.sessions.author(agent))
    assert isinstance(done.record, CommitRecord)
    return {**_committed(session, done), "target": done.record.reply_to}


_NAMED: Final = {TOOL_IO: "tool_name", "artifact": "artifact_type"}
"""By type of content the key of its label, where that is not `name`."""
_WHOLE: Final = frozenset({"tool_name", "direction", "payload"})
"""The keys of a tool's payload that is a whole content."""


def _committed(session: Session, plan: Plan) -> CommittedDocument:
    record = plan.record
    assert isinstance(record, CommitRecord)
    return {
        "id": record.node_id,
        "commit": record.commit_hash,
        "content_hash": record.content_hash,
        "tokens": record.token_count,
        "total_tokens": session.state.log.total_tokens,
        "live_tokens": session.tokens,
        "cycle": session.state.working_cycle,
        "warnings": list(plan.warnings),
    }


def said_anew(
    before: Mapping[str, Any], text: str | None, payload: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The content of a block with other words, and all else that it had."""
    kind = before["content_type"]
    label = before.get(_NAMED.get(kind, "name"))
    content = _content(kind, text, payload, before.get("role"), label)
    return {**before, **content, **{k: before[k] for k in ("direction", "role") if k in before}}


class AnnotatedDocument(TypedDict):
    """Result of `session annotate`."""

    id: str
    commit: str
    priority: str


def annotate(
    engine: Engine,
    name: str,
    target: str,
    priority: Priority,
    *,
    reason: str | None = None,
    allow_secrets: bool = False,
    agent: str | None = None,
) -> AnnotatedDocument:
    """Pin, skip or free a block."""
    if not allow_secrets:
        check_secrets(SessionContentError, "reason", reason)
    session, plan = engine.sessions.write(
        name, lambda s: s.plan_annotate(target, priority, reason), engine.sessions.author(agent)
    )
    commit = op_data(plan)["target"]
    return {"id": session.state.log.node_of(commit), "commit": commit, "priority": priority}


class SealedDocument(TypedDict):
    """Result of `session commit`; lists of ids say what went and why, and what could not go."""

    cycle: int
    turn: str
    expired: list[str]
    cascaded: list[str]
    pruned: list[str]
    deferred: list[str]
    kept_empty: list[str]


def commit(engine: Engine, name: str, *, agent: str | None = None) -> SealedDocument:
    """Seal the cycle."""
    _, plan = engine.sessions.write(name, lambda s: s.plan_commit(), engine.sessions.author(agent))
    data = op_data(plan)
    return {
        "cycle": data["cycle"],
        "turn": data["turn"]["node"]["id"],
        "expired": list(data["expired"]),
        "cascaded": list(data["cascaded"]),
        "pruned": list(data["pruned"]),
        "deferred": list(data["deferred"]),
        "kept_empty": list(data["kept_empty"]),
    }


class MovedDocument(TypedDict):
    """Result of `session move`."""

    id: str
    parent: str
    offset: int
    renamed: dict[str, str]


def move(
    engine: Engine,
    name: str,
    node: str,
    parent: str,
    *,
    offset: Whole | None = None,
    agent: str | None = None,
) -> MovedDocument:
    """Hang a node elsewhere in the working tree; `parent` may be sys or ah."""
    region = _REGIONS.get(parent, parent)

    def plan(session: Session) -> Plan:
        known = session.state.history.regions
        return session.plan_move(node, known.get(region, region), offset)

    _, done = engine.sessions.write(name, plan, engine.sessions.author(agent))
    data = op_data(done)
    again = data.get("again")
    return {
        "id": node if again is None else again[0]["node"]["id"],
        "parent": data["parent"],
        "offset": data["offset"],
        "renamed": {item["was"]: item["node"]["id"] for item in again or ()},
    }


_REGIONS: Final = {"sys": "^sys", "ah": "^ah"}
"""Regions that can be named without their sign."""


class RemovedDocument(TypedDict):
    """Result of `session remove`."""

    removed: str


def remove(engine: Engine, name: str, node: str, *, agent: str | None = None) -> RemovedDocument:
    """Take a node out of the working tree."""
    engine.sessions.write(name, lambda s: s.plan_remove(node), engine.sessions.author(agent))
    return {"removed": node}


class GroupedDocument(TypedDict):
    """Result of `session group`."""

    id: str
    parent: str
    cycle: int


def group(
    engine: Engine,
    name: str,
    *,
    parent: str | None = None,
    node_type: str | None = None,
    offset: Whole | None = None,
    ttl: Count | None = None,
    priority: Whole | None = None,
    id: str | None = None,
    removable: bool = True,
    agent: str | None = None,
) -> GroupedDocument:
    """Add an empty container.

    It goes once it is empty again, unless it is not removable.
    """
    where = _placement(
        parent=parent, node_type=node_type, offset=offset, ttl=ttl, priority=priority, id=id
    )
    _, plan = engine.sessions.write(
        name, lambda s: s.plan_group(where, removable=removable), engine.sessions.author(agent)
    )
    data = op_data(plan)
    return {"id": data["node"]["id"], "parent": data["parent"], "cycle": data["node"]["cycle"]}


def said_together(
    session: Session, last: int, mark: Callable[[Mapping[str, Any]], object]
) -> list[CommitRecord]:
    """The blocks up to a record that one request appended: their attributes have the same mark."""
    records: list[CommitRecord] = []
    shared = None
    for seq in range(last, -1, -1):
        record = session.state.records[seq]
        if not isinstance(record, CommitRecord) or not record.placed:
            break
        given = mark(record.placed[-1].node.attributes)
        if given is None or (shared is not None and given != shared):
            break
        shared = given
        records.insert(0, record)
    return records


def op_data(plan: Plan) -> Mapping[str, Any]:
    """What the record of a tree operation says."""
    assert isinstance(plan.record, OpRecord)
    return plan.record.data


def _placement(**values: Any) -> Placement:
    """Where a block goes, from the arguments that say something about it."""
    return Placement(**{key: value for key, value in values.items() if value is not None})
