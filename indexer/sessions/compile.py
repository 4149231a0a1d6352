"""A session read as messages: edits substituted, skipped blocks left out, roles mapped, merged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from indexer.compiler import CompiledStages, compile_stages
from indexer.core.tokens import TokenCounter
from indexer.errors import UsageError
from indexer.sessions.content import SKIP, role_of, text_of
from indexer.sessions.log import CommitNotFoundError
from indexer.sessions.node import Node
from indexer.sessions.records import EDIT, CommitRecord
from indexer.sessions.state import State
from indexer.sessions.view import View, blocks

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
    """One message for a model."""

    role: str
    content: str
    name: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The message as providers take it."""
        fields: dict[str, Any] = {"role": self.role, "content": self.content}
        return fields if self.name is None else {**fields, "name": self.name}


@dataclass(frozen=True, slots=True)
class Compiled:
    """Messages with their token count, framing included, and the stages they went through."""

    messages: tuple[Message, ...]
    token_count: int
    commit_count: int
    token_source: str
    stages: CompiledStages

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


@dataclass(frozen=True, slots=True)
class Effective:
    """A block as it reads now: its node, the commit it came with and the content that counts."""

    node: Node
    commit: CommitRecord
    content: Mapping[str, Any]
    edited: bool


def effective_blocks(state: State, view: View, notes: State) -> Iterator[Effective]:
    """Blocks in reading order, with the latest edit of each, and without skipped ones."""
    found = [(node, state.log.of_node(node.id)) for node, _ in blocks(view)]
    edits: dict[str, CommitRecord] = {}
    for _, commit in found:
        if commit is not None and commit.operation == EDIT and commit.reply_to is not None:
            known = edits.get(commit.reply_to)
            if known is None or known.seq < commit.seq:
                edits[commit.reply_to] = commit
    for node, commit in found:
        if commit is None or commit.operation == EDIT or notes.log.priority(commit) == SKIP:
            continue
        source = edits.get(commit.commit_hash, commit)
        yield Effective(node, commit, state.log.content(source), source is not commit)


def compile_blocks(
    found: Sequence[Effective], options: CompileOptions, counter: TokenCounter
) -> Compiled:
    """Messages from blocks, as the staged compiler selects and collapses them."""
    spoken = [(item, _message(item, options)) for item in found]
    stages = compile_stages([_event(*pair) for pair in spoken], options.policy)
    kept = {message.id: message.collapsed for message in stages.header.messages}
    singles = [
        _collapsed(item, message) if kept[item.commit.commit_hash] else message
        for item, message in spoken
        if item.commit.commit_hash in kept
    ]
    messages = merge_same_role(singles)
    count = counter.count_messages([message.to_json() for message in messages])
    source = getattr(counter, "encoding_name", type(counter).__name__) if messages else ""
    return Compiled(tuple(messages), count, len(singles), source, stages)


def _message(item: Effective, options: CompileOptions) -> Message:
    content = item.content
    role = role_of(content, options.roles)
    # Freeform content has no role of its own; its block may have been given one.
    if content["content_type"] == "freeform" and "freeform" not in options.roles:
        role = item.node.role or role
    text = text_of(content) + (EDITED if options.show_edits and item.edited else "")
    return Message(role, text, content.get("name") if "role" in content else None)


def merge_same_role(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of the same role as one message, a blank line between their texts."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            last = merged.pop()
            joined = f"{last.content}\n\n{message.content}"
            merged.append(Message(last.role, joined, last.name))
        else:
            merged.append(message)
    return merged


def _event(item: Effective, message: Message) -> dict[str, Any]:
    """A block as the staged compiler takes it."""
    return {
        "id": item.commit.commit_hash,
        "kind": item.content["content_type"],
        "turn": item.node.cycle,
        "payload": message.to_json(),
    }


def _collapsed(item: Effective, message: Message) -> Message:
    """A message shrunk to one line that still tells what it was."""
    line = f"[collapsed {item.content['content_type']} {item.commit.content_hash[:12]}]"
    return Message(message.role, line, message.name)


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
