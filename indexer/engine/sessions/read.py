"""What is read from sessions; each reader sees whole cycles, whatever is written meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, cast

from indexer.compiler import Plugins
from indexer.core.arguments import Count, one_of
from indexer.core.canonical import canonical_json
from indexer.core.clock import iso_utc
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.labels import labels_of
from indexer.engine.sessions.policies import agreed_plugins
from indexer.errors import ArgumentsError
from indexer.sessions import CompileOptions, SelectOptions, Session
from indexer.sessions.chat_export import Chat, chat_of
from indexer.sessions.compile import Compiled, compile_blocks
from indexer.sessions.contentdiff import MODES
from indexer.sessions.diff import Diff, Moved
from indexer.sessions.documents import document_bytes, exported_bytes
from indexer.sessions.providers import FORMATS
from indexer.sessions.render import provider_thread, thread_text
from indexer.sessions.sent import MESSAGES, compiled_bytes, provider_items

if TYPE_CHECKING:
    from pathlib import Path

    from indexer.core.tokens import TokenCounter
    from indexer.engine.sessions.open_sessions import OpenSessions
    from indexer.engine.workspace import Engine

STAGES: Final = ("RAW", "SPEC", "HEADER", "FROZEN")
Stage = Annotated[str, one_of(*STAGES, *map(str.lower, STAGES))]
Mode = Annotated[str, one_of(*MODES)]
ChatFormat = Annotated[str, one_of(*FORMATS)]
RECENT: Final = 20
"""Cycles that `show` lists."""


class FoundDocument(TypedDict):
    """Result of `session select`."""

    ids: list[str]


class _RangeDocument(TypedDict):
    query: str
    snapshots: list[JsonObject]
    diffs: list[JsonObject]
    mode: str


class RangeDocument(_RangeDocument, total=False):
    """Result of `session select` over a range of snapshots."""

    limits: JsonObject
    warnings: list[str]
    errors: list[JsonObject]


def select(
    engine: Engine,
    name: str,
    selector: str,
    *,
    include_content: bool = False,
    content_mode: Mode = "unified",
    context_lines: Count = 3,
    max_snapshots: Count | None = None,
    max_changes: Count | None = None,
    materialize: Sequence[str] = (),
) -> FoundDocument | RangeDocument:
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
    return cast(RangeDocument, found) if isinstance(found, dict) else {"ids": found}


class SnapshotDiffDocument(Diff):
    """Result of `session diff`."""

    moves: list[Moved]


def diff(
    engine: Engine, name: str, older: str, newer: str, selector: str | None = None
) -> SnapshotDiffDocument:
    """What differs between two snapshots."""

    def compare(session: Session) -> SnapshotDiffDocument:
        moves = session.moves(older, newer, selector)
        return {**session.diff(older, newer, selector), "moves": moves}

    return engine.sessions.read(name, compare)


class RenderedDocument(TypedDict):
    """Result of `session render`."""

    name: str
    cycle: int
    thread: str


ATTEMPT: Final = "attempt:"
"""With an attempt's id, what is rendered is what that attempt sent."""


def render(engine: Engine, name: str, snapshot: str | None = None) -> RenderedDocument:
    """The provider thread of a snapshot, as text; it stands under `thread`.

    Of `attempt:ID` it is what that attempt sent, byte for byte.
    """
    if snapshot is not None and snapshot.startswith(ATTEMPT):
        return _sent(engine.sessions, engine.root, name, snapshot.removeprefix(ATTEMPT))

    def look(session: Session) -> tuple[int, list[dict[str, Any]]]:
        view = session.view(snapshot)
        return view.cycle, provider_thread(view)

    cycle, thread = engine.sessions.read(name, look)
    return {"name": name, "cycle": cycle, "thread": thread_text(thread)}


class _CompiledDocument(TypedDict):
    messages: list[JsonObject]
    token_count: int
    commit_count: int
    token_source: str
    unpaired: list[str]
    """Calls and results that were left out because no provider takes one without the other."""
    hashes: dict[str, str]
    sha256: str
    """Of the bytes to send."""
    context: list[JsonObject]
    """What became of each block of context."""


class CompiledDocument(_CompiledDocument, total=False):
    """Result of `session compile`; `stage` where one was asked for, `form` where one was."""

    stage: JsonObject
    blocks: dict[str, str]
    """Which block each id of the stage stands for."""
    form: str
    system: Any


def compile_session(
    engine: Engine,
    name: str,
    *,
    as_of: str | None = None,
    up_to: str | None = None,
    show_edits: bool = False,
    stage: Stage | None = None,
    roles: Mapping[str, str] | None = None,
    policy: Mapping[str, Any] | None = None,
    form: ChatFormat | None = None,
) -> CompiledDocument:
    """The session as messages for a model, in a provider's form where one is named.

    With a stage's name, also what went through that stage. Context that no longer holds is
    labelled, or replaced by what was pulled later; `context` tells which.
    """
    wanted = stage.upper() if stage is not None else None
    blocks = engine.sessions.read(name, lambda s: s.reading(as_of=as_of, up_to=up_to))()
    compiled = compile_blocks(
        blocks,
        CompileOptions(
            show_edits,
            dict(roles or {}),
            policy,
            # What is read of the past is labelled as it was then.
            labels_of(engine, blocks) if as_of is None and up_to is None else {},
            agreed_plugins(engine.root, policy),
        ),
        engine.counter,
    )
    staged: JsonObject = compiled.stages.to_json()
    document: CompiledDocument = {
        "messages": [message.to_json() for message in compiled.messages],
        "token_count": compiled.token_count,
        "commit_count": compiled.commit_count,
        "token_source": compiled.token_source,
        "unpaired": [],
        "hashes": staged["hashes"],
        "sha256": hashlib.sha256(compiled_bytes(compiled, form or MESSAGES)).hexdigest(),
        "context": [note.to_json() for note in compiled.context],
    }
    if form is not None:
        _put_in_form(engine.counter, document, compiled, form)
    if wanted is not None:
        document["stage"] = staged["stages"][wanted]
        document["blocks"] = dict(compiled.ids)
    return document


def _put_in_form(
    counter: TokenCounter, document: CompiledDocument, compiled: Compiled, form: str
) -> None:
    """The messages as a provider takes them, and which calls and results it would not take."""
    items, document["unpaired"] = provider_items(compiled.used)
    chat = chat_of(items, form)
    document["form"] = form
    document["token_count"] = _tokens(counter, chat)
    document["messages"] = chat if isinstance(chat, list) else chat["messages"]
    if isinstance(chat, dict) and "system" in chat:
        document["system"] = chat["system"]


def _tokens(counter: TokenCounter, chat: Chat) -> int:
    """The tokens of a provider's messages; what is no text counts as the JSON it is sent as."""
    messages = list(chat) if isinstance(chat, list) else list(chat["messages"])
    if isinstance(chat, dict) and "system" in chat:
        messages.insert(0, {"role": "system", "content": chat["system"]})
    return counter.count_messages(
        [
            {
                key: value if isinstance(value, str) else canonical_json(value).decode()
                for key, value in message.items()
                if value is not None
            }
            for message in messages
        ]
    )


def _sent(sessions: OpenSessions, root: Path, name: str, attempt_id: str) -> RenderedDocument:
    def look(session: Session) -> tuple[JsonObject, Callable[[Plugins | None], bytes]]:
        again = session.sent(attempt_id)
        return dict(session.state.log.attempts[attempt_id]), again

    attempt, again = sessions.read(name, look)
    data = again(agreed_plugins(root, attempt["sent"].get("policy")))
    return {"name": name, "cycle": attempt["cycle_id"], "thread": data.decode()}


class ExportedSessionDocument(TypedDict):
    """Result of `session export`."""

    name: str
    data: str


def export(
    engine: Engine, name: str, snapshot: str | None = None, *, form: ChatFormat | None = None
) -> ExportedSessionDocument:
    """A session with its log, a snapshot, or a chat log; its text stands under `data`."""
    sessions = engine.sessions
    if form is not None:
        if snapshot is not None:
            raise ArgumentsError("a chat log is of the session as it is, not of a snapshot")
        data = document_bytes(sessions.read(name, lambda s: s.chat(form)))
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


def list_sessions(engine: Engine, *, deleted: bool = False) -> SessionsDocument:
    """Every session, or every one that is deleted and can be restored."""
    found = engine.sessions.store.summaries(deleted=deleted)
    for each in found:
        each["opened_at"] = iso_utc(each.pop("opened_ns"))
        each["updated_at"] = iso_utc(each.pop("updated_ns"))
        each["tokens"] = int(each["tokens"])
    return {"sessions": found}


class CycleDocument(TypedDict):
    """One sealed cycle."""

    cycle: int
    at: str
    turn: str


class ShownDocument(TypedDict):
    """Result of `session show`; of its cycles the newest 20."""

    name: str
    origin: str
    cycle: int
    records: int
    commits: int
    tokens: int
    live_tokens: int
    budget: JsonObject
    prune: JsonObject | None
    head: str | None
    cycles: list[CycleDocument]
    attempts: list[JsonObject]


class ShownTreeDocument(ShownDocument):
    """The same, with the tree of a snapshot."""

    tree: JsonObject


def show(
    engine: Engine, name: str, *, snapshot: str | None = None, tree: bool = False
) -> ShownDocument | ShownTreeDocument:
    """One session in figures, with a snapshot's tree on request."""

    def look(session: Session) -> ShownDocument | ShownTreeDocument:
        state = session.state
        seals: list[CycleDocument] = [
            {"cycle": seal.cycle, "at": seal.at_iso, "turn": seal.turn}
            for seal in reversed(state.seals[-RECENT:])
        ]
        document: ShownDocument = {
            "name": name,
            "origin": session.name,
            "cycle": session.cycle,
            "records": len(state.records),
            "commits": len(state.log.commits),
            "tokens": state.log.total_tokens,
            "live_tokens": session.tokens,
            "budget": state.budget.to_json(),
            "prune": state.policy.to_json() if state.policy is not None else None,
            "head": session.head,
            "cycles": seals,
            "attempts": [dict(each) for each in state.log.attempts.values()],
        }
        if tree or snapshot is not None:
            return {**document, "tree": session.document(snapshot)}
        return document

    return engine.sessions.read(name, look)
