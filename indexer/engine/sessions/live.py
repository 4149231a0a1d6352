"""`session set`: changing what is live in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from indexer.core.arguments import Count, Whole
from indexer.core.secrets import check_secrets
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.write import SessionContentError, said_anew
from indexer.errors import ArgumentsError
from indexer.sessions import CommitRecord, Note, Plan, Session

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class SetDocument(TypedDict):
    """Result of `session set`."""

    id: str
    ttl: int | None
    expires: int | None
    priority: int
    attributes: JsonObject
    content_hash: str | None
    warnings: list[str]


def set_block(
    engine: Engine,
    name: str,
    target: str,
    *,
    ttl: Count | None = None,
    no_ttl: bool = False,
    priority: Whole | None = None,
    attributes: Mapping[str, Any] | None = None,
    text: str | None = None,
    payload: Mapping[str, Any] | None = None,
    message: str | None = None,
    allow_secrets: bool = False,
    agent: str | None = None,
) -> SetDocument:
    """Change a block in its place: its ttl, its priority, its attributes, or what it says.

    Only what is live: the active head, the system blocks, what no snapshot shows yet. A ttl
    counts from this cycle on, `no_ttl` lets it stay; an attribute that is null goes.
    """
    if no_ttl and ttl is not None:
        raise ArgumentsError("it goes after a while, or it stays", hint="give a ttl or none")
    changes: dict[str, Any] = {"ttl": None} if no_ttl else {}
    for key, value in (("ttl", ttl), ("priority", priority), ("attributes", attributes)):
        if value is not None:
            changes[key] = value
    says = text is not None or payload is not None
    if not changes and not says:
        raise ArgumentsError("there is nothing to set", hint="give a ttl, a priority, or a text")
    if not allow_secrets:
        check_secrets(SessionContentError, "metadata", attributes, message)

    def plan(session: Session) -> list[Plan]:
        log = session.state.log
        is_node = session.state.work().node(target) is not None
        node_id = target if is_node else log.node_of(log.resolve(target).commit_hash)
        plans = []
        if says:
            before = log.content(log.shown(log.edit_target(node_id)))
            content = said_anew(before, text, payload)
            if not allow_secrets:
                check_secrets(SessionContentError, "content", content)
            plans.append(session.plan_replace(node_id, content, Note(message)))
        if changes:
            plans.append(session.plan_set(node_id, changes).behind(len(plans)))
        return plans

    session, plans = engine.sessions.write_together(name, plan, engine.sessions.author(agent))
    record = plans[-1].record
    node_id = record.node_id if isinstance(record, CommitRecord) else str(record.data["id"])
    node = session.state.work().node(node_id)
    assert node is not None
    return {
        "id": node_id,
        "ttl": node.ttl,
        "expires": node.expires,
        "priority": node.priority,
        "attributes": dict(node.attributes),
        "content_hash": node.content_hash,
        "warnings": [warning for each in plans for warning in each.warnings],
    }
