"""The map: areas in proportion, nothing overlapping, and never more than can be seen."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core.rectangles import Box, squarify
from indexer.engine.frames.coverage import Known
from indexer.web.treemap import LEAST_AREA, MOST_CHILDREN, Tile, draw


def node(path: str, tokens: int, entries: int = 0) -> Known:
    kind = "directory" if entries else "file"
    return Known(path, path.rpartition("/")[2], kind, "fresh", tokens, 0, entries, entries + 1, {})


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60))
def test_areas_are_in_proportion_and_fill_the_box(weights: list[int]) -> None:
    box = Box(10, 20, 1180, 560)
    ordered = sorted(map(float, weights), reverse=True)
    placed = squarify(ordered, box)
    scale = box.width * box.height / sum(ordered)
    for weight, one in zip(ordered, placed, strict=True):
        assert one.width * one.height == pytest.approx(weight * scale)
        assert one.x >= box.x - 1e-6
        assert one.y >= box.y - 1e-6
        assert one.x + one.width <= box.x + box.width + 1e-6
        assert one.y + one.height <= box.y + box.height + 1e-6
    for a, b in itertools.combinations(placed, 2):
        across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
        down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
        assert across < 1e-6 or down < 1e-6


def drawn(count: int, tokens: int = 100) -> list[Tile]:
    top = node("", count * tokens, count)
    files = [node(f"f{number:05}", tokens) for number in range(count)]
    return draw(top, lambda path, most: files[:most], lambda one: one.tokens, 1180, 560)


def test_a_large_folder_shows_its_heaviest_and_counts_the_rest() -> None:
    tiles = drawn(10_000)
    assert len(tiles) == MOST_CHILDREN + 1
    assert tiles[-1].more == 10_000 - MOST_CHILDREN
    assert [tile.node.path for tile in tiles[:3]] == ["f00000", "f00001", "f00002"]
    group = tiles[-1].box
    assert group.width * group.height <= 1180 * 560 / 3 + 1


def test_a_group_of_little_stays_little() -> None:
    files = [node("big", 1000), node("small", 1), node("smaller", 1)]
    top = node("", 5000, 3)
    tiles = draw(top, lambda path, most: files[:most], lambda one: one.tokens, 400, 400)
    assert [tile.more for tile in tiles] == [0, 2]
    group = tiles[-1].box
    # No more than it takes to hit it, although the folder's own frame weighs much.
    assert group.width * group.height == pytest.approx(LEAST_AREA, rel=0.01)


@pytest.mark.parametrize("count", [1, 2, MOST_CHILDREN, MOST_CHILDREN + 1])
def test_every_entry_is_drawn_or_counted(count: int) -> None:
    tiles = drawn(count)
    assert sum(tile.more or 1 for tile in tiles) == count
    # A group of one would be a riddle.
    assert all(tile.more != 1 for tile in tiles)


def test_what_weighs_nothing_still_exists() -> None:
    assert len(drawn(3, tokens=0)) == 3
    assert draw(node("", 0, 0), lambda path, most: [], lambda one: 0, 100, 100) == []


def test_the_number_of_tiles_is_bounded_by_the_area() -> None:
    def children(path: str, most: int) -> list[Known]:
        if path.count("/") >= 6:
            return []
        return [node(f"{path}/{number}", 10 ** (7 - path.count("/")), 50) for number in range(50)]

    tiles = draw(node("", 10**9, 50), children, lambda one: one.tokens, 1180, 560)
    assert len(tiles) <= 2 * 1180 * 560 / LEAST_AREA
    assert any(tile.is_open for tile in tiles)
