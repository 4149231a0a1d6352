"""A session read as messages: edits substituted, skipped blocks left out, roles mapped, merged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from indexer.compiler import CompiledStages, Plugins, compile_stages
from indexer.core.tokens import TokenCounter
from indexer.errors import UsageError
from indexer.sessions.content import CALL, CALL_ID, RESULT, role_of, text_of
from indexer.sessions.context import KIND as CONTEXT
from indexer.sessions.context import RULES, ContextNote, Label, is_context, resolved
from indexer.sessions.effective import Effective
from indexer.sessions.log import CommitNotFoundError
from indexer.sessions.pairing import call_ids, pairs
from indexer.sessions.records import CommitRecord
from indexer.sessions.state import State

EDITED: Final = " [edited]"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Seconds may carry up to nine digits of a fraction, more than a datetime holds.
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")

Moment: TypeAlias = "str | int | datetime"


class CompileError(UsageError):
    """Options of a compile that contradict each other or cannot be read."""

    code = "E_COMPILE_INVALID"


@dataclass(frozen=True, slots=True)
class Message:
    """One message for a model; of a tool's call or result all that it takes to pair them."""

    role: str
    content: str
    name: str | None = None
    direction: str | None = None
    call_id: str | None = None
    status: str | None = None
    context: bool = False
    """Whether it is data from the workspace, which nobody said."""

    @property
    def alone(self) -> bool:
        """Whether it must stay a message of its own."""
        return self.direction is not None or self.context

    def to_json(self) -> dict[str, Any]:
        """The message as a JSON value; what is not set is left out."""
        fields: dict[str, Any] = {"role": self.role, "content": self.content}
        for key in ("name", "direction", "call_id", "status"):
            value = getattr(self, key)
            if value is not None:
                fields[key] = value
        return {**fields, "context": True} if self.context else fields


@dataclass(frozen=True, slots=True)
class Compiled:
    """Messages with their token count, framing included, and the stages they went through."""

    messages: tuple[Message, ...]
    token_count: int
    commit_count: int
    token_source: str
    stages: CompiledStages
    used: tuple[Effective, ...] = ()
    """The blocks as they were used: context fenced, the collapsed shortened."""
    context: tuple[ContextNote, ...] = ()
    """What became of each block of context."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """The block that each node of the stages stands for."""

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON value."""
        return {
            "messages": [message.to_json() for message in self.messages],
            "token_count": self.token_count,
            "commit_count": self.commit_count,
            "token_source": self.token_source,
        }


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to read a session; every option takes part in the result."""

    show_edits: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, object] | None = None
    labels: Mapping[str, Label] = field(default_factory=dict)
    """Whether the context in each block still holds, as far as somebody looked."""
    plugins: Plugins | None = None
    rules: int = RULES


def compile_blocks(
    found: Sequence[Effective], options: CompileOptions, counter: TokenCounter
) -> Compiled:
    """Messages from blocks, as the staged compiler selects and collapses them."""
    items, context = resolved(found, options.labels, options.rules)
    ids = call_ids(items)
    together = pairs(items, ids)
    spoken = [(item, _message(item, options, ids)) for item in items]
    stages = compile_stages(
        [_event(item, message, together.get(item.node.id)) for item, message in spoken],
        options.policy,
        plugins=options.plugins,
    )
    kept = {message.id: message.collapsed for message in stages.header.messages}
    used: list[Effective] = []
    singles: list[Message] = []
    for node_id, (item, message) in zip(stages.node_ids, spoken, strict=True):
        if node_id not in kept:
            continue
        line = stages.summaries[node_id] if kept[node_id] else None
        used.append(item if line is None else _shortened(item, line))
        singles.append(message if line is None else replace(message, content=line))
    messages = merge_same_role(singles)
    count = counter.count_messages([message.to_json() for message in messages])
    source = getattr(counter, "encoding_name", type(counter).__name__) if messages else ""
    return Compiled(
        tuple(messages),
        count,
        len(singles),
        source,
        stages,
        tuple(used),
        tuple(context),
        {node_id: item.node.id for node_id, item in zip(stages.node_ids, items, strict=True)},
    )


def _message(item: Effective, options: CompileOptions, ids: Mapping[str, str]) -> Message:
    content = item.content
    role = role_of(content, options.roles)
    # Freeform content has no role of its own; its block may have been given one.
    if content["content_type"] == "freeform" and "freeform" not in options.roles:
        role = item.node.role or role
    text = text_of(content) + (EDITED if options.show_edits and item.edited else "")
    if item.direction is not None:
        called, status = ids[item.node.id], content.get("status")
        return Message(role, text, content["tool_name"], item.direction, called, status)
    name = content.get("name") if "role" in content else None
    return Message(role, text, name, context=is_context(item.node))


def merge_same_role(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of the same role as one message, a blank line between their texts.

    Calls, results and context stay messages of their own.
    """
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        apart = last is None or last.alone or message.alone or last.role != message.role
        if last is None or apart:
            merged.append(message)
        else:
            merged[-1] = Message(last.role, f"{last.content}\n\n{message.content}", last.name)
    return merged


def _event(item: Effective, message: Message, pair: str | None) -> dict[str, Any]:
    """A block as the staged compiler takes it: nothing in it tells when it was said, or where.

    Its id there follows from content and place; a call id that nobody gave follows from the
    session, and is no content.
    """
    given = message if CALL_ID in item.node.attributes else replace(message, call_id=None)
    return {
        "kind": CONTEXT if is_context(item.node) else item.content["content_type"],
        "turn": item.node.cycle,
        "payload": given.to_json(),
        "pinned": item.pinned,
        "pair": pair,
    }


def _shortened(item: Effective, line: str) -> Effective:
    """A collapsed block: one line that still tells what it was, a call still a call."""
    content = item.content
    if item.direction == CALL:
        return replace(item, content={**content, "payload": {"collapsed": line}}, edited=True)
    if item.direction == RESULT:
        return replace(item, content={**content, "payload": {"content": line}}, edited=True)
    role = role_of(content) if content["content_type"] != "freeform" else item.node.role
    short = {"content_type": "dialogue", "role": role or "assistant", "text": line}
    return replace(item, content=short if role != "system" else {**content, "text": line})


def moment_us(moment: Moment) -> int:
    """A point in time in microseconds since the epoch; without a zone it is UTC."""
    if isinstance(moment, int):
        return moment // 1000
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(_FRACTION.sub(r"\1", moment.strip()))
        except ValueError:
            raise CompileError(
                f"{moment!r} is no point in time", hint="write it as 2026-01-31T12:00:00Z"
            ) from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since = aware - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def prefix_length(state: State, as_of: Moment | None, up_to: str | None) -> int:
    """How many records belong to the moment asked for."""
    if as_of is not None and up_to is not None:
        raise CompileError("as_of and up_to cannot both be given")
    if up_to is not None:
        return _commit_named(state, up_to).seq + 1
    if as_of is not None:
        return state.records.count_until(moment_us(as_of))
    return len(state.records)


def _commit_named(state: State, name: str) -> CommitRecord:
    try:
        return state.log.resolve(name)
    except CommitNotFoundError as error:
        raise CommitNotFoundError(f"up_to: {error.message}", hint=error.hint) from None
