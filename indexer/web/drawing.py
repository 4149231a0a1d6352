"""The map and the bar as a template draws them: places, labels, links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from indexer.core.paths import on_screen
from indexer.engine.frames.coverage import CHARACTERS_PER_TOKEN, Coverage, Known
from indexer.web.text import number, plural, query
from indexer.web.treemap import Tile, draw

# Drawn for a width that is stretched to what the window has; heights are as drawn.
WIDE: Final = (1180.0, 560.0)
NARROW: Final = (368.0, 620.0)

MEANINGS: Final = {
    "fresh": "all frames match the content",
    "stale": "something it was made from moved",
    "unknown": "cannot be proved now",
    "unmanaged": "kept by no declared type",
    "none": "no frame",
}
"""The states in the order of the legend, each in a few words."""
_PATTERNED: Final = frozenset(("stale", "unknown", "unmanaged"))
_CHARACTER: Final = 6.7
"""The usual width of a character in a tile."""
_NAME_WIDTH, _NAME_HEIGHT, _DETAIL_HEIGHT = 26.0, 17.0, 36.0


def maps(coverage: Coverage, here: Known, *, by_files: bool) -> list[dict[str, Any]]:
    """The same map twice: for a wide window and for a narrow one."""

    def children(path: str, count: int) -> Sequence[Known]:
        return coverage.heaviest(path, count, by_files=by_files)

    def weight(node: Known) -> float:
        return float(_tokens(node, by_files))

    drawn = []
    for name, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
        tiles = draw(here, children, weight, width, height)
        views = [_tile(tile, width, by_files) for tile in tiles]
        drawn.append({"name": name, "height": int(height), "tiles": views})
    return drawn


def _tokens(node: Known, by_files: bool) -> int:
    return -(-node.bytes // CHARACTERS_PER_TOKEN) if by_files else node.tokens


def state_of(node: Known) -> str:
    """How a node is coloured where its children are not drawn: the worst of all of them."""
    if not node.entries:
        return node.state
    worst_first = ("stale", "unknown", "fresh", "unmanaged")
    return next((state for state in worst_first if node.counts[state]), "none")


def _tile(tile: Tile, whole: float, by_files: bool) -> dict[str, Any]:
    node, (x, y, width, height) = tile.node, tile.box
    state = node.state if tile.is_open else "more" if tile.more else state_of(node)
    tokens = number(_tokens(node, by_files))
    name = f"{tile.more:,} more" if tile.more else on_screen(node.name)
    if node.kind == "directory" and not tile.more:
        name += "/"
    if tile.is_open and state in _PATTERNED:
        name += f" · {state}"
    has_name = width >= _NAME_WIDTH and height >= _NAME_HEIGHT
    return {
        "x": f"{100 * x / whole:.3f}%",
        "y": f"{y:.1f}",
        "width": f"{100 * width / whole:.3f}%",
        "height": f"{height:.1f}",
        "href": _link(tile, by_files),
        "path": "" if tile.more else node.path,
        "shape": "more" if tile.more else "open" if tile.is_open else "leaf",
        "state": state,
        "pattern": state if state in _PATTERNED else None,
        "name": _fitted(name, width) if has_name else None,
        "detail": _detail(tile, state, tokens) if has_name else None,
        "title": _title(tile, state, tokens),
    }


def _fitted(name: str, width: float) -> str:
    """As much of a name as a tile has room for."""
    room = max(int((width - 9) / _CHARACTER), 2)
    return name if len(name) <= room else name[: room - 1] + "…"


def _link(tile: Tile, by_files: bool) -> str:
    path = query(tile.node.path)
    if tile.node.kind == "directory":
        suffix = "&size=files" if by_files else ""
        return f"/?at={path}{suffix}" + ("#contents" if tile.more else "")
    return f"/node?path={path}"


def _detail(tile: Tile, state: str, tokens: str) -> str | None:
    """The second line of a tile that has room for one."""
    if tile.is_open or tile.more or tile.box.height < _DETAIL_HEIGHT:
        return None
    said = tokens if state == "fresh" else f"{tokens} · {'no frame' if state == 'none' else state}"
    return _fitted(said, tile.box.width)


def _title(tile: Tile, state: str, tokens: str) -> str:
    node = tile.node
    if tile.more:
        return f"{tile.more:,} more in {on_screen(node.path) or 'the workspace'}"
    words = [on_screen(node.path), f"≈{tokens} tokens"]
    if node.entries:
        found = [(name, node.counts[name]) for name in MEANINGS if node.counts[name]]
        words.append(plural(node.nodes, "node"))
        words += [f"{count:,} {'without frame' if n == 'none' else n}" for n, count in found]
    else:
        words.append("no frame" if state == "none" else state)
    return " · ".join(words)


def bar(counts: dict[str, int]) -> list[dict[str, Any]]:
    """Shares of the states, side by side, as parts of a hundred."""
    total = sum(counts.values()) or 1
    parts, x = [], 0.0
    for state in MEANINGS:
        width = 100 * counts[state] / total
        if counts[state]:
            # Something that is there can be seen.
            width = max(width, 0.6)
        parts.append(
            {
                "state": state,
                "count": counts[state],
                "x": f"{min(x, 99.4):.2f}%",
                "width": f"{width:.2f}%",
                "pattern": state if state in _PATTERNED else None,
            }
        )
        x += width
    return parts
