"""The pipeline from an event stream and a policy to the four stages and their hashes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from indexer.compiler.collapse import ids_to_collapse, within_target
from indexer.compiler.events import Node, read_events
from indexer.compiler.plugins import Plugins, check_offered, summarized_by
from indexer.compiler.policy import SUMMARIES, HeaderPolicy, Policy, parse_policy
from indexer.compiler.preview import preview, texts_of
from indexer.compiler.selection import Selection, select
from indexer.compiler.stages import (
    SCHEMA_VERSION,
    WITH_TIMES,
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
SUMMARY_CHARS: Final = 120
"""Characters of a first line that stands for a collapsed message."""
REFERENCE, FIRST_LINE = SUMMARIES
_SINCE_2: Final = frozenset({"max_chars", "pin_first_system"})
"""Settings that the first version of SPEC did not have."""


@dataclass(frozen=True, slots=True)
class CompiledStages:
    """The four stages of one compilation."""

    raw: RawStage
    spec: SpecStage
    header: HeaderStage
    frozen: FrozenStage
    node_ids: tuple[str, ...] = ()
    """The ids of all nodes in append order."""
    summaries: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What stands for each collapsed node, by id; no part of any stage."""

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the canonical JSON of RAW, SPEC and HEADER."""
        return _hashes(self.raw.to_json(), self.spec.to_json(), self.header.to_json())

    def to_json(self) -> Json:
        """The compiler's output, keys in order at every level."""
        raw, spec, header = self.raw.to_json(), self.spec.to_json(), self.header.to_json()
        return {
            "hashes": _hashes(raw, spec, header),
            "schema_version": self.raw.version,
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
    events: Sequence[object],
    policy: Mapping[str, object] | Policy | None = None,
    *,
    plugins: Plugins | None = None,
    version: str = SCHEMA_VERSION,
) -> CompiledStages:
    """Compile a stream of {kind, turn, payload}; equal inputs give equal bytes.

    An event may also have an `id`, `pinned` and `pair`. Custom modes and summaries run only where
    they are handed in. An older version is for checking what was recorded under it.
    """
    rules, offered = parse_policy(policy), plugins or Plugins()
    check_offered(offered, rules)
    nodes = read_events(events, with_times=version == WITH_TIMES)
    selection = select(nodes, rules.selection)
    kept = within_target(selection, rules.collapse)
    spec = _spec(nodes, kept, selection, rules, version)
    header, summaries = _header(nodes, kept, selection, spec, rules, offered)
    return CompiledStages(
        raw=_raw(nodes, version),
        spec=spec,
        header=header,
        frozen=freeze(header, keep_previews=rules.header.freeze_previews),
        node_ids=tuple(node.id for node in nodes),
        summaries=summaries,
    )


def _raw(nodes: Sequence[Node], version: str) -> RawStage:
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
        version=version,
    )


def _spec(
    nodes: Sequence[Node],
    kept: Sequence[Node],
    selection: Selection,
    rules: Policy,
    version: str,
) -> SpecStage:
    kept_ids = {node.id for node in kept}
    beyond = (node.id for node in selection.nodes if node.id not in kept_ids)
    reasons = {**selection.reasons, **dict.fromkeys(beyond, "target")}
    # Only what decides the selection is echoed, so that other settings leave z2 alone.
    config = {**rules.selection.to_json(), "target": rules.collapse.target}
    if version == WITH_TIMES:
        config = {key: value for key, value in config.items() if key not in _SINCE_2}
    return SpecStage(
        config=config,
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
            for node in kept
        ),
        dropped=tuple(
            DroppedRef(node.id, reasons[node.id]) for node in nodes if node.id in reasons
        ),
        version=version,
    )


def _header(
    nodes: Sequence[Node],
    kept: Sequence[Node],
    selection: Selection,
    spec: SpecStage,
    rules: Policy,
    plugins: Plugins,
) -> tuple[HeaderStage, dict[str, str]]:
    """HEADER, and the line that stands for each collapsed node, by id."""
    kept_ids = {node.id for node in kept}
    collapsed = ids_to_collapse(kept, rules.collapse, selection.held_ids, plugins)
    collapsed_ids = set(collapsed)
    summaries = {
        node.id: _summary(node, rules.collapse.summary, plugins)
        for node in kept
        if node.id in collapsed_ids
    }
    told = {} if rules.collapse.summary == REFERENCE else summaries
    header = HeaderStage(
        mode=rules.header.mode,
        selection_sha256=spec.selection_sha256,
        messages=tuple(
            _message(node, rules.header, node.id in collapsed_ids, told.get(node.id))
            for node in kept
        ),
        dropped_ids=tuple(node.id for node in nodes if node.id not in kept_ids),
        collapsed_ids=collapsed,
        version=spec.version,
    )
    return header, summaries


def _summary(node: Node, name: str, plugins: Plugins) -> str:
    """The line that stands for a collapsed node: what it was, and as much of it as asked for."""
    line = f"[collapsed {node.kind} {node.payload_sha256[:12]}]"
    if name == REFERENCE:
        return line
    if name == FIRST_LINE:
        text = next(iter("\n".join(texts_of(node.payload)).strip().splitlines()), "")
        return f"{line} {preview(text, SUMMARY_CHARS)[0]}".rstrip()
    return summarized_by(plugins, node, name)


def _message(node: Node, policy: HeaderPolicy, collapsed: bool, summary: str | None) -> Message:
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
        summary_sha256=None if summary is None else hashlib.sha256(summary.encode()).hexdigest(),
    )
