"""One immutable type per stage, and the JSON each of them is hashed and shown as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from indexer.compiler.policy import HeaderMode
from indexer.core.canonical import content_hash

SCHEMA_VERSION: Final = "2"
"""The version of the stages that are made now."""

WITH_TIMES: Final = "1"
"""The version whose hashes covered `seq` and `timestamp`; older manifests are checked by it."""

VERSIONS: Final = (WITH_TIMES, SCHEMA_VERSION)

Json = dict[str, object]


def sorted_keys(value: Json) -> Json:
    """The same object with its keys in order at every level."""
    return cast(Json, _sorted(value))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class SummaryRef:
    """Where a stream keeps its prompt summary; the text stays there."""

    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class RawStage:
    """An inventory: how much of what there is, nothing selected, nothing shown."""

    event_count: int
    node_count: int
    turn_count: int
    kind_counts: Mapping[str, int]
    node_hash: str
    prompt_summary: SummaryRef | None
    version: str = SCHEMA_VERSION

    def to_json(self) -> Json:
        """The stage as it is hashed and shown."""
        data: Json = {
            "event_count": self.event_count,
            "kind_counts": self.kind_counts,
            "node_count": self.node_count,
            "node_hash": self.node_hash,
            "schema_version": self.version,
            "turn_count": self.turn_count,
        }
        if self.prompt_summary is not None:
            summary = self.prompt_summary
            data["prompt_summary"] = {"digest": summary.digest, "id": summary.id}
        return sorted_keys(data)


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A selected node without its payload."""

    id: str
    digest: str
    kind: str
    turn: int
    payload_sha256: str
    payload_shape: Mapping[str, object]
    pinned: bool


@dataclass(frozen=True, slots=True)
class DroppedRef:
    """A node that was left out, and the limit that left it out."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SpecStage:
    """The selection: which nodes, under which settings, and why not the others."""

    config: Mapping[str, object]
    nodes: tuple[NodeRef, ...]
    dropped: tuple[DroppedRef, ...]
    version: str = SCHEMA_VERSION

    @property
    def selected_ids(self) -> tuple[str, ...]:
        """The ids of the selected nodes in append order."""
        return tuple(node.id for node in self.nodes)

    @property
    def selection_sha256(self) -> str:
        """What ties a header to this selection: settings, ids and digests."""
        return content_hash(
            {
                "config": self.config,
                "digests": [node.digest for node in self.nodes],
                "dropped_count": len(self.dropped),
                "schema_version": self.version,
                "selected_ids": self.selected_ids,
            }
        )

    def to_json(self) -> Json:
        """The stage as it is hashed and shown."""
        return sorted_keys(
            {
                # Nothing is collapsed before HEADER; the key is part of what is hashed.
                "collapsed_ids": [],
                "config": self.config,
                "dropped": [{"id": node.id, "reason": node.reason} for node in self.dropped],
                "dropped_ids": [node.id for node in self.dropped],
                "nodes": [
                    {
                        "digest": node.digest,
                        "id": node.id,
                        "kind": node.kind,
                        "payload_sha256": node.payload_sha256,
                        "payload_shape": node.payload_shape,
                        "pinned": node.pinned,
                        "turn": node.turn,
                    }
                    for node in self.nodes
                ],
                "schema_version": self.version,
                "selected_ids": self.selected_ids,
                "selection_sha256": self.selection_sha256,
            }
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """A redacted beginning of a payload."""

    text: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A node as the prompt would hold it; a collapsed one is a bare reference."""

    id: str
    kind: str
    turn: int
    role: str | None
    payload_sha256: str
    payload_bytes: int
    text_chars: int
    tool_calls: int
    collapsed: bool
    preview: Preview | None
    summary_sha256: str | None = None
    """The hash of the text that stands for a collapsed node, None for a bare reference."""

    def to_json(self) -> Json:
        """The message as it is hashed and shown."""
        data: Json = {
            "collapsed": self.collapsed,
            "id": self.id,
            "kind": self.kind,
            "payload_sha256": self.payload_sha256,
            "turn": self.turn,
        }
        if not self.collapsed:
            data["payload_bytes"] = self.payload_bytes
            data["role"] = self.role
            data["text_chars"] = self.text_chars
            data["tool_calls"] = self.tool_calls
        if self.summary_sha256 is not None:
            data["summary_sha256"] = self.summary_sha256
        if self.preview is not None:
            data["preview"] = self.preview.text
            data["preview_truncated"] = self.preview.truncated
        return data


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages of a selection."""

    mode: HeaderMode
    selection_sha256: str
    messages: tuple[Message, ...]
    dropped_ids: tuple[str, ...]
    collapsed_ids: tuple[str, ...]
    version: str = SCHEMA_VERSION

    def to_json(self) -> Json:
        """The stage as it is hashed and shown."""
        return sorted_keys(
            {
                "collapsed_ids": self.collapsed_ids,
                "dropped_ids": self.dropped_ids,
                "messages": [message.to_json() for message in self.messages],
                "mode": self.mode,
                "schema_version": self.version,
                "selection_sha256": self.selection_sha256,
            }
        )


class HeaderStage(_Messages):
    """The messages of a selection: hashes and sizes, with previews where asked for."""

    __slots__ = ()


class FrozenStage(_Messages):
    """What was used, for replay and comparison: the header without its previews."""

    __slots__ = ()


def freeze(header: HeaderStage, *, keep_previews: bool) -> FrozenStage:
    """The frozen form of a header, the same whether or not somebody looked at previews."""
    messages = header.messages
    if not keep_previews:
        messages = tuple(replace(message, preview=None) for message in messages)
    return FrozenStage(
        mode=header.mode if keep_previews else "hash_only",
        selection_sha256=header.selection_sha256,
        messages=messages,
        dropped_ids=header.dropped_ids,
        collapsed_ids=header.collapsed_ids,
        version=header.version,
    )
