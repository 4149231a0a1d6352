"""What agents ask about code: where a name is defined and used, and the text itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from indexer.mcp.answers import Answer, Document, Entry
from indexer.mcp.arguments import ArgumentError
from indexer.service.workspace import Workspace

_LINES: Final = re.compile(r"(\d{0,9}):(\d{0,9})|(\d{1,9})")
MOST: Final = 200
"""Symbols, uses and lines that are asked for at once; the budget has the last word."""


def source(workspace: Workspace, given: Document) -> Answer:
    """The text of a file, a symbol or some lines, as on disk now."""
    first, last = _range(given["lines"]) if "lines" in given else (None, None)
    found: Document = {**workspace.show(given["node"], first=first, last=last)}
    text = found.pop("content")
    head = {name: value for name, value in found.items() if value}
    begin, end = found["lines"]
    about = f"lines {begin}-{end}"
    return Answer(
        {"freshness": found["freshness"], **head}, [Entry("source", None, text, about, False)]
    )


def _range(text: str) -> tuple[int | None, int | None]:
    fits = _LINES.fullmatch(text)
    if fits is None:
        raise ArgumentError(f"{text!r} are no lines", hint="write 10:40, 10: or :40")
    first, last, only = fits.groups()
    return (int(only), int(only)) if only else (int(first or 1), int(last) if last else None)


Question = Callable[[Workspace, str, int], Mapping[str, Any]]

QUESTIONS: Final[Mapping[str, Question]] = {
    "definition": lambda workspace, query, limit: workspace.definition(query, limit=limit),
    "caller": lambda workspace, query, limit: workspace.callers(query, limit=limit),
    "callee": lambda workspace, query, limit: workspace.callees(query, limit=limit),
    "impact": lambda workspace, query, limit: workspace.impact(query, limit=limit),
}


def about_code(workspace: Workspace, given: Document) -> Answer:
    """Symbols, then uses of them, each where it stands."""
    found = QUESTIONS[given["kind"]](workspace, given["query"], given.get("limit", MOST))
    answer = Answer({"freshness": "fresh", "found": found["found"]})
    if found["missing"]:
        answer.head["missing"] = f"{found['missing']:,} files are not read yet"
    symbols, edges = found["symbols"], found.get("edges", [])
    answer.add("symbols", [_symbol(one) for one in symbols])
    # Where only one thing can be meant, each use need not say so again.
    answer.add("uses", [_use(one, len(symbols) != 1) for one in edges])
    shown = len(edges) if "edges" in found else len(symbols)
    if found["found"] > shown:
        answer.totals["uses" if "edges" in found else "symbols"] = found["found"]
    return answer


def _symbol(one: Document) -> Document:
    found = {
        "node": f"{one['path']}::{one['symbol']}",
        "kind": one["kind"],
        "lines": f"{one['line']}:{one['end_line']}",
    }
    return {**found, **{name: one[name] for name in ("signature", "doc") if one[name]}}


def _use(edge: Document, with_target: bool) -> Document:
    found: Document = {"at": f"{edge['path']}:{edge['line']}", "sure": edge["sure"]}
    if edge["symbol"]:
        found["in"] = edge["symbol"]
    if with_target:
        found["of"] = edge["target"]
    if "distance" in edge:
        found["distance"] = edge["distance"]
    if edge.get("test"):
        found["test"] = True
    return found
