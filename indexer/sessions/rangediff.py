"""What changed from snapshot to snapshot over a range, as seen through a selector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from indexer.errors import UsageError
from indexer.sessions.contentdiff import MODES, content_diff
from indexer.sessions.diff import diff_views, tracked
from indexer.sessions.selector import Selector
from indexer.sessions.view import View

LIMIT: Final = "E_SNAPSHOT_RANGE_LIMIT"
MATERIALS: Final = ("content", "mime", "encoding", "content_hash")


class OptionError(UsageError):
    """An option of a range select that makes no sense."""

    code = "E_OPTION_INVALID"


@dataclass(frozen=True, slots=True)
class SelectOptions:
    """Options of a range select; a limit of None is not set, a limit of 0 lets nothing pass."""

    include_content: bool = False
    content_mode: str = "unified"
    context_lines: int = 3
    materialize: tuple[str, ...] = ()
    max_snapshots: int | None = None
    max_changes_per_snapshot: int | None = None

    def __post_init__(self) -> None:
        if self.content_mode not in MODES:
            raise OptionError(f"unknown content mode {self.content_mode!r}: {', '.join(MODES)}")
        for name in ("context_lines", "max_snapshots", "max_changes_per_snapshot"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise OptionError(f"{name} cannot be negative: {value}")
        for name in self.materialize:
            if name not in MATERIALS:
                raise OptionError(f"{name!r} cannot be materialized: {', '.join(MATERIALS)}")


@dataclass(frozen=True, slots=True)
class Stop:
    """One snapshot of a range: how the result names it, and its tree."""

    ref: dict[str, Any]
    view: View


def range_diff(
    selector: Selector, stops: Sequence[Stop], warnings: Sequence[str], options: SelectOptions
) -> dict[str, Any]:
    """The RangeDiffLatestResult of snapshots given newest first."""
    errors: list[dict[str, Any]] = []
    truncated = False
    if options.max_snapshots is not None and len(stops) > options.max_snapshots:
        message = f"{len(stops)} snapshots exceed the limit of {options.max_snapshots}"
        errors.append({"code": LIMIT, "message": message, "fatal": False})
        stops = stops[: options.max_snapshots]
        truncated = True
    blocks = []
    for newer, older in pairwise(stops):
        block, cut = _block(selector, newer, older, options)
        blocks.append(block)
        truncated = truncated or cut
    result: dict[str, Any] = {
        "query": selector.text,
        "snapshots": [stop.ref for stop in stops],
        "diffs": blocks,
        "mode": "pairwise",
    }
    limits = _limits(options, truncated)
    extras = (("limits", limits), ("warnings", list(warnings)), ("errors", errors))
    result.update({name: value for name, value in extras if value})
    return result


def _limits(options: SelectOptions, truncated: bool) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if options.max_snapshots is not None:
        limits["maxSnapshots"] = options.max_snapshots
    if options.max_changes_per_snapshot is not None:
        limits["maxChangesPerSnapshot"] = options.max_changes_per_snapshot
    return {**limits, "truncated": truncated} if limits else {}


def _block(
    selector: Selector, newer: Stop, older: Stop, options: SelectOptions
) -> tuple[dict[str, Any], bool]:
    """The difference of two neighbours, cut to the limit; statistics count all of it."""
    found = diff_views(older.view, newer.view, selector)
    added, removed, changed = found["added"], found["removed"], found["changed"]
    stats = {"added": len(added), "removed": len(removed), "changed": len(changed)}
    limit = options.max_changes_per_snapshot
    cut = limit is not None and sum(stats.values()) > limit
    if limit is not None:
        added = added[:limit]
        removed = removed[: limit - len(added)]
        changed = changed[: limit - len(added) - len(removed)]
    block = {
        "from": newer.ref,
        "to": older.ref,
        "added_ids": added,
        "removed_ids": removed,
        "changed": [
            _changed(item["id"], item["fields"], newer.view, older.view, options)
            for item in changed
        ],
        "stats": stats,
    }
    return block, cut


def _changed(
    node_id: str, fields: list[str], newer: View, older: View, options: SelectOptions
) -> dict[str, Any]:
    after, before = tracked(newer, node_id), tracked(older, node_id)
    delta = {name: {"from": after.get(name), "to": before.get(name)} for name in fields}
    item: dict[str, Any] = {"id": node_id, "fields": fields, "delta": delta}
    new, old = newer.node(node_id), older.node(node_id)
    if "content_hash" not in fields or new is None or old is None:
        return item
    if options.include_content:
        shown = content_diff(new.content, old.content, options.content_mode, options.context_lines)
        mime = new.attributes.get("content_mime")
        item["content_diff"] = {**shown, "mime": mime} if mime is not None else shown
    if options.materialize:
        item["materialized"] = {
            name: {"from": _material(new, name), "to": _material(old, name)}
            for name in options.materialize
        }
    return item


def _material(node: Any, name: str) -> Any:
    if name in ("content", "content_hash"):
        return getattr(node, name)
    return node.attributes.get(f"content_{name}")
