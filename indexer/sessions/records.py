"""The two kinds of record a session's log is made of, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from indexer.errors import CorruptError
from indexer.sessions.node import REFERENCES, RESERVED, Node

APPEND: Final = "append"
EDIT: Final = "edit"


class LogCorruptError(CorruptError):
    """A record contradicts itself or the records before it."""

    code = "E_LOG_CORRUPT"

    def __init__(self, seq: object, message: str) -> None:
        super().__init__(f"record {seq}: {message}", hint="import the log from an intact export")
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Placed:
    """A node together with the parent it hangs under."""

    parent: str
    node: Node

    def to_json(self) -> dict[str, Any]:
        """The placement without content, which the log keeps by hash."""
        headers = self.node.headers()
        headers.pop("content_hash", None)
        return {"parent": self.parent, "node": headers}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placed:
        """The placement written by `to_json`."""
        return cls(data["parent"], node_from_headers(data["node"]))


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A content commit: one link of the hash chain, and the nodes it puts into the tree."""

    seq: int
    at_ns: int
    commit_hash: str
    parent_hash: str | None
    content_hash: str
    content_type: str
    operation: str
    timestamp_iso: str
    node_id: str
    token_count: int
    reply_to: str | None = None
    message: str | None = None
    metadata: Mapping[str, Any] | None = None
    # None where an earlier record of the log already holds the same content.
    content: Mapping[str, Any] | None = None
    # A core made for this block, if any, then the block; empty where the block is there already:
    # one that was imported, or one that gets another content in its place.
    placed: tuple[Placed, ...] = ()
    author: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value; what is not set is left out."""
        data: dict[str, Any] = {"kind": "commit"}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is not None or spec.name == "parent_hash":
                data[spec.name] = value
        data["placed"] = [placed.to_json() for placed in self.placed]
        return data


@dataclass(frozen=True, slots=True)
class OpRecord:
    """A tree operation, outside the hash chain."""

    seq: int
    at_ns: int
    op: str
    data: Mapping[str, Any]
    author: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value."""
        head = {"kind": "op", "seq": self.seq, "at_ns": self.at_ns, "op": self.op}
        return {**head, **self.data, **({} if self.author is None else {"author": self.author})}


Record: TypeAlias = CommitRecord | OpRecord
_OF_EVERY_OP: Final = frozenset(("kind", "seq", "at_ns", "op", "author"))


def record_from_json(data: Mapping[str, Any]) -> Record:
    """A record read back from its JSON value."""
    seq = data.get("seq")
    try:
        if data["kind"] == "op":
            body = {k: v for k, v in data.items() if k not in _OF_EVERY_OP}
            return OpRecord(data["seq"], data["at_ns"], data["op"], body, data.get("author"))
        if data["kind"] != "commit":
            raise LogCorruptError(seq, f"unknown kind {data['kind']!r}")
        body = {k: v for k, v in data.items() if k not in ("kind", "placed")}
        placed = tuple(Placed.from_json(item) for item in data["placed"])
        return CommitRecord(**body, placed=placed)
    except (KeyError, TypeError, AttributeError) as error:
        raise LogCorruptError(seq, f"not a record: {error!r}") from None


def node_from_headers(data: Mapping[str, Any]) -> Node:
    """A node from its complete headers, as this package wrote them."""
    return Node(
        id=data["id"],
        node_type=data["nodeType"],
        offset=data["offset"],
        ttl=data["ttl"],
        priority=data["priority"],
        cycle=data["cycle"],
        created_at_ns=data["created_at_ns"],
        created_at_iso=data["created_at_iso"],
        creation_index=data["creation_index"],
        role=data.get("role"),
        kind=data.get("kind"),
        content=data.get("content"),
        content_hash=data.get("content_hash"),
        removable=data.get("removable", False),
        provenance=data.get("provenance"),
        references=tuple(data.get(REFERENCES, ())),
        attributes={k: v for k, v in data.items() if k not in RESERVED},
    )
