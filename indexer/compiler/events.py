"""Reading an event stream into nodes, which know their payload's hash, size and shape."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from indexer.compiler.preview import escape_controls, texts_of
from indexer.core.canonical import NotCanonicalError, canonical_json, content_hash
from indexer.errors import UsageError

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})

MAX_KIND_CHARS: Final = 128
MAX_ID_CHARS: Final = 256
MAX_TURN: Final = 2**53 - 1

VOLATILE: Final = frozenset({"seq", "timestamp", "timestamp_ms"})
"""Fields of a payload, at any depth, that tell when and not what: no hash depends on them."""
_VOLATILE_BYTES: Final = tuple(sorted(f'"{name}"'.encode() for name in VOLATILE))

# The only field names a shape repeats: any other name may be somebody's data.
SHAPE_FIELDS: Final = frozenset(
    {
        *("content", "error", "id", "kind", "name", "parts", "result", "role", "status", "text"),
        *("arguments", "input", "output", "tool_call_id", "tool_calls", "type"),
    }
)
_TOOL_PARTS: Final = frozenset({"tool_use", "tool_call", "function_call"})
_FIRST_WORD: Final = re.compile(r"[a-z]+")


class EventError(UsageError):
    """An event of the stream cannot be compiled; the message says which one and why."""

    code = "event"


@dataclass(frozen=True, slots=True)
class Node:
    """One event with everything the stages say about it; the payload stays in here.

    A pinned node is never left out nor collapsed. Nodes of one pair, a call and its result,
    stay together or go together.
    """

    id: str
    ordinal: int
    kind: str
    turn: int
    role: str | None
    digest: str
    payload: object = field(repr=False)
    payload_sha256: str
    payload_bytes: int
    payload_shape: Mapping[str, object]
    text_chars: int
    chars: int
    """What it counts for in a character budget: its text, or its JSON where it has none."""
    tool_calls: int
    pinned: bool = False
    pair: str | None = None

    @property
    def age_key(self) -> tuple[int, int, str, str]:
        """Sorts nodes from oldest to newest without asking a clock."""
        return (self.turn, self.ordinal, self.digest, self.id)


def read_events(events: Sequence[object], *, with_times: bool = False) -> tuple[Node, ...]:
    """The nodes of a stream in append order; anything that cannot be hashed is refused.

    `with_times` keeps the volatile fields of payloads, as the first version of the stages did.
    """
    if not isinstance(events, (list, tuple)):
        raise EventError("an event stream must be a list of {kind, turn, payload}")
    nodes: list[Node] = []
    places: dict[str, int] = {}
    for ordinal, event in enumerate(events):
        node = _read_event(ordinal, event, with_times)
        if node.id in places:
            raise EventError(
                f"event {ordinal}: the id {node.id!r} is already that of event {places[node.id]}",
                hint="Give every event its own id, or none at all.",
            )
        places[node.id] = ordinal
        nodes.append(node)
    return tuple(nodes)


def _read_event(ordinal: int, event: object, with_times: bool) -> Node:
    if not isinstance(event, Mapping):
        raise EventError(f"event {ordinal}: must be an object with kind, turn and payload")
    for key in ("kind", "turn", "payload"):
        if key not in event:
            raise EventError(f"event {ordinal}: {key!r} is missing")
    kind = _name(ordinal, "kind", event["kind"], MAX_KIND_CHARS)
    turn = event["turn"]
    if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn <= MAX_TURN:
        raise EventError(f"event {ordinal}: 'turn' must be a whole number, 0 or more")
    payload = event["payload"]
    try:
        body = canonical_json(payload)
        if not with_times and any(name in body for name in _VOLATILE_BYTES):
            payload = json.loads(body, object_pairs_hook=_lasting)
            body = canonical_json(payload)
    except NotCanonicalError as error:
        raise EventError(f"event {ordinal}: 'payload': {error.message}", hint=error.hint) from None
    except RecursionError:
        raise EventError(f"event {ordinal}: 'payload' is nested too deeply") from None
    pinned = event.get("pinned", False)
    if not isinstance(pinned, bool):
        raise EventError(f"event {ordinal}: 'pinned' must be true or false")
    pair = event.get("pair")
    payload_sha256 = hashlib.sha256(body).hexdigest()
    digest = content_hash({"kind": kind, "payload_sha256": payload_sha256, "turn": turn})
    given = event.get("id")
    texts = list(texts_of(payload))
    text_chars = sum(map(len, texts))
    return Node(
        id=(
            f"n{ordinal:06d}-{digest[:16]}"
            if given is None
            else _name(ordinal, "id", given, MAX_ID_CHARS)
        ),
        ordinal=ordinal,
        kind=kind,
        turn=turn,
        role=_role(kind, payload),
        digest=digest,
        payload=payload,
        payload_sha256=payload_sha256,
        payload_bytes=len(body),
        payload_shape=payload_shape(payload),
        text_chars=text_chars,
        chars=text_chars if texts else len(body.decode()),
        tool_calls=_tool_calls(kind, payload),
        pinned=pinned,
        pair=None if pair is None else _name(ordinal, "pair", pair, MAX_ID_CHARS),
    )


def _lasting(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {key: value for key, value in pairs if key not in VOLATILE}


def _name(ordinal: int, key: str, value: object, limit: int) -> str:
    """Kinds and ids appear in every stage, so they must be short and harmless to print."""
    if not isinstance(value, str) or not value:
        raise EventError(f"event {ordinal}: {key!r} must be text and not empty")
    if len(value) > limit:
        raise EventError(f"event {ordinal}: {key!r} is longer than {limit} characters")
    if escape_controls(value) != value:
        raise EventError(f"event {ordinal}: {key!r} holds control characters or lone surrogates")
    return value


def _role(kind: str, payload: object) -> str | None:
    """Who speaks: the first word of the kind (`user`, `assistant_message`), else the payload."""
    word = _FIRST_WORD.match(kind.lower())
    if word and word[0] in ROLES:
        return word[0]
    role = payload.get("role") if isinstance(payload, Mapping) else None
    return role if isinstance(role, str) and role in ROLES else None


def payload_shape(payload: object) -> dict[str, object]:
    """The type and size of a payload, and of the fields whose names are common knowledge."""
    kind = _json_type(payload)
    if isinstance(payload, Mapping):
        known = {key: _json_type(payload[key]) for key in sorted(SHAPE_FIELDS & payload.keys())}
        return {
            "fields": known,
            "other_fields": len(payload) - len(known),
            "size": len(payload),
            "type": kind,
        }
    if isinstance(payload, (str, list, tuple)):
        return {"size": len(payload), "type": kind}
    return {"type": kind}


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def _tool_calls(kind: str, payload: object) -> int:
    """How many calls a message makes, in whichever of the usual ways it writes them."""
    if isinstance(payload, Mapping):
        calls = payload.get("tool_calls")
        if isinstance(calls, (list, tuple)):
            return len(calls)
        content = payload.get("content")
        if isinstance(content, (list, tuple)):
            types = [part.get("type") for part in content if isinstance(part, Mapping)]
            named = sum(isinstance(name, str) and name in _TOOL_PARTS for name in types)
            if named:
                return named
    return int(kind in _TOOL_PARTS)
