"""The provider thread: blocks of a snapshot in reading order, as bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from indexer.sessions.content import ContentError
from indexer.sessions.view import View, blocks


def provider_thread(view: View) -> list[dict[str, Any]]:
    """The blocks a provider is sent, each with id, role, kind and content."""
    return [
        {
            "id": node.id,
            "role": role,
            "kind": node.kind if node.kind is not None else "text",
            "content": node.content,
        }
        for node, role in blocks(view)
    ]


def thread_bytes(view: View) -> bytes:
    """The thread as a compact JSON array in UTF-8; equal snapshots give equal bytes."""
    return thread_text(provider_thread(view)).encode()


def thread_text(thread: Sequence[dict[str, Any]]) -> str:
    """A thread as a compact JSON array; refuses text that UTF-8 cannot hold."""
    written = ",".join(map(_message, thread))
    try:
        written.encode()
    except UnicodeEncodeError:
        raise ContentError("a block holds a lone surrogate and cannot be sent") from None
    return f"[{written}]"


def _message(message: dict[str, Any]) -> str:
    """One message with its keys in the fixed order; keys inside a content are sorted."""
    fields = (f"{_json(key)}:{_json(value)}" for key, value in message.items())
    return "{" + ",".join(fields) + "}"


def _json(value: Any) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
    )
