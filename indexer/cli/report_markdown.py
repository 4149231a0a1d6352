"""A report as Markdown that GitHub shows as it is: tables, and bars made of letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from indexer.cli.columns import counted, path, short, size
from indexer.cli.markdown import cell, code, table
from indexer.cli.report_text import (
    CHANGES_SHOWN,
    MEANINGS,
    STATES,
    change_lists,
    headline,
    stats,
    type_rows,
    weight,
)
from indexer.core.paths import on_screen

_BAR: Final = 30
_LETTERS: Final = {"fresh": "█", "stale": "▓", "unknown": "▒", "none": "░"}
_ROWS: Final = 40
"""How many entries the map of a Markdown report has."""


def markdown_report(document: Mapping[str, Any]) -> str:
    """The whole text."""
    parts = [
        "# merkle report",
        headline(document),
        f"Root {code(document['root'])}",
        table(*_stats(document)),
        "## Coverage",
        _coverage(document["coverage"]),
        "## Map",
        "Bars add up square roots of file sizes, shades are freshness: "
        + ", ".join(f"{_LETTERS[state]} {MEANINGS[state]}" for state in STATES)
        + ".",
        _map(document["map"]),
        *_types(document),
        *_agents(document),
        *_not_fresh(document),
        *_changes(document),
    ]
    return "\n\n".join(parts) + "\n"


def _stats(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    pairs = stats(document)
    return [word for word, _ in pairs], [[text for _, text in pairs]]


def _coverage(coverage: Mapping[str, Any]) -> str:
    rows = [
        [MEANINGS[state], f"{coverage[state]:,}", _bar(coverage[state], coverage["nodes"], state)]
        for state in STATES
    ]
    return table(["nodes", "count", "share"], rows, right=[1])


def _bar(part: int, whole: int, state: str) -> str:
    """A bar in whole letters; what is there at all has at least one."""
    letters = (_BAR * part + whole - 1) // whole if whole else 0
    return f"`{_LETTERS[state] * letters}`" if letters else ""


def _map(top: Mapping[str, Any]) -> str:
    """The heaviest entries of the map, folders two levels down, in the order of the tree."""
    entries = list(_entries(top, 0))
    heaviest = sorted(entries, key=lambda one: (-weight(one[0]), one[0]["path"]))[:_ROWS]
    kept = {one["path"] for one, _ in heaviest}
    whole = weight(top)
    rows = []
    for node, level in entries:
        if node["path"] in kept:
            state = node["below"] if node["kind"] == "directory" else node["state"]
            name = path(node["path"]) + ("/" if node["kind"] == "directory" and level else "")
            bar = _bar(weight(node), whole, state)
            rows.append([cell(name), size(node["bytes"]), bar])
    shown = table(["path", "size", "share"], rows, right=[1])
    left = len(entries) - len(rows)
    return (
        f"{shown}\n\n{counted(left, 'smaller entry', 'smaller entries')} not shown."
        if left
        else shown
    )


def _entries(node: Mapping[str, Any], level: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    yield node, level
    if level < 2:
        for child in node.get("children", ()):
            yield from _entries(child, level + 1)


def _types(document: Mapping[str, Any]) -> Iterator[str]:
    head, rows = type_rows(document)
    if rows:
        yield "## Frames by type"
        yield table(head, [[cell(row[0]), *row[1:]] for row in rows], range(1, len(head)))


def _agents(document: Mapping[str, Any]) -> Iterator[str]:
    if document["agents"]:
        yield "## Agents"
        rows = [
            [cell(on_screen(one["id"])), f"{one['nodes_with_frame']:,}", f"{one['coverage_pct']} %"]
            for one in document["agents"]
        ]
        yield table(["agent", "nodes with a frame", "coverage"], rows, [1, 2])


def _not_fresh(document: Mapping[str, Any]) -> Iterator[str]:
    if document["not_fresh"]:
        yield "## Not fresh"
        rows = [
            [
                cell(path(one["path"])),
                cell(on_screen(one["type"])),
                cell(on_screen(one["agent"])),
                one["freshness"],
                cell(on_screen(one["because"]) or "-"),
            ]
            for one in document["not_fresh"]
        ]
        yield table(["path", "type", "agent", "state", "because"], rows)


def _changes(document: Mapping[str, Any]) -> Iterator[str]:
    if document["since_base"] is None:
        return
    yield f"## Changes since {code(short(document['base']))}"
    lists = change_lists(document["since_base"])
    if not lists:
        yield "No difference."
    for word, entries in lists:
        yield f"**{counted(len(entries), 'path')} {word}**"
        lines = [
            "- " + " → ".join(code(path(one)) for one in entry) for entry in entries[:CHANGES_SHOWN]
        ]
        if len(entries) > CHANGES_SHOWN:
            lines.append(f"- and {len(entries) - CHANGES_SHOWN:,} more")
        yield "\n".join(lines)
