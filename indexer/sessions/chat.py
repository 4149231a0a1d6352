"""Chat logs as providers keep them, taken apart into the blocks a session holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indexer.core.clock import Clock
from indexer.core.tokens import TokenCounter
from indexer.errors import UsageError
from indexer.sessions.plan import Placement
from indexer.sessions.session import Session

OPENAI: Final = "openai"
ANTHROPIC: Final = "anthropic"
FORMATS: Final = (OPENAI, ANTHROPIC)
MESSAGE: Final = "chat:message"
CALL_ID: Final = "chat:call_id"
ARGUMENTS: Final = "chat:arguments"
PART: Final = "chat:part"
_SYSTEM: Final = ("system", "developer")
_PARTS: Final = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "document"))


class ChatError(UsageError):
    """A document is no chat log that can be read."""

    code = "E_CHAT_INVALID"


@dataclass(frozen=True, slots=True)
class ChatBlock:
    """One part of a message: what it holds, who said it, and what its message needs to return."""

    content: dict[str, Any]
    role: str
    kind: str = "text"
    attributes: dict[str, Any] = field(default_factory=dict)


def is_chat(document: object) -> bool:
    """Whether a document is a chat log rather than a session."""
    if isinstance(document, Mapping):
        return "root" not in document and ("messages" in document or "flat_log" in document)
    return isinstance(document, list)


def import_chat(
    document: object,
    name: str,
    *,
    clock: Clock | None = None,
    counter: TokenCounter | None = None,
    seal_last: bool = True,
    form: str | None = None,
) -> Session:
    """A session from a chat log: system messages in ^sys, each exchange a sealed turn."""
    session = Session.new(name, clock=clock, counter=counter)
    answered = started = False
    for block in chat_blocks(document, form):
        if block.role in _SYSTEM:
            session.append(block.content, _where(block, "sys"))
            continue
        if answered and block.role == "user":
            session.commit()
            answered = False
        session.append(block.content, _where(block, "ah"))
        started = True
        answered = answered or block.role != "user"
    if started and seal_last:
        session.commit()
    return session


def _where(block: ChatBlock, region: str) -> Placement:
    return Placement(region=region, role=block.role, kind=block.kind, attributes=block.attributes)


def chat_blocks(document: object, form: str | None = None) -> list[ChatBlock]:
    """The blocks of a chat log in order, whichever provider wrote it, unless that is told."""
    if form is not None and form not in FORMATS:
        raise ChatError(f"unknown chat format {form!r}", hint=f"use {' or '.join(FORMATS)}")
    messages, system = _messages(document)
    odd = system is not None or any(_has_anthropic_part(message) for message in messages)
    if form == ANTHROPIC or (form is None and odd):
        found = [*_anthropic_system(system), *_each(messages, _anthropic_message)]
    else:
        calls: dict[str, str] = {}
        found = list(_each(messages, lambda item, index: _openai_message(item, index, calls)))
    return found


def _messages(document: object) -> tuple[list[Mapping[str, Any]], Any]:
    system = None
    if isinstance(document, Mapping):
        system = document.get("system")
        document = document.get("messages", document.get("flat_log"))
    if not isinstance(document, list) or not all(isinstance(m, Mapping) for m in document):
        raise ChatError("a chat log is a list of messages, or an object with such a list")
    return document, system


def _has_anthropic_part(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(isinstance(part, Mapping) and part.get("type") in _PARTS for part in content)


def _each(messages: Sequence[Mapping[str, Any]], read: Any) -> Iterator[ChatBlock]:
    for index, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise ChatError(f"message {index} has no role")
        try:
            yield from read(message, index)
        except (KeyError, TypeError, AttributeError) as error:
            raise ChatError(f"message {index} cannot be read: {error!r}") from None


def _origin(
    index: int, message: Mapping[str, Any], known: Sequence[str], form: str
) -> dict[str, Any]:
    """What a block remembers of its message, so that an export gives it back."""
    extra = {key: value for key, value in message.items() if key not in known}
    origin = {"index": index, "role": message["role"], "form": form}
    return {MESSAGE: {**origin, "extra": extra} if extra else origin}


def _openai_message(
    message: Mapping[str, Any], index: int, calls: dict[str, str]
) -> Iterator[ChatBlock]:
    role, content = message["role"], message.get("content")
    form = "parts" if isinstance(content, list) else "null" if content is None else "text"
    origin = _origin(
        index, message, ("role", "content", "name", "tool_calls", "tool_call_id"), form
    )
    if role == "tool":
        call_id = message.get("tool_call_id", "")
        tool = message.get("name") or calls.get(call_id, "tool")
        payload = {"content": content}
        yield ChatBlock(
            _tool(tool, "result", payload), "tool", "result", {**origin, CALL_ID: call_id}
        )
        return
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    requests = message.get("tool_calls") or ()
    for part in parts if content is not None or not requests else ():
        yield _part(part, role, message.get("name"), origin)
    for request in requests:
        called = request["function"]
        calls[request["id"]] = called["name"]
        attributes = {**origin, CALL_ID: request["id"], ARGUMENTS: called["arguments"]}
        yield ChatBlock(
            _tool(called["name"], "call", _arguments(called["arguments"])),
            "assistant",
            "call",
            attributes,
        )


def _anthropic_system(system: Any) -> Iterator[ChatBlock]:
    if system is None:
        return
    form = "parts" if isinstance(system, list) else "text"
    origin = {MESSAGE: {"index": -1, "role": "system", "form": form}}
    for part in system if isinstance(system, list) else [{"type": "text", "text": system}]:
        yield _part(part, "system", None, origin)


def _anthropic_message(message: Mapping[str, Any], index: int) -> Iterator[ChatBlock]:
    role, content = message["role"], message["content"]
    form = "parts" if isinstance(content, list) else "text"
    origin = _origin(index, message, ("role", "content"), form)
    for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        kind = part.get("type")
        if kind == "tool_use":
            body = _tool(part["name"], "call", dict(part["input"]))
            yield ChatBlock(body, role, "call", {**origin, **_rest(part), CALL_ID: part["id"]})
        elif kind == "tool_result":
            body = _tool("tool", "result", {"content": part.get("content")})
            if part.get("is_error"):
                body["status"] = "error"
            attributes = {**origin, **_rest(part), CALL_ID: part["tool_use_id"]}
            yield ChatBlock(body, "tool", "result", attributes)
        elif kind == "thinking":
            body = {"content_type": "reasoning", "text": part["thinking"]}
            yield ChatBlock(body, role, "reasoning", {**origin, **_rest(part)})
        else:
            yield _part(part, role, None, origin)


_USED: Final = frozenset(
    ("type", "id", "name", "input", "tool_use_id", "content", "thinking", "text")
)


def _rest(part: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a part that its content does not hold."""
    rest = {key: value for key, value in part.items() if key not in _USED}
    return {PART: rest} if rest else {}


def _part(
    part: Mapping[str, Any], role: str, name: str | None, origin: Mapping[str, Any]
) -> ChatBlock:
    """A text as dialogue or instruction; any other part as it is."""
    text = part.get("text") if part.get("type") == "text" else None
    if text is None and part.get("type") != "text":
        body: dict[str, Any] = {"content_type": "freeform", "payload": dict(part)}
        return ChatBlock(body, role, str(part.get("type", "part")), dict(origin))
    attributes = {**origin, **_rest(part)}
    if role in _SYSTEM:
        return ChatBlock(
            {"content_type": "instruction", "text": text or ""}, "system", attributes=attributes
        )
    body = {"content_type": "dialogue", "role": role, "text": text or "", "name": name}
    return ChatBlock(body, role, attributes=attributes)


def _tool(name: str, direction: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "content_type": "tool_io",
        "tool_name": name,
        "direction": direction,
        "payload": payload,
    }


def _arguments(written: str) -> dict[str, Any]:
    """The arguments of a call as an object; as they were written where they are none."""
    try:
        arguments = json.loads(written)
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": written}
