"""A session as a chat log: the message lists that providers take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from indexer.core.canonical import canonical_json
from indexer.sessions.content import CALL, RESULT, role_of, text_of
from indexer.sessions.context import RULES, is_context
from indexer.sessions.effective import Effective
from indexer.sessions.pairing import call_ids
from indexer.sessions.providers import (
    ANTHROPIC,
    ARGUMENTS,
    FUNCTION,
    MESSAGE,
    PART,
    check_format,
)

Chat: TypeAlias = "list[dict[str, Any]] | dict[str, Any]"


@dataclass(frozen=True, slots=True)
class _Spoken:
    """Blocks that make one message, and what is known of that message."""

    role: str
    origin: Mapping[str, Any]
    blocks: tuple[Effective, ...]


def chat_of(found: Sequence[Effective], form: str, rules: int = RULES) -> Chat:
    """Blocks as a message list; what is neither call nor result is as it was written."""
    check_format(form)
    ids = call_ids(found)
    spoken = _grouped(found)
    return _anthropic(spoken, ids, rules) if form == ANTHROPIC else _openai(spoken, ids)


def chat_bytes(chat: Chat) -> bytes:
    """The one spelling of a message list, as it is sent."""
    return canonical_json(chat)


def _grouped(found: Iterable[Effective]) -> list[_Spoken]:
    """Neighbours that came as one message, or that a provider would take as one."""
    groups: list[_Spoken] = []
    for item in found:
        origin = item.node.attributes.get(MESSAGE, {})
        role = _role(item)
        last = groups[-1] if groups else None
        if last is not None and last.role == role and _together(last, item, origin):
            groups[-1] = _Spoken(role, last.origin, (*last.blocks, item))
        else:
            groups.append(_Spoken(role, origin, (item,)))
    return groups


def _together(last: _Spoken, item: Effective, origin: Mapping[str, Any]) -> bool:
    if origin or last.origin:
        return bool(origin) and origin.get("index") == last.origin.get("index")
    # Calls go with what the assistant said before them, and results with each other.
    if item.direction is None or is_context(item.node):
        return False
    return item.direction == CALL or last.blocks[-1].direction == RESULT


def _role(item: Effective) -> str:
    """Who says a block: calls are the assistant's, system blocks the system's."""
    if item.direction is not None:
        return "assistant" if item.direction == CALL else "tool"
    if item.content["content_type"] in ("freeform", "instruction"):
        return item.node.role or "assistant"
    return role_of(item.content)


def _openai(spoken: Sequence[_Spoken], ids: Mapping[str, str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for group in spoken:
        if group.role == "tool":
            messages.extend(_openai_result(item, ids) for item in group.blocks)
            continue
        said = [item for item in group.blocks if item.direction is None]
        calls = [_openai_call(item, ids) for item in group.blocks if item.direction is not None]
        form = group.origin.get("form", "text")
        message: dict[str, Any] = {"role": group.origin.get("role", group.role)}
        message["content"] = _openai_content(said, form)
        name = next((n for i in said if (n := i.content.get("name"))), None)
        if name is not None:
            message["name"] = name
        if [call["id"] for call in calls] == [f"{FUNCTION}_{group.origin.get('index')}"]:
            message["function_call"] = calls[0]["function"]
        elif calls:
            message["tool_calls"] = calls
        messages.append({**message, **group.origin.get("extra", {})})
    return messages


def _openai_content(said: Sequence[Effective], form: str) -> Any:
    if form == "null" and not any(text_of(item.content) for item in said):
        return None
    if form == "parts" or any(item.content["content_type"] == "freeform" for item in said):
        return [_part(item) for item in said]
    return "\n\n".join(text_of(item.content) for item in said) if said else None


def _openai_call(item: Effective, ids: Mapping[str, str]) -> dict[str, Any]:
    attributes = item.node.attributes
    written = json.dumps(item.content.get("payload", {}), ensure_ascii=False)
    arguments = written if item.edited else attributes.get(ARGUMENTS, written)
    function = {"name": item.content["tool_name"], "arguments": arguments}
    return {"id": ids[item.node.id], "type": "function", "function": function}


def _openai_result(item: Effective, ids: Mapping[str, str]) -> dict[str, Any]:
    origin = item.node.attributes.get(MESSAGE, {})
    extra = origin.get("extra", {})
    content = _result(item)
    if origin.get("role") == FUNCTION:
        return {"role": FUNCTION, "name": item.content["tool_name"], "content": content, **extra}
    return {"role": "tool", "tool_call_id": ids[item.node.id], "content": content, **extra}


def _result(item: Effective) -> Any:
    payload = item.content.get("payload")
    if isinstance(payload, dict) and payload.keys() == {"content"}:
        return payload["content"]
    return text_of(item.content)


def _part(item: Effective) -> dict[str, Any]:
    """A part of a message that is written as a list."""
    if item.content["content_type"] == "freeform":
        return dict(item.content["payload"])
    rest = item.node.attributes.get(PART, {})
    return {"type": "text", "text": text_of(item.content), **rest}


def _anthropic(spoken: Sequence[_Spoken], ids: Mapping[str, str], rules: int) -> dict[str, Any]:
    system = [item for group in spoken if group.role == "system" for item in group.blocks]
    messages: list[dict[str, Any]] = []
    for group in (group for group in spoken if group.role != "system"):
        role = "assistant" if group.role == "assistant" else "user"
        form = group.origin.get("form", "text")
        plain = len(group.blocks) == 1 and form != "parts" and _is_plain(group.blocks[0])
        content: Any = [_anthropic_part(item, ids) for item in group.blocks]
        if plain:
            content = text_of(group.blocks[0].content)
        index: object = group.origin.get("index")
        if rules > 1 and group.role == "tool" and group.origin.get("role") != "user":
            # This provider takes the results of one turn together; others give them one by one.
            index = "tool"
        last = messages[-1] if messages else None
        # A message that held results and words comes back as the one it was.
        if last is not None and index is not None and last["index"] == index:
            last["content"].extend(content)
        else:
            extra = group.origin.get("extra", {})
            messages.append({"role": role, "content": content, **extra, "index": index})
    for message in messages:
        del message["index"]
    return {**_anthropic_system(system), "messages": messages}


def _is_plain(item: Effective) -> bool:
    return item.direction is None and item.content["content_type"] != "freeform"


def _anthropic_system(system: Sequence[Effective]) -> dict[str, Any]:
    if not system:
        return {}
    if any(item.node.attributes.get(MESSAGE, {}).get("form") == "parts" for item in system):
        return {"system": [_part(item) for item in system]}
    return {"system": "\n\n".join(text_of(item.content) for item in system)}


def _anthropic_part(item: Effective, ids: Mapping[str, str]) -> dict[str, Any]:
    rest = item.node.attributes.get(PART, {})
    if item.direction == CALL:
        tool, payload = item.content["tool_name"], item.content["payload"]
        named = {"id": ids[item.node.id], "name": tool}
        return {"type": "tool_use", **named, "input": payload, **rest}
    if item.direction == RESULT:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids[item.node.id]}
        content = _result(item)
        if content is not None:
            result["content"] = content
        if item.content.get("status") == "error":
            result["is_error"] = True
        return {**result, **rest}
    # Reasoning is taken back only with the signature it came with.
    if item.content["content_type"] == "reasoning" and "signature" in rest:
        return {"type": "thinking", "thinking": text_of(item.content), **rest}
    return _part(item)
