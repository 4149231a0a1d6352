"""The pages of sessions: which there are, and one with its tree and a selector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from indexer.core.tokens import TokenCounter
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.read import list_sessions, select, show
from indexer.engine.workspace import Engine
from indexer.errors import UsageError
from indexer.service.server import Api
from indexer.web.pages import LISTED, Query, pager

ROWS: Final = 400
"""Nodes of a tree that one page shows; the newest stand last and stay."""
LONGEST: Final = 4000
"""Characters of a block that the tree shows."""
CYCLES: Final = 8
"""Newest snapshots that a page links to."""
WORKING: Final = "@w"


class SessionPages:
    """One method per page."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def sessions(self, query: Query) -> dict[str, Any]:
        """Every session, the newest first."""
        page = query.page()
        found = self._api.perform(list_sessions, disk=False)["sessions"]
        found.sort(key=lambda one: (one["updated_at"], one["name"]), reverse=True)
        rows = found[page * LISTED : (page + 1) * LISTED]
        return {"rows": rows, "pages": pager(page, len(found))}

    def session(self, query: Query) -> dict[str, Any]:
        """One session: figures, a snapshot's tree, and what a selector finds in it."""
        name = query.text("name")
        at = query.text("at", WORKING).strip() or WORKING
        selector = query.text("select").strip()[:500]
        # What a selector finds are nodes of the tree.
        as_tree = query.text("view") == "tree" or bool(selector)

        def read(engine: Engine) -> dict[str, Any]:
            shown: JsonObject = {**show(engine, name, snapshot=at)}
            found, problem = _select(engine, name, at, selector)
            ids = set(found["ids"]) if found and "ids" in found else None
            rows = tree_rows(shown["tree"]["root"])
            kept = [row for row in rows if ids is None or row["id"] in ids]
            known = {row["id"] for row in rows}
            return {
                "session": shown,
                "at": at,
                "as_tree": as_tree,
                "turns": [] if as_tree else turns(engine.counter, shown["tree"]["root"]),
                "snapshots": _snapshots(shown["cycle"]),
                "selector": selector,
                "problem": problem,
                "found": found,
                "elsewhere": [one for one in (ids or ()) if one not in known][:ROWS],
                "changes": _changes(found),
                "rows": kept[-ROWS:],
                "left_out": max(len(kept) - ROWS, 0),
                "count": len(ids) if ids is not None else None,
                "nodes": len(rows),
            }

        return self._api.perform(read, disk=False)


def _select(
    engine: Engine, name: str, at: str, selector: str
) -> tuple[JsonObject | None, UsageError | None]:
    """What a selector finds, in the snapshot on the page unless it names one; or why nothing."""
    if not selector:
        return None, None
    asked = selector if selector.startswith("@") else f"{at} {selector}"
    try:
        return {**select(engine, name, asked)}, None
    except UsageError as problem:
        return None, problem


def _changes(found: JsonObject | None) -> list[JsonObject]:
    """The steps of a range, newest first, each in figures."""
    if not found or "diffs" not in found:
        return []
    return [
        {
            "from": step["from"]["label"],
            "to": step["to"]["label"],
            "stats": step["stats"],
            "added": step["added_ids"][:ROWS],
            "removed": step["removed_ids"][:ROWS],
            "changed": len(step["changed"]),
        }
        for step in found["diffs"]
    ]


def _snapshots(cycle: int) -> list[tuple[str, str]]:
    """Addresses of the working tree and the newest cycles, with words for them."""
    newest = range(cycle, max(cycle - CYCLES, 0), -1)
    return [(WORKING, "working tree"), *((f"@c{number}", f"cycle {number}") for number in newest)]


def tree_rows(root: JsonObject) -> list[JsonObject]:
    """A tree from the top down, one row per node, with what a reader needs of each."""
    rows: list[JsonObject] = []
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        rows.append(_row(node, depth))
        stack += [(child, depth + 1) for child in reversed(node.get("children", []))]
    return rows


def turns(counter: TokenCounter, root: JsonObject) -> list[JsonObject]:
    """The conversation: the system blocks, each turn, and what is being written now."""
    found: list[JsonObject] = []
    for region in root.get("children", []):
        sealed = region["nodeType"] == "^seq"
        for part in region.get("children", []) if sealed else [region]:
            blocks = [_message(counter, node) for node in _blocks(part)]
            if blocks:
                found.append(
                    {"words": _WHERE.get(part["nodeType"]), "node": part, "blocks": blocks}
                )
    left, kept = ROWS, []
    for turn in reversed(found):
        if left > 0:
            kept.append({**turn, "blocks": turn["blocks"][-left:]})
        left -= len(turn["blocks"])
    return kept[::-1]


_WHERE: Final = {"^sys": "always in force", "^ah": "being written"}


def _blocks(node: JsonObject) -> Iterator[JsonObject]:
    """The blocks at and below a node, in the order in which they are said."""
    stack = [node]
    while stack:
        one = stack.pop()
        if one.get("content") is not None:
            yield one
        stack += reversed(one.get("children", []))


def _message(counter: TokenCounter, node: JsonObject) -> JsonObject:
    """A block as somebody said it: a tool's call and result by what they hold, all else as text."""
    content, tool = node["content"], None
    if isinstance(content, dict) and "tool_name" in content:
        tool = {key: content.get(key) for key in ("tool_name", "direction", "status", "call_id")}
        content = content.get("payload")
    is_text = isinstance(content, str)
    text = content if is_text else json.dumps(content, ensure_ascii=False, indent=1)
    return {
        **_row({**node, "content": text}, 0),
        "tool": tool,
        "is_text": is_text and node.get("kind") in (None, "text"),
        "tokens": counter.count_text(text),
        "at": node.get("created_at_iso", ""),
    }


def _row(node: JsonObject, depth: int) -> JsonObject:
    content = node.get("content")
    if content is not None and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, indent=1)
    return {
        "id": str(node["id"]),
        "type": str(node["nodeType"]),
        "depth": min(depth, 8),
        "role": node.get("role"),
        "kind": node.get("kind"),
        "offset": node.get("offset", 0),
        "ttl": node.get("ttl"),
        "priority": node.get("priority", 0),
        "cycle": node.get("cycle"),
        "content": content[:LONGEST] if content else content,
        "cut": max(len(content) - LONGEST, 0) if content else 0,
        "names": sorted(key for key in node if ":" in key),
        "leaf": not node.get("children"),
    }
