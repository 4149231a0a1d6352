"""Chat logs as providers keep them, taken apart into the blocks a session holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indexer.core.clock import Clock
from indexer.core.tokens import TokenCounter
from indexer.sessions.content import CALL, CALL_ID, RESULT, TOOL_IO
from indexer.sessions.plan import Placement
from indexer.sessions.providers import (
    ANTHROPIC,
    ARGUMENTS,
    FUNCTION,
    MESSAGE,
    PART,
    ChatError,
    check_format,
)
from indexer.sessions.session import Session
from indexer.sessions.state import State

_SYSTEM: Final = ("system", "developer")
_PARTS: Final = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "document"))


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
    form: str | None = None,
    author: str | None = None,
) -> Session:
    """A session from a chat log: system messages in ^sys, each exchange a sealed turn."""
    session = Session.new(name, clock=clock, counter=counter, author=author)
    session.author = author
    answered = started = False
    for block in chat_blocks(document, form):
        if block.role in _SYSTEM:
            session.append(block.content, placement_of(block))
            continue
        if answered and block.role == "user":
            session.commit()
            answered = False
        session.append(block.content, placement_of(block))
        started = True
        answered = answered or block.role != "user"
    if started:
        session.commit()
    session.author = None
    return session


def placement_of(block: ChatBlock) -> Placement:
    """Where a block of a chat goes: what the system says to ^sys, the rest to the active head."""
    region = "sys" if block.role in _SYSTEM else "ah"
    return Placement(region=region, role=block.role, kind=block.kind, attributes=block.attributes)


def chat_blocks(document: object, form: str | None = None) -> list[ChatBlock]:
    """The blocks of a chat log in order, whichever provider wrote it, unless that is told."""
    if form is not None:
        check_format(form)
    messages, system = _messages(document)
    odd = system is not None or any(_has_anthropic_part(message) for message in messages)
    of_anthropic = form == ANTHROPIC or (form is None and odd)
    calls: dict[str, str] = {}
    read = _anthropic_message if of_anthropic else _openai_message
    found = [*_anthropic_system(system)] if of_anthropic else []
    return found + list(_each(messages, lambda item, index: read(item, index, calls)))


def tools_of(state: State, message: Mapping[str, Any]) -> dict[str, str]:
    """The tools of the calls that a message answers, by call id: looked for from the newest on."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    named = [part.get("tool_use_id") for part in parts if isinstance(part, Mapping)]
    wanted = {one for one in (*named, message.get("tool_call_id")) if isinstance(one, str)}
    found: dict[str, str] = {}
    if not wanted and message.get("role") != FUNCTION:
        return found
    for node_id in reversed(state.live.blocks):
        node, commit = state.work().node(node_id), state.log.of_node(node_id)
        if node is None or commit is None or node.kind != CALL:
            continue
        call_id = node.attributes.get(CALL_ID)
        if call_id in wanted or not wanted:
            found[str(call_id)] = state.log.content(commit)["tool_name"]
            wanted.discard(call_id)
            if not wanted:
                break
    return found


def message_blocks(
    message: object, form: str, index: int, calls: dict[str, str]
) -> list[ChatBlock]:
    """The blocks of one message, which is number `index`; `calls` has the tools by call id."""
    check_format(form)
    if not isinstance(message, Mapping):
        raise ChatError("a message is an object")
    read = _anthropic_message if form == ANTHROPIC else _openai_message
    return list(_each([message], lambda item, _: read(item, index, calls)))


def _messages(document: object) -> tuple[list[Mapping[str, Any]], Any]:
    system = None
    if isinstance(document, Mapping):
        system, is_flat = document.get("system"), "flat_log" in document
        document = document.get("messages", document.get("flat_log"))
        # A flat log of PACT 1.0, which has no roles, tags who speaks.
        if isinstance(document, list) and is_flat:
            document = [_with_role(message) for message in document]
    if not isinstance(document, list) or not all(isinstance(m, Mapping) for m in document):
        raise ChatError("a chat log is a list of messages, or an object with such a list")
    return document, system


def _with_role(message: Any) -> Any:
    if isinstance(message, Mapping) and "role" not in message and "tag" in message:
        return {"role": message["tag"], **{k: v for k, v in message.items() if k != "tag"}}
    return message


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
        index,
        message,
        ("role", "content", "name", "tool_calls", "tool_call_id", "function_call"),
        form,
    )
    if role in ("tool", FUNCTION):
        # Without ids a result answers the call before it.
        call_id = message.get("tool_call_id", next(reversed(calls), "") if role != "tool" else "")
        tool = message.get("name") or calls.get(call_id, "tool")
        payload = {"content": content}
        yield ChatBlock(_tool(tool, RESULT, payload), "tool", RESULT, {**origin, CALL_ID: call_id})
        return
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    requests = message.get("tool_calls") or ()
    if message.get("function_call") is not None:
        requests = [{"id": f"{FUNCTION}_{index}", "function": message["function_call"]}]
    for part in parts if content is not None or not requests else ():
        yield _part(part, role, message.get("name"), origin)
    for request in requests:
        called = request["function"]
        calls[request["id"]] = called["name"]
        attributes = {**origin, CALL_ID: request["id"], ARGUMENTS: called["arguments"]}
        yield ChatBlock(
            _tool(called["name"], CALL, _arguments(called["arguments"])),
            "assistant",
            CALL,
            attributes,
        )


def _anthropic_system(system: Any) -> Iterator[ChatBlock]:
    if system is None:
        return
    form = "parts" if isinstance(system, list) else "text"
    origin = {MESSAGE: {"index": -1, "role": "system", "form": form}}
    for part in system if isinstance(system, list) else [{"type": "text", "text": system}]:
        yield _part(part, "system", None, origin)


def _anthropic_message(
    message: Mapping[str, Any], index: int, calls: dict[str, str]
) -> Iterator[ChatBlock]:
    role, content = message["role"], message["content"]
    form = "parts" if isinstance(content, list) else "text"
    origin = _origin(index, message, ("role", "content"), form)
    for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        kind = part.get("type")
        if kind == "tool_use":
            calls[part["id"]] = part["name"]
            body = _tool(part["name"], CALL, dict(part["input"]))
            yield ChatBlock(body, role, CALL, {**origin, **_rest(part), CALL_ID: part["id"]})
        elif kind == "tool_result":
            name = calls.get(part["tool_use_id"], "tool")
            body = _tool(name, RESULT, {"content": part.get("content")})
            if part.get("is_error"):
                body["status"] = "error"
            attributes = {**origin, **_rest(part), CALL_ID: part["tool_use_id"]}
            yield ChatBlock(body, "tool", RESULT, attributes)
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
        "content_type": TOOL_IO,
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
