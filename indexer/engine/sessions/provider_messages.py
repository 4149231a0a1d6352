"""`session append --format`: a message as a provider has it, taken in whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from indexer.core.secrets import check_secrets
from indexer.engine.sessions.read import ChatFormat
from indexer.engine.sessions.write import SessionContentError, checked_size, said_together
from indexer.sessions import Session
from indexer.sessions.chat import message_blocks, placement_of, tools_of
from indexer.sessions.providers import MESSAGE

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class MessageDocument(TypedDict):
    """Result of `session append --format`."""

    ids: list[str]
    """The blocks of the message, in order."""
    tokens: int
    total_tokens: int
    live_tokens: int
    cycle: int
    warnings: list[str]


def append_message(
    engine: Engine,
    name: str,
    message: Mapping[str, Any],
    *,
    form: ChatFormat,
    allow_secrets: bool = False,
    agent: str | None = None,
) -> MessageDocument:
    """Add a message as a provider has it, whole or not at all.

    Its texts, calls and results become blocks, those of a system message system blocks;
    `compile` in the same form gives it back as it was.
    """
    if not allow_secrets:
        check_secrets(SessionContentError, "message", message)

    def add(session: Session) -> MessageDocument:
        index = session.state.next_seq
        warnings: list[str] = []
        records = []
        for block in message_blocks(message, form, index, tools_of(session.state, message)):
            plan = session.plan_append(checked_size(block.content), placement_of(block))
            session.apply(plan)
            records.append(plan.record)
            warnings = list(plan.warnings)
        if not records:
            raise SessionContentError("the message holds nothing")
        return _message_document(session, records, warnings)

    return engine.sessions.write_several(name, add, _message_again, engine.sessions.author(agent))


def _message_document(
    session: Session, records: Sequence[Any], warnings: list[str]
) -> MessageDocument:
    return {
        "ids": [record.node_id for record in records],
        "tokens": sum(record.token_count for record in records),
        "total_tokens": session.state.log.total_tokens,
        "live_tokens": session.tokens,
        "cycle": session.state.working_cycle,
        "warnings": warnings,
    }


def _message_again(session: Session, last: int) -> MessageDocument:
    """What an append that was cut off after it had been done would have said."""
    records = said_together(session, last, lambda given: given.get(MESSAGE, {}).get("index"))
    return _message_document(session, records, [])
