"""What a commit can hold: seven content types, checked, and how each one reads as a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from indexer.core.canonical import canonical_json
from indexer.errors import UsageError

PINNED: Final = "pinned"
NORMAL: Final = "normal"
SKIP: Final = "skip"
PRIORITIES: Final = (PINNED, NORMAL, SKIP)
ROLES: Final = ("user", "assistant", "tool", "system", "other")
CALL, RESULT = DIRECTIONS = ("call", "result")
STATUSES: Final = ("success", "error")
TOOL_IO: Final = "tool_io"
CALL_ID: Final = "chat:call_id"
"""The attribute of a block by which a call and its result know each other."""


class ContentError(UsageError):
    """A payload is no valid content of its type."""

    code = "E_CONTENT_INVALID"


@dataclass(frozen=True, slots=True)
class ContentType:
    """The fields a type has, and how it reads when nobody says otherwise."""

    required: Mapping[str, Callable[[Any], bool]]
    optional: Mapping[str, Callable[[Any], bool]]
    role: str
    kind: str = "text"
    priority: str = NORMAL
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What an option that is not given counts as, where that is not null."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in values


CONTENT_TYPES: Final[Mapping[str, ContentType]] = {
    "instruction": ContentType({"text": _is_text}, {}, "system", priority=PINNED),
    "dialogue": ContentType(
        {"role": _one_of(*ROLES), "text": _is_text}, {"name": _is_text}, "user"
    ),
    TOOL_IO: ContentType(
        {"tool_name": _is_text, "direction": _one_of(*DIRECTIONS), "payload": _is_object},
        {"status": _one_of(*STATUSES)},
        "tool",
    ),
    "reasoning": ContentType({"text": _is_text}, {}, "assistant", kind="reasoning"),
    "artifact": ContentType(
        {"artifact_type": _is_text, "content": _is_text},
        {"language": _is_text},
        "assistant",
        kind="artifact",
    ),
    "output": ContentType(
        {"text": _is_text},
        {"format": _one_of("text", "markdown", "json")},
        "assistant",
        defaults={"format": "text"},
    ),
    "freeform": ContentType({"payload": _is_object}, {}, "assistant", kind="freeform"),
}


def checked_content(content: Mapping[str, Any], version: int = 2) -> dict[str, Any]:
    """A private copy of a payload with every option, or an error that names the flaw.

    Options that are not given are null, and hashed as such; sessions of version 1 leave them out.
    """
    name = content.get("content_type")
    spec = CONTENT_TYPES.get(name) if isinstance(name, str) else None
    if spec is None:
        known = ", ".join(CONTENT_TYPES)
        raise ContentError(f"unknown content type {name!r}", hint=f"use one of: {known}")
    kept = {
        key: value
        for key, value in content.items()
        if value is not None or key not in spec.optional
    }
    for key, accepts in spec.required.items():
        if key not in kept:
            raise ContentError(f"{name} content needs {key!r}")
        if not accepts(kept[key]):
            raise ContentError(f"{name} content cannot have {key} = {kept[key]!r}")
    for key in kept:
        if key == "content_type" or key in spec.required:
            continue
        if key not in spec.optional:
            raise ContentError(f"{name} content has no field {key!r}")
        if not spec.optional[key](kept[key]):
            raise ContentError(f"{name} content cannot have {key} = {kept[key]!r}")
    if version > 1:
        kept = {**dict.fromkeys(spec.optional), **spec.defaults, **kept}
    copied: dict[str, Any] = json.loads(canonical_json(kept))
    return copied


def make_content(
    content_type: str,
    *,
    text: str | None = None,
    payload: Mapping[str, Any] | None = None,
    role: str | None = None,
    name: str | None = None,
    direction: str | None = None,
    status: str | None = None,
) -> dict[str, Any]:
    """Content of a type from what a command line offers: a text or an object, a role, a name.

    A tool's content also has a direction, which its role tells where nothing else does.
    """
    if (text is None) == (payload is None):
        raise ContentError("content needs either a text or a payload, and not both")
    builder = _BUILDERS.get(content_type, _plain)
    fields = builder(text, payload, role, name)
    told = {"direction": direction, "status": status}
    given = {key: value for key, value in told.items() if value is not None}
    if given and content_type != TOOL_IO:
        raise ContentError(f"{content_type} content has no field {next(iter(given))!r}")
    return checked_content({"content_type": content_type, **fields, **given}, version=1)


def _plain(
    text: str | None, payload: Mapping[str, Any] | None, role: str | None, name: str | None
) -> dict[str, Any]:
    return {"text": text} if payload is None else dict(payload)


def _dialogue(
    text: str | None, payload: Mapping[str, Any] | None, role: str | None, name: str | None
) -> dict[str, Any]:
    fields = _plain(text, payload, role, name)
    fields["role"] = role or fields.get("role", "user")
    if name is not None:
        fields["name"] = name
    return fields


def _tool_io(
    text: str | None, payload: Mapping[str, Any] | None, role: str | None, name: str | None
) -> dict[str, Any]:
    if payload is not None and {"tool_name", "direction", "payload"} <= payload.keys():
        return dict(payload)
    direction = "call" if role == "assistant" else "result"
    body = {"text": text} if payload is None else dict(payload)
    return {"tool_name": name or "tool", "direction": direction, "payload": body}


def _artifact(
    text: str | None, payload: Mapping[str, Any] | None, role: str | None, name: str | None
) -> dict[str, Any]:
    if payload is not None:
        return dict(payload)
    return {"artifact_type": name or "text", "content": text}


def _freeform(
    text: str | None, payload: Mapping[str, Any] | None, role: str | None, name: str | None
) -> dict[str, Any]:
    return {"payload": {"text": text} if payload is None else dict(payload)}


_Builder = Callable[[str | None, Mapping[str, Any] | None, str | None, str | None], dict[str, Any]]
_BUILDERS: Final[Mapping[str, _Builder]] = {
    "dialogue": _dialogue,
    TOOL_IO: _tool_io,
    "artifact": _artifact,
    "freeform": _freeform,
}


def text_of(content: Mapping[str, Any]) -> str:
    """The text of a content: what is counted, shown and sent."""
    if isinstance(content.get("text"), str):
        return str(content["text"])
    if isinstance(content.get("content"), str):
        return str(content["content"])
    if "payload" in content:
        return json.dumps(content["payload"], sort_keys=True)
    return ""


def shown_of(content: Mapping[str, Any], attributes: Mapping[str, Any], version: int) -> Any:
    """What the tree holds of a content: its text, or of a tool's call or result all of it."""
    if version < 2 or content["content_type"] != TOOL_IO:
        return text_of(content)
    return {
        "tool_name": content["tool_name"],
        "direction": content["direction"],
        "call_id": attributes.get(CALL_ID),
        "status": content.get("status"),
        "payload": content["payload"],
    }


def role_of(content: Mapping[str, Any], overrides: Mapping[str, str] | None = None) -> str:
    """The message role of a content: override, its own, its type's, then assistant."""
    name = content.get("content_type", "")
    if overrides is not None and name in overrides:
        return overrides[name]
    if name == "dialogue":
        return str(content.get("role", "user"))
    spec = CONTENT_TYPES.get(name)
    return spec.role if spec is not None else "assistant"


def kind_of(content: Mapping[str, Any]) -> str:
    """The modality a content has in the tree."""
    if content["content_type"] == TOOL_IO:
        return str(content["direction"])
    return CONTENT_TYPES[content["content_type"]].kind


_TOOL_FIELDS: Final = frozenset({"tool_name", "direction", "payload"})


def content_of_block(role: str, kind: str | None, content: Any) -> dict[str, Any]:
    """The content that a block from elsewhere counts as in the log."""
    if kind in DIRECTIONS and isinstance(content, dict) and content.keys() >= _TOOL_FIELDS:
        fields = {key: content[key] for key in sorted(_TOOL_FIELDS | {"status"}) if key in content}
        return {"content_type": TOOL_IO, **fields}
    if not isinstance(content, str):
        return {"content_type": "freeform", "payload": {"content": content}}
    if kind == "reasoning":
        return {"content_type": "reasoning", "text": content}
    if role == "system":
        return {"content_type": "instruction", "text": content}
    known = role if role in ROLES else "other"
    return {"content_type": "dialogue", "role": known, "text": content}
