"""What is read from sessions; each reader sees whole cycles, whatever is written meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core.arguments import Count
from indexer.core.clock import iso_utc
from indexer.engine.documents import JsonObject
from indexer.errors import UsageError
from indexer.sessions import CompileOptions, SelectOptions, Session
from indexer.sessions.chat import FORMATS
from indexer.sessions.chat_export import export_chat
from indexer.sessions.compile import compile_blocks
from indexer.sessions.documents import document_bytes, exported_bytes
from indexer.sessions.render import provider_thread, thread_text

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

STAGES: Final = ("RAW", "SPEC", "HEADER", "FROZEN")
RECENT: Final = 20
"""Cycles that `show` lists."""


def select(
    engine: Engine,
    name: str,
    selector: str,
    *,
    include_content: bool = False,
    content_mode: str = "unified",
    context_lines: Count = 3,
    max_snapshots: Count | None = None,
    max_changes: Count | None = None,
    materialize: Sequence[str] = (),
) -> JsonObject:
    """Ids that a selector finds, or what changed over a range of snapshots."""
    options = SelectOptions(
        include_content,
        content_mode,
        context_lines,
        tuple(materialize),
        max_snapshots,
        max_changes,
    )
    found = engine.sessions.read(name, lambda s: s.select(selector, options))
    return found if isinstance(found, dict) else {"ids": found}


def diff(
    engine: Engine, name: str, older: str, newer: str, selector: str | None = None
) -> JsonObject:
    """What differs between two snapshots."""

    def compare(session: Session) -> JsonObject:
        moves = session.moves(older, newer, selector)
        return {**session.diff(older, newer, selector), "moves": moves}

    return engine.sessions.read(name, compare)


class RenderedDocument(TypedDict):
    """Result of `session render`."""

    name: str
    cycle: int
    thread: str


def render(engine: Engine, name: str, snapshot: str | None = None) -> RenderedDocument:
    """The provider thread, as text; it stands under `thread`."""

    def look(session: Session) -> tuple[int, list[dict[str, Any]]]:
        view = session.view(snapshot)
        return view.cycle, provider_thread(view)

    cycle, thread = engine.sessions.read(name, look)
    return {"name": name, "cycle": cycle, "thread": thread_text(thread)}


def compile_session(
    engine: Engine,
    name: str,
    *,
    as_of: str | None = None,
    up_to: str | None = None,
    show_edits: bool = False,
    stage: str | None = None,
    roles: Mapping[str, str] | None = None,
    policy: Mapping[str, Any] | None = None,
) -> JsonObject:
    """The session as messages for a model.

    With a stage's name, also what went through that stage.
    """
    options = CompileOptions(show_edits, dict(roles or {}), policy)
    wanted = stage.upper() if stage is not None else None
    if wanted is not None and wanted not in STAGES:
        raise UsageError(f"unknown stage {stage!r}", hint=f"use one of: {', '.join(STAGES)}")
    blocks = engine.sessions.read(name, lambda s: s.reading(as_of=as_of, up_to=up_to))
    compiled = compile_blocks(blocks(), options, engine.counter)
    staged = compiled.stages.to_json()
    document: JsonObject = {**compiled.to_json(), "hashes": staged["hashes"]}
    if wanted is not None:
        stages = staged["stages"]
        assert isinstance(stages, dict)
        document["stage"] = stages[wanted]
    return document


class ExportedSessionDocument(TypedDict):
    """Result of `session export`."""

    name: str
    data: str


def export(
    engine: Engine, name: str, snapshot: str | None = None, *, form: str | None = None
) -> ExportedSessionDocument:
    """A session with its log, a snapshot, or a chat log; its text stands under `data`."""
    sessions = engine.sessions
    if form is not None and form not in FORMATS:
        raise UsageError(f"unknown format {form!r}", hint=f"use one of: {', '.join(FORMATS)}")
    if form is not None:
        if snapshot is not None:
            raise UsageError("a chat log is of the session as it is, not of a snapshot")
        chat = sessions.read(name, lambda s: export_chat(s, form))
        data = document_bytes(chat)
    elif snapshot is not None:
        data = document_bytes(sessions.read(name, lambda s: s.document(snapshot)))
    else:
        data = exported_bytes(
            *sessions.read(name, lambda s: (s.document(), s.state.records.first()))
        )
    return {"name": name, "data": data.decode("ascii")}


class SessionsDocument(TypedDict):
    """Result of `session list`."""

    sessions: list[JsonObject]


def list_sessions(engine: Engine) -> SessionsDocument:
    """Every session."""
    found = engine.sessions.store.summaries()
    for each in found:
        each["opened_at"] = iso_utc(each.pop("opened_ns"))
        each["updated_at"] = iso_utc(each.pop("updated_ns"))
        each["tokens"] = int(each["tokens"])
    return {"sessions": found}


def show(
    engine: Engine, name: str, *, snapshot: str | None = None, tree: bool = False
) -> JsonObject:
    """One session in figures, with a snapshot's tree on request."""

    def look(session: Session) -> JsonObject:
        state = session.state
        seals = [
            {"cycle": seal.cycle, "at": seal.at_iso, "turn": seal.turn}
            for seal in reversed(state.seals[-RECENT:])
        ]
        document: JsonObject = {
            "name": name,
            "origin": session.name,
            "cycle": session.cycle,
            "records": len(state.records),
            "commits": len(state.log.commits),
            "tokens": state.log.total_tokens,
            "budget": state.budget.to_json(),
            "prune": state.policy.to_json() if state.policy is not None else None,
            "head": session.head,
            "cycles": seals,
            "attempts": [dict(each) for each in state.log.attempts.values()],
        }
        if tree or snapshot is not None:
            document["tree"] = session.document(snapshot)
        return document

    return engine.sessions.read(name, look)
