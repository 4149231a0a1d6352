"""The pipeline from an event stream and a policy to the four stages and their hashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from indexer.compiler.collapse import collapse
from indexer.compiler.events import Node, read_events
from indexer.compiler.policy import HeaderPolicy, Policy, parse_policy
from indexer.compiler.preview import preview
from indexer.compiler.selection import Selection, select
from indexer.compiler.stages import (
    SCHEMA_VERSION,
    DroppedRef,
    FrozenStage,
    HeaderStage,
    Json,
    Message,
    NodeRef,
    Preview,
    RawStage,
    SpecStage,
    SummaryRef,
    freeze,
)
from indexer.core.canonical import content_hash

SUMMARY_KIND: Final = "prompt_summary"


@dataclass(frozen=True, slots=True)
class CompiledStages:
    """The four stages of one compilation."""

    raw: RawStage
    spec: SpecStage
    header: HeaderStage
    frozen: FrozenStage

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the canonical JSON of RAW, SPEC and HEADER."""
        return _hashes(self.raw.to_json(), self.spec.to_json(), self.header.to_json())

    def to_json(self) -> Json:
        """The compiler's output, keys in order at every level."""
        raw, spec, header = self.raw.to_json(), self.spec.to_json(), self.header.to_json()
        return {
            "hashes": _hashes(raw, spec, header),
            "schema_version": SCHEMA_VERSION,
            "stages": {
                "FROZEN": self.frozen.to_json(),
                "HEADER": header,
                "RAW": raw,
                "SPEC": spec,
            },
        }


def _hashes(raw: Json, spec: Json, header: Json) -> dict[str, str]:
    return {"z1": content_hash(raw), "z2": content_hash(spec), "z3": content_hash(header)}


def compile_stages(
    events: Sequence[object], policy: Mapping[str, object] | Policy | None = None
) -> CompiledStages:
    """Compile a stream of {kind, turn, payload}; equal inputs give equal bytes."""
    rules = parse_policy(policy)
    nodes = read_events(events)
    selection = select(nodes, rules.selection)
    spec = _spec(nodes, selection, rules)
    header = _header(nodes, selection, spec, rules)
    return CompiledStages(
        raw=_raw(nodes),
        spec=spec,
        header=header,
        frozen=freeze(header, keep_previews=rules.header.freeze_previews),
    )


def _raw(nodes: Sequence[Node]) -> RawStage:
    counts = Counter(node.kind for node in nodes)
    summaries = [node for node in nodes if node.kind == SUMMARY_KIND]
    latest = max(summaries, key=lambda node: node.age_key, default=None)
    return RawStage(
        event_count=len(nodes),
        node_count=len(nodes),
        turn_count=len({node.turn for node in nodes}),
        kind_counts={kind: counts[kind] for kind in sorted(counts)},
        node_hash=content_hash([[node.id, node.digest] for node in nodes]),
        prompt_summary=None if latest is None else SummaryRef(latest.id, latest.digest),
    )


def _spec(nodes: Sequence[Node], selection: Selection, rules: Policy) -> SpecStage:
    result = collapse("SPEC", selection.nodes, rules.collapse, selection.pinned_ids)
    reasons = {**selection.reasons, **dict.fromkeys(result.dropped_ids, "target")}
    return SpecStage(
        # Only what decides the selection is echoed, so that other settings leave z2 alone.
        config={**rules.selection.to_json(), "target": rules.collapse.target},
        nodes=tuple(
            NodeRef(
                id=node.id,
                digest=node.digest,
                kind=node.kind,
                turn=node.turn,
                payload_sha256=node.payload_sha256,
                payload_shape=node.payload_shape,
                pinned=node.id in selection.pinned_ids,
            )
            for node in result.kept
        ),
        dropped=tuple(
            DroppedRef(node.id, reasons[node.id]) for node in nodes if node.id in reasons
        ),
        collapsed_ids=result.collapsed_ids,
    )


def _header(
    nodes: Sequence[Node], selection: Selection, spec: SpecStage, rules: Policy
) -> HeaderStage:
    result = collapse("HEADER", selection.nodes, rules.collapse, selection.pinned_ids)
    kept_ids = {node.id for node in result.kept}
    collapsed_ids = set(result.collapsed_ids)
    return HeaderStage(
        mode=rules.header.mode,
        selection_sha256=spec.selection_sha256,
        messages=tuple(
            _message(node, rules.header, collapsed=node.id in collapsed_ids) for node in result.kept
        ),
        dropped_ids=tuple(node.id for node in nodes if node.id not in kept_ids),
        collapsed_ids=result.collapsed_ids,
    )


def _message(node: Node, policy: HeaderPolicy, *, collapsed: bool) -> Message:
    shown = None
    if policy.mode == "sanitized_preview" and not collapsed:
        shown = Preview(*preview(node.payload, policy.preview_chars))
    return Message(
        id=node.id,
        kind=node.kind,
        turn=node.turn,
        role=node.role,
        payload_sha256=node.payload_sha256,
        payload_bytes=node.payload_bytes,
        text_chars=node.text_chars,
        tool_calls=node.tool_calls,
        collapsed=collapsed,
        preview=shown,
    )
