"""The rectangles of a treemap: areas in proportion to weights, laid out the same way every time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


def squarify(weights: Sequence[float], box: Box) -> list[Box]:
    """Rectangles that fill a box, in the order of the weights, each as square as can be.

    They come in rows along the shorter side of what is left; with falling weights no row is worse
    than it has to be.
    """
    if not weights or sum(weights) <= 0 or box.width <= 0 or box.height <= 0:
        return [Box(box.x, box.y, 0, 0) for _ in weights]
    x, y, width, height = box
    left = list(accumulate(reversed(weights)))
    placed: list[Box] = []
    while len(placed) < len(weights):
        start = len(placed)
        # The area of one unit of weight: what is left of the weights fills what is left of the box.
        unit = width * height / left[-1 - start]
        side = min(width, height)
        end = start + 1
        while end < len(weights) and _worst(weights[start : end + 1], unit, side) <= _worst(
            weights[start:end], unit, side
        ):
            end += 1
        row = weights[start:end]
        total = sum(row)
        thickness = total * unit / side if side else 0.0
        offset = 0.0
        for one in row:
            length = side * one / total
            if width >= height:
                placed.append(Box(x, y + offset, thickness, length))
            else:
                placed.append(Box(x + offset, y, length, thickness))
            offset += length
        if width >= height:
            x, width = x + thickness, max(0.0, width - thickness)
        else:
            y, height = y + thickness, max(0.0, height - thickness)
    return placed


def _worst(row: Sequence[float], unit: float, side: float) -> float:
    """The ratio of sides of the most stretched rectangle of a row."""
    total = sum(row) * unit
    if not total or not side:
        return 0.0
    thickness = total / side
    return max(
        max(thickness / length, length / thickness)
        for length in (one * unit / thickness for one in row)
    )
