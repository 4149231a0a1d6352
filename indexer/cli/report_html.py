"""A report as one HTML page: no script, no request, the same bytes for the same state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from indexer.cli.columns import counted, path, short, size
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
from indexer.core import paths
from indexer.core.paths import on_screen
from indexer.core.rectangles import Box, squarify

WIDTH: Final = 960
HEIGHT: Final = 480
_LETTER: Final = 6.4
"""Width of a letter of a label; names are cut where they would not fit."""
_TITLE: Final = 15.0
"""Height of the strip with a folder's name."""
_GAP: Final = 2.0
_SMALLEST: Final = 26.0
"""A box with a shorter side than this has no room for a title and a gap."""

_STYLE: Final = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2024;--dim:#60656c;--line:#d8dade;--box:#f4f5f6;
--fresh:#3fa66b;--stale:#e0a526;--unknown:#d0574f;--none:#b4b9c0;--ink:#10151a}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e8eaed;--dim:#9aa1a9;--line:#363b41;
--box:#1f2327;--fresh:#3d9163;--stale:#c08a1c;--unknown:#c1504a;--none:#5a616a;--ink:#0b0d0f}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;
max-width:60rem;padding:1.5rem 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}p{margin:.3rem 0}.dim{color:var(--dim)}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0}dt{color:var(--dim);font-size:.85rem}
dd{font-size:1.15rem;margin:0}table{border-collapse:collapse;width:100%}
td,th{border-top:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{display:block;height:auto;width:100%}
.frame{fill:var(--box);stroke:var(--line)}.fresh{fill:var(--fresh)}.stale{fill:var(--stale)}
.unknown{fill:var(--unknown)}.none{fill:var(--none)}.leaf{stroke:var(--bg)}
text{font:11px ui-monospace,monospace;fill:var(--fg)}text.in{fill:var(--ink)}
.t{overflow-x:auto}td code{display:inline-block;min-width:7rem}
@media(max-width:40rem){table{font-size:.85rem}}
.key{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:.5rem 0}
.key svg{display:inline-block;height:.8rem;margin-right:.4rem;width:.8rem}
"""
_HEAD: Final = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<title>merkle report</title>\n"
)


def html_report(document: Mapping[str, Any]) -> str:
    """The whole page."""
    return "\n".join(
        [
            f"{_HEAD}<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
            "<h1>merkle report</h1>",
            f"<p>{escape(headline(document))}</p>",
            f'<p class="dim">root <code>{escape(document["root"])}</code></p>',
            _stats(document),
            "<h2>Coverage</h2>",
            _bar(document["coverage"]),
            _key(document["coverage"]),
            "<h2>Map</h2>",
            '<p class="dim">Areas add up square roots of file sizes; colours are freshness.</p>',
            _map(document["map"]),
            *_types(document),
            *_agents(document),
            *_not_fresh(document),
            *_changes(document),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _stats(document: Mapping[str, Any]) -> str:
    pairs = "".join(f"<div><dt>{word}</dt><dd>{text}</dd></div>" for word, text in stats(document))
    return f"<dl>{pairs}</dl>"


def _bar(coverage: Mapping[str, Any]) -> str:
    """Nodes by state, as one stacked bar."""
    parts, at = [], 0.0
    for state in STATES:
        width = WIDTH * coverage[state] / max(1, coverage["nodes"])
        if width:
            told = f"{coverage[state]:,} {MEANINGS[state]}"
            parts.append(
                f'<rect class="{state}" x="{at:.1f}" y="0" width="{width:.1f}" height="22">'
                f"<title>{told}</title></rect>"
            )
        at += width
    label = ", ".join(f"{coverage[state]:,} {MEANINGS[state]}" for state in STATES)
    return _svg(WIDTH, 22, f"Nodes: {label}", parts)


def _key(coverage: Mapping[str, Any]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true">'
        f'<rect class="{state}" width="1" height="1"/></svg>'
        f"{coverage[state]:,} {MEANINGS[state]}</li>"
        for state in STATES
    )
    return f'<ul class="key">{items}</ul>'


def _svg(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])


class Tile(NamedTuple):
    """A node of the map, and where it is drawn."""

    node: Mapping[str, Any]
    box: Box
    holds_others: bool
    """Whether other tiles lie inside it."""


def tiles(node: Mapping[str, Any], box: Box) -> Iterator[Tile]:
    """The tiles of a node and of everything in it, the outer ones first."""
    x, y, width, height = box
    opened = bool(node.get("children")) and min(width, height) >= _SMALLEST
    yield Tile(node, box, opened)
    if opened:
        inside = Box(x + _GAP, y + _TITLE, width - 2 * _GAP, height - _TITLE - _GAP)
        ordered = sorted(node["children"], key=lambda child: (-weight(child), child["path"]))
        places = squarify([weight(child) for child in ordered], inside)
        for child, place in zip(ordered, places, strict=True):
            yield from tiles(child, place)


def _map(top: Mapping[str, Any]) -> str:
    whole = Box(0, 0, WIDTH, HEIGHT)
    drawn = [line for tile in tiles(top, whole) for line in _drawn(tile)]
    return _svg(WIDTH, HEIGHT, f"Treemap of {counted(top['nodes'], 'node')}", drawn)


def _drawn(tile: Tile) -> Iterator[str]:
    node, box, holds_others = tile
    state = node["state"] if node["kind"] != "directory" else node["below"]
    kind = "frame" if holds_others else f"leaf {state}"
    told = f"{path(node['path'])}: {node['kind']}, {size(node['bytes'])}, {MEANINGS[state]}"
    yield (
        f'<rect class="{kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}"><title>{escape(told)}</title></rect>'
    )
    room = int((box.width - 6) / _LETTER)
    if room >= 3 and box.height >= 14:
        name = path(node["path"]).rpartition("/")[2]
        if len(name) > room:
            name = name[: room - 1] + "…"
        ink = "" if holds_others else ' class="in"'
        yield f'<text{ink} x="{box.x + 3:.1f}" y="{box.y + 11:.1f}">{escape(name)}</text>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: range) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if place in numbers else f"<{tag}>{cell}</{tag}>"
            for place, cell in enumerate(cells)
        )

    lines = [f"<tr>{line('th', head)}</tr>", *(f"<tr>{line('td', row)}</tr>" for row in rows)]
    return '<div class="t"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _code(text: str) -> str:
    return f"<code>{escape(path(text))}</code>"


def _types(document: Mapping[str, Any]) -> Iterator[str]:
    head, rows = type_rows(document)
    if rows:
        yield "<h2>Frames by type</h2>"
        cells = [[escape(cell) for cell in row] for row in rows]
        yield _table(head, cells, range(1, len(head)))


def _agents(document: Mapping[str, Any]) -> Iterator[str]:
    if document["agents"]:
        yield "<h2>Agents</h2>"
        rows = [
            [
                escape(on_screen(one["id"])),
                f"{one['nodes_with_frame']:,}",
                f"{one['coverage_pct']} %",
            ]
            for one in document["agents"]
        ]
        yield _table(["agent", "nodes with a frame", "coverage"], rows, range(1, 3))


def _not_fresh(document: Mapping[str, Any]) -> Iterator[str]:
    if document["not_fresh"]:
        yield "<h2>Not fresh</h2>"
        rows = [
            [
                _code(one["path"]),
                escape(on_screen(one["type"])),
                escape(on_screen(one["agent"])),
                escape(one["freshness"]),
                escape(on_screen(one["because"])),
            ]
            for one in document["not_fresh"]
        ]
        yield _table(["path", "type", "agent", "state", "because"], rows, range(0))


def _changes(document: Mapping[str, Any]) -> Iterator[str]:
    if document["since_base"] is None:
        return
    yield f"<h2>Changes since <code>{escape(short(document['base']))}</code></h2>"
    lists = change_lists(document["since_base"])
    if not lists:
        yield "<p>No difference.</p>"
    for word, entries in lists:
        yield f"<p>{counted(len(entries), 'path')} {word}</p>"
        rows = [
            [" → ".join(_code(one) for one in entry), escape(path(paths.split(entry[-1])[0]))]
            for entry in entries[:CHANGES_SHOWN]
        ]
        yield _table(["path", "folder"], rows, range(0))
        if len(entries) > CHANGES_SHOWN:
            yield f'<p class="dim">and {len(entries) - CHANGES_SHOWN:,} more</p>'
