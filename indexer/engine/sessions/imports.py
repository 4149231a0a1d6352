"""Sessions from files: an exported session, a bare snapshot, or a flat chat log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core.arguments import File, exactly_one
from indexer.core.clock import Clock
from indexer.core.secrets import check_secrets
from indexer.core.tokens import TokenCounter
from indexer.engine.sessions.read import ChatFormat
from indexer.engine.sessions.write import SessionContentError, check_name
from indexer.sessions import Session
from indexer.sessions import import_session as import_document
from indexer.sessions.chat import import_chat
from indexer.sessions.documents import DocumentError, read_document

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

LARGEST: Final = 64 << 20
"""Bytes of a document to import; it becomes one journal record, so that it is whole or absent."""


class ImportedSessionDocument(TypedDict):
    """Result of `session import`."""

    name: str
    origin: str
    cycle: int
    records: int
    commits: int
    tokens: int
    warnings: list[str]


@exactly_one("file", "data")
def import_session(
    engine: Engine,
    file: File | None = None,
    *,
    name: str,
    data: str | None = None,
    form: ChatFormat | None = None,
    allow_secrets: bool = False,
    agent: str | None = None,
) -> ImportedSessionDocument:
    """A new session from an export, a snapshot or a chat log.

    It comes from a file or from what such a file would hold, checked whole before any is kept.
    """
    check_name(name)
    engine.sessions.check_free(name)
    document = read_document(_bytes_of(file, data))
    author = engine.sessions.author(agent)
    session = _read(name, document, form, engine.clock, engine.counter, author)
    if not allow_secrets:
        check_secrets(SessionContentError, "session", document)
    kept = engine.sessions.create(name, session)
    return {
        "name": name,
        "origin": kept.name,
        "cycle": kept.cycle,
        "records": len(kept.state.records),
        "commits": len(kept.state.log.commits),
        "tokens": kept.state.log.total_tokens,
        "warnings": list(session.warnings),
    }


def _read(
    name: str,
    document: Any,
    form: str | None,
    clock: Clock,
    counter: TokenCounter,
    author: str | None,
) -> Session:
    try:
        if form is None:
            return import_document(document, name, clock=clock, counter=counter, author=author)
        return import_chat(document, name, clock=clock, counter=counter, form=form, author=author)
    except RecursionError:
        raise DocumentError("the document is nested too deeply") from None


def _bytes_of(file: Path | None, data: str | None) -> bytes | str:
    if data is not None:
        return data
    assert file is not None
    if not file.is_file():
        raise DocumentError(f"{file} is no file", hint="name a file that `session export` wrote")
    size = file.stat().st_size
    if size > LARGEST:
        raise DocumentError(f"{file} has {size:,} bytes; at most {LARGEST:,} are taken in")
    try:
        return file.read_bytes()
    except OSError as error:
        raise DocumentError(f"cannot read {file}: {error.strerror or error}") from error
