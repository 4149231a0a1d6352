"""`session attempt`: calls to models, with the hash of what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from indexer.core.arguments import Count, one_of
from indexer.core.secrets import mask
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.labels import labels_of
from indexer.engine.sessions.policies import agreed_plugins
from indexer.engine.sessions.write import op_data
from indexer.sessions import Attempt, Plan, Session
from indexer.sessions.operations import STATUSES
from indexer.sessions.sent import FORMS, THREAD, Sending, SentError

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

Status = Annotated[str, one_of(*STATUSES)]
Form = Annotated[str, one_of(*FORMS)]


class AttemptDocument(TypedDict):
    """Result of `session attempt`."""

    attempt: JsonObject


def attempt(
    engine: Engine,
    name: str,
    attempt_id: str,
    *,
    status: Status,
    provider: str,
    model: str,
    params: Mapping[str, Any] | None = None,
    token_in: Count | None = None,
    token_out: Count | None = None,
    error: str | None = None,
    form: Form | None = None,
    roles: Mapping[str, str] | None = None,
    policy: Mapping[str, Any] | None = None,
    before: str | None = None,
    sent_sha256: str | None = None,
    agent: str | None = None,
) -> AttemptDocument:
    """Record a provider call, or how it ended, beside the history.

    The first record of an attempt keeps the hash of what is sent: the thread of the work in
    progress, or the session compiled in a form (`messages`, `openai`, `anthropic`).
    `session render NAME attempt:ID` gives the same bytes again. One that is recorded after its
    answer was added names that block in `before`. A hash that the client has of what it sent is
    compared, and refused where it is another.
    """
    # A provider's message may repeat the key that it refuses.
    error = mask(error) if error is not None else None
    told = Attempt(attempt_id, status, provider, model, params or {}, token_in, token_out, error)
    plugins = agreed_plugins(engine.root, policy)

    def record(session: Session) -> Plan:
        how = Sending(form or THREAD, False, dict(roles or {}), policy)
        if how.form != THREAD and attempt_id not in session.state.log.attempts:
            how = replace(how, labels=labels_of(engine, session.effective()))
        if before is None and sent_sha256 is None:
            _check_not_late(session, told)
        made = session.plan_attempt(told, how, plugins, before)
        sent = op_data(made).get("sent", {}).get("sha256")
        if sent_sha256 is not None and sent_sha256 != sent:
            raise SentError(
                f"what this session gives has the SHA-256 {sent}, which is not what was sent",
                hint="name the first block that was added since with `--before ID`",
            )
        return made

    _, plan = engine.sessions.write(name, record, engine.sessions.author(agent))
    return {"attempt": dict(op_data(plan))}


def _check_not_late(session: Session, told: Attempt) -> None:
    """Refuse an attempt that has ended and would take its own answer for what it sent."""
    blocks = session.effective() if told.status == "completed" else []
    if not blocks or told.attempt_id in session.state.log.attempts:
        return
    last = blocks[-1]
    if last.content.get("role") == "assistant":
        raise SentError(
            f"attempt {told.attempt_id!r} has ended, and the session ends with an answer:"
            " what was sent is not what it holds now",
            hint=f"say before which block it was sent: --before {last.node.id}",
        )
