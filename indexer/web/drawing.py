"""The map and the bar as a template draws them: places, labels, links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from indexer.core.paths import on_screen
from indexer.core.roles import Role, role_of
from indexer.engine.frames.coverage import CHARACTERS_PER_TOKEN, Coverage, Known
from indexer.web.colours import FRESHNESS, Colouring, Shares
from indexer.web.text import number, plural, query
from indexer.web.treemap import Tile, draw

# Width and height of the map: the width is stretched to the window's, the height is not.
WIDE: Final = (1180.0, 560.0)
NARROW: Final = (368.0, 620.0)

_CHARACTER: Final = 6.7
"""The usual width of a character in a tile."""
_NAME_HEIGHT, _DETAIL_HEIGHT = 17.0, 36.0
_NOT_FRESH: Final = frozenset(("stale", "unknown", "unmanaged"))


class View(NamedTuple):
    """How somebody looks at the map; every link of the page keeps it."""

    by_files: bool = False
    """Whether sizes are those of the files, not of what is known about them."""
    colour: str = "freshness"
    dim: bool = False
    """Whether files that a tool made are drawn pale."""

    @property
    def query(self) -> str:
        """The end of an address that keeps all of it."""
        parts = ["&size=files"] if self.by_files else []
        if self.colour != "freshness":
            parts.append(f"&colour={self.colour}")
        return "".join([*parts, "&dim=made"] if self.dim else parts)


def maps(coverage: Coverage, here: Known, view: View, colouring: Colouring) -> list[dict[str, Any]]:
    """The same map twice: for a wide window and for a narrow one."""

    def children(path: str, count: int) -> Sequence[Known]:
        return coverage.heaviest(path, count, by_files=view.by_files)

    def weight(node: Known) -> float:
        return float(_tokens(node, view.by_files))

    drawn = []
    for name, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
        tiles = draw(here, children, weight, width, height)
        views = [_tile(tile, width, view, colouring) for tile in tiles]
        drawn.append({"name": name, "height": int(height), "tiles": views})
    return drawn


def _tokens(node: Known, by_files: bool) -> int:
    return -(-node.bytes // CHARACTERS_PER_TOKEN) if by_files else node.tokens


def _tile(tile: Tile, whole: float, view: View, colouring: Colouring) -> dict[str, Any]:
    node, (x, y, width, height) = tile.node, tile.box
    shares = {} if tile.more or tile.is_open else colouring.shares(node)
    parts = bar(shares, colouring)
    largest = max(colouring.meanings, key=lambda one: shares.get(one.key, 0))
    state = "more" if tile.more else node.state if tile.is_open else largest.style
    tokens = number(_tokens(node, view.by_files))
    name = f"{tile.more:,} more" if tile.more else on_screen(node.name)
    if node.kind == "directory" and not tile.more:
        name += "/"
    if tile.is_open and view.colour == "freshness" and node.state in _NOT_FRESH:
        name += f" · {node.state}"
    is_named = _fits(name, width) and height >= _NAME_HEIGHT
    return {
        "x": f"{100 * x / whole:.3f}%",
        "y": f"{y:.1f}",
        "width": f"{100 * width / whole:.3f}%",
        "height": f"{height:.1f}",
        "href": _link(tile, view),
        "path": "" if tile.more else node.path,
        "shape": "more" if tile.more else "open" if tile.is_open else "leaf",
        "state": state,
        "dim": view.dim and _is_made(node),
        "parts": parts if len(parts) > 1 else [],
        "pattern": parts[0]["pattern"] if len(parts) == 1 else None,
        "name": name if is_named else None,
        "detail": _detail(tile, node.state, tokens) if is_named else None,
        "title": _title(tile, tokens, shares, colouring),
    }


def _fits(name: str, width: float) -> bool:
    """Whether a tile has room for a name: half a name says nothing, and the title has all of it."""
    return 9 + len(name) * _CHARACTER <= width


def _is_made(node: Known) -> bool:
    below = f"{node.path}/" if node.entries else node.path
    return role_of(below) is Role.MADE


def _link(tile: Tile, view: View) -> str:
    path = query(tile.node.path)
    if tile.node.kind == "directory":
        return f"/?at={path}{view.query}" + ("#contents" if tile.more else "")
    return f"/node?path={path}"


def _detail(tile: Tile, state: str, tokens: str) -> str | None:
    """The second line of a tile that has room for one."""
    if tile.is_open or tile.more or tile.box.height < _DETAIL_HEIGHT:
        return None
    said = tokens
    if not tile.node.entries and state != "fresh":
        said = f"{tokens} · {'no frame' if state == 'none' else state}"
    return next((one for one in (said, tokens) if _fits(one, tile.box.width)), None)


def _title(tile: Tile, tokens: str, shares: Shares, colouring: Colouring) -> str:
    node = tile.node
    if tile.more:
        return f"{tile.more:,} more in {on_screen(node.path) or 'the workspace'}"
    words = [on_screen(node.path), f"≈{tokens} tokens"]
    if node.entries:
        words.append(plural(node.nodes, "node"))
    found = [(one.label, shares[one.key]) for one in colouring.meanings if shares.get(one.key)]
    if tile.is_open:
        found = [(one.label, node.counts[one.key]) for one in FRESHNESS if node.counts[one.key]]
    words += [f"{count:,} {label}" if node.entries else label for label, count in found]
    return " · ".join(words)


def bar(shares: Shares, colouring: Colouring) -> list[dict[str, Any]]:
    """What there is of each meaning, side by side, in proportion."""
    total = sum(shares.values()) or 1
    parts, x = [], 0.0
    for meaning in colouring.meanings:
        count = shares.get(meaning.key, 0)
        if not count:
            continue
        # However few there are, their part is wide enough to be seen.
        width = max(100 * count / total, 1.5)
        parts.append(
            {
                "key": meaning.key,
                "style": meaning.style,
                "pattern": meaning.pattern,
                "x": f"{min(x, 98.5):.2f}%",
                "width": f"{width:.2f}%",
            }
        )
        x += width
    return parts


def legend(shares: Shares, colouring: Colouring) -> list[dict[str, Any]]:
    """The meanings that there are here, and how often; stale and fresh are always told."""
    return [
        {**meaning._asdict(), "count": shares.get(meaning.key, 0)}
        for meaning in colouring.meanings
        if shares.get(meaning.key) or meaning.key in ("fresh", "stale")
    ]
