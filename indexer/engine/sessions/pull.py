"""`session pull`: workspace context as blocks that name their frames, and go after a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from indexer.core.arguments import Count, Whole
from indexer.core.frames import FRAME_ATTRIBUTE
from indexer.engine.documents import JsonObject
from indexer.engine.search.compose import ContextDocument, compose
from indexer.engine.sessions.write import said_together
from indexer.sessions import CommitRecord, Placement, Session, make_content
from indexer.sessions import context as attributes
from indexer.sessions.context import KIND, NODE_TYPE

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

TTL: Final = 1
"""Cycles that pulled context stays, unless told otherwise: for the snapshot it was pulled into."""
OFFSET: Final = -1
"""Before the core of the turn: what is known comes before what is asked."""
MANIFEST: Final = "merkle:manifest_id"
_NAMED: Final = {
    "frame_id": FRAME_ATTRIBUTE,
    "path": attributes.PATH,
    "type": attributes.TYPE,
    "agent": attributes.AGENT,
    "symbol": attributes.SYMBOL,
    "content_id": attributes.CONTENT_ID,
    "freshness": attributes.FRESHNESS,
    "because": attributes.BECAUSE,
}


class PulledItemDocument(TypedDict):
    """A block that was added, and the frame that it shows."""

    id: str
    tokens: int
    frame_id: str | None
    """None for lines of a file, which have a `content_id` instead."""
    path: str
    type: str
    agent: str | None
    symbol: str | None
    content_id: str | None
    freshness: str
    because: str | None


class PulledContextDocument(TypedDict):
    """Result of `session pull`."""

    items: list[PulledItemDocument]
    tokens: int
    total_tokens: int
    live_tokens: int
    cycle: int
    manifest_id: str | None
    omitted: JsonObject
    warnings: list[str]


def pull(
    engine: Engine,
    name: str,
    nodes: Sequence[str] = (),
    *,
    budget: Count | None = None,
    ttl: Count = TTL,
    offset: Whole = OFFSET,
    query: str | None = None,
    max_frames: Count | None = None,
    require_fresh: bool = False,
    agent: str | None = None,
) -> PulledContextDocument:
    """Compose workspace context into the active head, as blocks that name their frames.

    Each is fenced as data: what a file says is nobody's words. All that is composed is
    appended, or nothing is.
    """
    sessions = engine.sessions
    author = engine.sessions.author(agent)
    # A session that does not exist is refused before anything is composed.
    sessions.open(name)
    composed = compose(
        engine,
        nodes,
        query=query,
        budget=budget,
        max_frames=max_frames,
        require_fresh=require_fresh,
    )
    messages = composed["messages"]

    def append(session: Session) -> PulledContextDocument:
        warnings: list[str] = []
        records = []
        # Items are in order of relevance, messages in that of their frames; an item knows its own.
        for item in sorted(composed["items"], key=lambda item: int(item["message"])):
            message = messages[item["message"]]
            content = make_content("dialogue", text=message["content"], role=message["role"])
            plan = session.plan_append(content, _where(composed, item, ttl, offset))
            session.apply(plan)
            records.append(plan.record)
            warnings = list(plan.warnings)
        return _document(session, records, composed["omitted"], warnings)

    return sessions.write_several(name, append, _told_again, author)


def _where(composed: ContextDocument, item: Mapping[str, Any], ttl: int, offset: int) -> Placement:
    # The root's path is empty, and says something; an empty reason says nothing.
    said = {key: item.get(key) for key in _NAMED}
    named = {_NAMED[key]: value for key, value in said.items() if value or key == "path"}
    return Placement(
        region="ah",
        offset=offset,
        ttl=ttl,
        node_type=NODE_TYPE,
        kind=KIND,
        attributes={**named, MANIFEST: composed["manifest_id"]},
        provenance="compose",
    )


def _document(
    session: Session, records: Sequence[Any], omitted: JsonObject, warnings: list[str]
) -> PulledContextDocument:
    items = []
    for record in records:
        assert isinstance(record, CommitRecord)
        given = record.placed[-1].node.attributes
        told = {key: given.get(attribute) for key, attribute in _NAMED.items()}
        item = {"id": record.node_id, "tokens": record.token_count, **told}
        items.append(cast(PulledItemDocument, item))
    manifests = {record.placed[-1].node.attributes[MANIFEST] for record in records}
    return {
        "items": items,
        "tokens": sum(item["tokens"] for item in items),
        "total_tokens": session.state.log.total_tokens,
        "live_tokens": session.tokens,
        "cycle": session.state.working_cycle,
        "manifest_id": manifests.pop() if manifests else None,
        "omitted": omitted,
        "warnings": warnings,
    }


def _told_again(session: Session, last: int) -> PulledContextDocument:
    """What a pull that was cut off after it had been done would have said, but for the rest."""
    records = said_together(session, last, lambda given: given.get(MANIFEST))
    return _document(session, records, {}, [])
