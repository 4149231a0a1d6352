"""Sessions from documents: an exported session, a bare snapshot of PACT 0.1 or 1.0, a chat log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from indexer.core.clock import Clock
from indexer.core.tokens import TokenCounter
from indexer.sessions.apply import apply
from indexer.sessions.chat import import_chat, is_chat
from indexer.sessions.content import content_of_block
from indexer.sessions.documents import (
    CHECKSUM,
    RECORDS,
    DocumentError,
    document_bytes,
    log_checksum,
    parse_document,
    read_document,
    snapshot_document,
)
from indexer.sessions.history import History
from indexer.sessions.pact_v1 import from_v1, is_v1
from indexer.sessions.plan import plan_imported
from indexer.sessions.records import LogCorruptError
from indexer.sessions.session import Session
from indexer.sessions.view import blocks


def import_session(
    data: bytes | str | Mapping[str, Any] | list[Any],
    name: str,
    *,
    clock: Clock | None = None,
    counter: TokenCounter | None = None,
    author: str | None = None,
) -> Session:
    """A session from what was exported: its log, else a tree, else the messages of a chat.

    Records of a log have authors of their own; those that are made here get this one.
    """
    document = read_document(data) if isinstance(data, (bytes, str)) else data
    if is_chat(document):
        return import_chat(document, name, clock=clock, counter=counter, author=author)
    if not isinstance(document, Mapping):
        raise DocumentError("a session document is a JSON object")
    if RECORDS in document:
        return _from_log(document, clock, counter)
    return import_snapshot(document, name, clock=clock, counter=counter, author=author)


def _from_log(
    document: Mapping[str, Any], clock: Clock | None, counter: TokenCounter | None
) -> Session:
    records = document[RECORDS]
    if not isinstance(records, list) or not all(isinstance(item, dict) for item in records):
        raise DocumentError("records must be a list of objects")
    if CHECKSUM not in document:
        raise DocumentError(
            f"a session document with {RECORDS} has {CHECKSUM}", hint="export the session again"
        )
    try:
        found = log_checksum(records)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{RECORDS} cannot be read: {error}") from None
    if document[CHECKSUM] != found:
        raise LogCorruptError("checksum", f"the log does not have its {CHECKSUM}")
    session = Session.replay(records, clock=clock, counter=counter)
    told = {key: value for key, value in document.items() if key not in (RECORDS, CHECKSUM)}
    if document_bytes(told) != session.export_snapshot():
        raise LogCorruptError("last", "the log does not lead to the snapshot beside it")
    return session


def import_snapshot(
    document: Mapping[str, Any],
    name: str,
    *,
    clock: Clock | None = None,
    counter: TokenCounter | None = None,
    author: str | None = None,
) -> Session:
    """A session whose first snapshot is an imported tree, every block entered in the chain."""
    complete, warnings = normalized(document)
    session = Session.new(name, clock=clock, counter=counter, document=complete, author=author)
    session.warnings = warnings
    view = session.state.work()
    for node, role in list(blocks(view)):
        content = content_of_block(role, node.kind, node.content)
        record = plan_imported(session.state, node, content, session.now(), session.counter)
        apply(session.state, replace(record, author=author), verify=False)
    return session


def normalized(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A snapshot document with every header filled in, and what was odd about it."""
    warnings: tuple[str, ...] = ()
    if is_v1(document):
        document, warnings = from_v1(document)
    parsed = parse_document(document)
    history = History(parsed.cycle)
    for parent, node in parsed.placed:
        history.add(node, parent, born=parsed.cycle)
    return snapshot_document(history.view(parsed.cycle)), (*warnings, *parsed.warnings)
