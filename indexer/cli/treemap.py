"""A treemap: nested boxes whose areas follow sizes, laid out the same way every time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isqrt
from typing import Any, Final, NamedTuple

TITLE: Final = 15.0
"""Height of the strip with a folder's name."""
GAP: Final = 2.0
_SMALLEST: Final = 26.0
"""A box with a shorter side than this has no room for a title and a gap."""


class Box(NamedTuple):
    """Where a node of the map is drawn."""

    node: Mapping[str, Any]
    x: float
    y: float
    width: float
    height: float
    is_frame: bool
    """Whether other boxes lie inside it."""


def weight(node: Mapping[str, Any]) -> int:
    """The area a node asks for: by the root of its size, so that small files can be seen too."""
    if node.get("children"):
        return sum(map(weight, node["children"]))
    return isqrt(node["bytes"]) + int(node["nodes"])


def boxes(node: Mapping[str, Any], x: float, y: float, width: float, height: float) -> list[Box]:
    """The boxes of a node and everything in it, the outer ones first."""
    return list(_nested(node, x, y, width, height))


def _nested(
    node: Mapping[str, Any], x: float, y: float, width: float, height: float
) -> Iterator[Box]:
    opened = bool(node.get("children")) and min(width, height) >= _SMALLEST
    yield Box(node, x, y, width, height, opened)
    if not opened:
        return
    inner = (x + GAP, y + TITLE, width - 2 * GAP, height - TITLE - GAP)
    if inner[3] <= 0:
        return
    ordered = sorted(node["children"], key=lambda child: (-weight(child), child["path"]))
    places = _squarified([weight(child) for child in ordered], *inner)
    for child, place in zip(ordered, places, strict=True):
        yield from _nested(child, *place)


Place = tuple[float, float, float, float]


def _squarified(
    weights: Sequence[int], x: float, y: float, width: float, height: float
) -> Iterator[Place]:
    """Rectangles for falling weights, row by row, each row as square as the next box allows."""
    left = sum(weights)
    start = 0
    while start < len(weights):
        # Area of one unit of weight; what is left always fills what is left.
        unit = width * height / left
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
                yield x, y + offset, thickness, length
            else:
                yield x + offset, y, length, thickness
            offset += length
        if width >= height:
            x, width = x + thickness, max(0.0, width - thickness)
        else:
            y, height = y + thickness, max(0.0, height - thickness)
        left -= total
        start = end


def _worst(row: Sequence[int], unit: float, side: float) -> float:
    """The most stretched of the boxes in a row, as a ratio of its sides."""
    total = sum(row) * unit
    if not total or not side:
        return 0.0
    thickness = total / side
    return max(
        max(thickness / length, length / thickness)
        for length in (one * unit / thickness for one in row)
    )
