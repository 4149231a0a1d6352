"""What the page's treemap shows: folders open or closed, and as many nodes as can be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from indexer.core.rectangles import Box, squarify
from indexer.engine.frames.coverage import Known

HEADING: Final = 22.0
"""Height of the strip that names a folder above its children."""
GAP: Final = 3.0
"""Space around the children of a folder."""
LEAST_AREA: Final = 900.0
"""Smaller rectangles are grouped: nobody could read or hit them."""
MOST_CHILDREN: Final = 64
DEEPEST: Final = 5
"""Levels of folders that are drawn open."""
_OPEN_WIDTH, _OPEN_HEIGHT = 84.0, 64.0
"""A folder smaller than this is drawn closed."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One rectangle of the map: a node, or how many more there are in a folder."""

    box: Box
    node: Known
    more: int = 0
    """With a number, the tile stands for so many further children of the node."""
    is_open: bool = False
    """Whether its children are drawn inside it."""


Children = Callable[[str, int], Sequence[Known]]
"""The heaviest children of a folder, at most so many."""
Weight = Callable[[Known], float]


def draw(top: Known, children: Children, weight: Weight, width: float, height: float) -> list[Tile]:
    """The tiles inside a folder, parents before what is drawn on them."""
    tiles: list[Tile] = []
    pending = [(top, Box(0, 0, width, height), 0)]
    while pending:
        folder, box, depth = pending.pop()
        for tile in _fill(folder, box, children, weight):
            inside = _inside(tile, depth)
            if inside is None:
                tiles.append(tile)
            else:
                tiles.append(Tile(tile.box, tile.node, is_open=True))
                pending.append((tile.node, inside, depth + 1))
    return tiles


def _inside(tile: Tile, depth: int) -> Box | None:
    """Where a folder's children go; None when it is drawn closed."""
    x, y, width, height = tile.box
    closed = tile.more or not tile.node.entries
    if closed or depth >= DEEPEST or width < _OPEN_WIDTH or height < _OPEN_HEIGHT:
        return None
    return Box(x + GAP, y + HEADING, width - 2 * GAP, height - HEADING - GAP)


def _fill(folder: Known, box: Box, children: Children, weight: Weight) -> list[Tile]:
    """One tile per child that is large enough, and one for all the others."""
    found = list(children(folder.path, MOST_CHILDREN + 1))
    # What weighs nothing still exists: it is worth one.
    weights = [max(weight(child), 1.0) for child in found]
    unlisted = 0.0
    if folder.entries > len(found):
        unlisted = max(weight(folder) - sum(weights), float(folder.entries - len(found)))
    shown = min(len(found), MOST_CHILDREN)
    while shown and _area_of_last(weights, shown, unlisted, box) < LEAST_AREA:
        shown -= 1
    if shown == folder.entries - 1:
        # A group of one would say less than the node itself.
        shown += 1
    hidden = folder.entries - shown
    kept = weights[:shown]
    if hidden:
        # The group is large enough to be hit, however little it stands for.
        least = LEAST_AREA * sum(kept) / max(box.width * box.height, LEAST_AREA)
        kept.append(max(_rest(weights, shown, unlisted), least))
    boxes = squarify(kept, box)
    tiles = [Tile(place, child) for place, child in zip(boxes, found[:shown], strict=False)]
    if hidden:
        tiles.append(Tile(boxes[-1], folder, more=hidden))
    return tiles


def _rest(weights: Sequence[float], shown: int, unlisted: float) -> float:
    """The weight of the group: what it stands for, yet no more than a third of all that is drawn.

    Thousands of small files would otherwise leave no room for the largest among them.
    """
    rest = sum(weights[shown:]) + unlisted
    return min(rest, sum(weights[:shown]) / 2) if shown else max(rest, 1.0)


def _area_of_last(weights: Sequence[float], shown: int, unlisted: float, box: Box) -> float:
    drawn = sum(weights[:shown]) + _rest(weights, shown, unlisted)
    return weights[shown - 1] * box.width * box.height / drawn
