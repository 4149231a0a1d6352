"""One node of the context tree: its headers, its place among siblings and its content hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from indexer.core.canonical import canonical_json
from indexer.core.clock import iso_utc
from indexer.core.hashing import prefixed
from indexer.errors import UsageError

ROOT: Final = "^root"
SYS: Final = "^sys"
SEQ: Final = "^seq"
AH: Final = "^ah"
REGIONS: Final = (SYS, SEQ, AH)
TURN: Final = "mt"
CORE: Final = "mc"
BLOCK: Final = "cb"
EDIT_TYPE: Final = "cb:edit"
REFERENCES: Final = "cb:references"
# The order in which `fields` of a diff and headers of a document are listed.
HEADERS: Final = (
    "id",
    "nodeType",
    "offset",
    "ttl",
    "priority",
    "cycle",
    "created_at_ns",
    "created_at_iso",
    "creation_index",
)
OPTIONAL: Final = ("role", "kind", "content_hash", "removable", "provenance")
RESERVED: Final = frozenset((*HEADERS, *OPTIONAL, "content", "children", REFERENCES))
NO_CONTENT_SHA256: Final = hashlib.sha256(b"").hexdigest()
_NODE_TYPE: Final = re.compile(r"(mt|mc|cb)|[A-Za-z][A-Za-z0-9_-]*:[A-Za-z0-9_:-]+")
_ATTRIBUTE: Final = re.compile(r"(data_|content_)[A-Za-z0-9_:-]+|[A-Za-z][A-Za-z0-9_-]*:[\w:-]+")

SortKey: TypeAlias = tuple[int, int, int, str]


class HeaderError(UsageError):
    """A node's header is missing or has a value it cannot have."""

    code = "E_HEADER_INVALID"


class AttributeNameError(UsageError):
    """A custom attribute is not namespaced, or takes a reserved name."""

    code = "E_ATTRIBUTE_INVALID"


@dataclass(frozen=True, slots=True)
class Node:
    """A node's headers and content; where it hangs and when is the history's business."""

    id: str
    node_type: str
    offset: int = 0
    ttl: int | None = None
    priority: int = 0
    cycle: int = 0
    created_at_ns: int = 0
    created_at_iso: str = ""
    creation_index: int = 0
    role: str | None = None
    kind: str | None = None
    content: Any = None
    content_hash: str | None = None
    removable: bool = False
    provenance: str | None = None
    references: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> str:
        """The canonical type this node counts as."""
        return canonical_type(self.node_type)

    @property
    def sort_key(self) -> SortKey:
        """Canonical sibling order: offset, creation time, creation index, id."""
        return (self.offset, self.created_at_ns, self.creation_index, self.id)

    @property
    def expires(self) -> int | None:
        """The cycle whose commit removes this node, if any does."""
        return None if self.ttl is None else self.cycle + self.ttl

    def headers(self) -> dict[str, Any]:
        """Every field a document carries, children and content aside."""
        fields: dict[str, Any] = {
            "id": self.id,
            "nodeType": self.node_type,
            "offset": self.offset,
            "ttl": self.ttl,
            "priority": self.priority,
            "cycle": self.cycle,
            "created_at_ns": self.created_at_ns,
            "created_at_iso": self.created_at_iso,
            "creation_index": self.creation_index,
        }
        for name in OPTIONAL:
            value = getattr(self, name)
            if value is not None and value is not False:
                fields[name] = value
        if self.references:
            fields[REFERENCES] = list(self.references)
        fields.update(sorted(self.attributes.items()))
        return fields

    def document(self) -> dict[str, Any]:
        """Headers and content, as they are written out."""
        fields = self.headers()
        if self.content is not None:
            fields["content"] = self.content
        return fields

    def with_content(self, content: Any) -> Node:
        """The same node holding this content, hash included."""
        filled = replace(self, content=content)
        return replace(filled, content_hash=node_content_hash(filled.document()))


def canonical_type(node_type: str) -> str:
    """The canonical type of a node type: namespaced ones by prefix, unknown ones as blocks."""
    if node_type.startswith("^"):
        return node_type
    head = node_type.partition(":")[0]
    return head if head in (TURN, CORE, BLOCK) else BLOCK


def node_content_hash(node: Mapping[str, Any]) -> str:
    """PACT's content hash of a node given as a mapping; of nothing where it is no JSON."""
    hashed: dict[str, Any] = {
        "content": node.get("content", ""),
        "kind": node.get("kind", ""),
        "role": node.get("role", ""),
    }
    for key, value in node.items():
        if key.startswith(("content_", "data_")) and key != "content_hash":
            hashed[key] = value
    try:
        text = json.dumps(
            hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
    except (TypeError, ValueError, RecursionError):
        return NO_CONTENT_SHA256
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def own_id(session: str, cycle: int, creation_index: int, content_hash: str) -> str:
    """The id a session gives a node whose author named none."""
    fields = (session.encode(), str(cycle).encode(), str(creation_index).encode())
    body = b"".join(prefixed(part) for part in (b"session-node", *fields, content_hash.encode()))
    return hashlib.sha256(body).hexdigest()


def place_id(place: str) -> str:
    """The id of an imported node that has none: made from where it stands."""
    return hashlib.sha256(prefixed(b"session-place") + prefixed(place.encode())).hexdigest()


def whole(name: str, value: object, *, least: int | None = None) -> int:
    """An integer header, refused when it is none or too small."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise HeaderError(f"{name} must be a whole number, not {value!r}")
    if least is not None and value < least:
        raise HeaderError(f"{name} must be at least {least}, not {value}")
    if abs(value) >= 1 << 63:
        raise HeaderError(f"{name} does not fit 64 bits: {value}")
    return value


def text(name: str, value: object) -> str:
    """A text header, refused when it is empty or not encodable."""
    if not isinstance(value, str) or not value:
        raise HeaderError(f"{name} must be a non-empty string, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise HeaderError(f"{name} holds a lone surrogate: {value!r}") from None
    return value


def check_headers(node: Node) -> None:
    """Refuse a node whose headers are not of the types they must be."""
    for name in ("offset", "priority"):
        whole(name, getattr(node, name))
    for name in ("cycle", "created_at_ns", "creation_index"):
        whole(name, getattr(node, name), least=0)
    if node.ttl is not None:
        whole("ttl", node.ttl, least=0)
    for name in ("id", "node_type", "created_at_iso"):
        text(name, getattr(node, name))
    for name in ("role", "kind", "provenance"):
        if getattr(node, name) is not None:
            text(name, getattr(node, name))
    for target in node.references:
        text(REFERENCES, target)
    checked_attributes(node.attributes)


def iso_of(ns: int) -> str:
    """The ISO mirror of a creation time, exact to the microsecond below it."""
    try:
        return iso_utc(ns // 1000 * 1000)
    except (OverflowError, ValueError, OSError):
        raise HeaderError(f"created_at_ns is out of the range of dates: {ns}") from None


def checked_type(node_type: str) -> str:
    """A node type that may be created: canonical, or namespaced."""
    if not _NODE_TYPE.fullmatch(node_type):
        raise HeaderError(
            f"node type {node_type!r} is neither canonical nor namespaced",
            hint="use cb, or a namespaced type such as cb:summary",
        )
    return node_type


def checked_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A private copy of custom attributes, each namespaced and of a JSON value."""
    for key in attributes:
        if key in RESERVED or not _ATTRIBUTE.fullmatch(key):
            raise AttributeNameError(
                f"{key!r} cannot name a custom attribute",
                hint="use a data_ or content_ prefix, or a namespace such as cb:name",
            )
    copied: dict[str, Any] = json.loads(canonical_json(dict(attributes)))
    return copied
