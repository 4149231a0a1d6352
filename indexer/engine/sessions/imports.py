"""Sessions from files: an exported session, a bare snapshot, or a flat chat log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from indexer.core.secrets import check_secrets
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.write import SessionContentError, check_name
from indexer.errors import UsageError
from indexer.sessions import Session, import_session
from indexer.sessions.chat import FORMATS, import_chat
from indexer.sessions.documents import DocumentError, read_document

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

LARGEST: Final = 64 << 20
"""Bytes of a document to import; it becomes one journal record, so that it is whole or absent."""


def import_(
    engine: Engine,
    name: str,
    *,
    file: Path | None,
    data: str | None,
    form: str | None,
    allow_secrets: bool,
) -> JsonObject:
    """Take in a document as a new session, checked whole before anything is kept."""
    check_name(name)
    request = engine.session_request
    if request is None or not request.again:
        engine.framing.desk.check_free(name)
    document = read_document(_bytes_of(file, data))
    session = _read(engine, name, document, form)
    if not allow_secrets:
        check_secrets(SessionContentError, "session", document)
    kept = engine.framing.desk.create(name, session)
    return {
        "name": name,
        "origin": kept.name,
        "cycle": kept.cycle,
        "records": len(kept.state.records),
        "commits": len(kept.state.log.commits),
        "tokens": kept.state.log.total_tokens,
        "warnings": list(session.warnings),
    }


def _read(engine: Engine, name: str, document: Any, form: str | None) -> Session:
    clock, counter = engine.clock, engine.framing.counter
    try:
        if form is None:
            return import_session(document, name, clock=clock, counter=counter)
        if form not in FORMATS:
            raise UsageError(f"unknown format {form!r}", hint=f"use one of: {', '.join(FORMATS)}")
        return import_chat(document, name, clock=clock, counter=counter, form=form)
    except RecursionError:
        raise DocumentError("the document is nested too deeply") from None


def _bytes_of(file: Path | None, data: str | None) -> bytes | str:
    if (file is None) == (data is None):
        raise UsageError("an import needs either a file or its content")
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
