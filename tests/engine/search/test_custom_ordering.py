"""An ordering of one's own, found by its entry point."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.compose.ordering import OrderingError
from tests.support.space import Space

MODULE = """
def longest_path_first(candidates, request):
    return sorted(candidates, key=lambda c: (-len(c.path), c.frame_id))[: request.max_frames or 3]


def broken(candidates, request):
    raise RuntimeError("told to")


number = 7
"""
POINTS = """[indexer.orderings]
longest = my_orders:longest_path_first
broken = my_orders:broken
number = my_orders:number
absent = my_orders:absent
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that provides orderings, as if installed."""
    (tmp_path / "my_orders.py").write_text(MODULE)
    about = tmp_path / "my_orders-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-orders\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("plugin")
def test_it_decides_what_comes_first_and_what_stays_out(project: Space) -> None:
    found = project.engine.compose(order="longest")
    lengths = [len(item["path"]) for item in found["items"]]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == 3
    assert found["omitted"]["counts"] == {"ordering": 5}
    assert found["request"]["order"] == "longest"
    assert project.engine.compose(order="longest") == found
    made = project.engine.compose(order="longest", record=True)
    assert project.engine.replay(made["manifest_id"])["messages"] == found["messages"]


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", ["broken", "number", "absent", "nowhere"])
def test_one_that_does_not_work_is_told(project: Space, name: str) -> None:
    with pytest.raises(OrderingError, match=name):
        project.engine.compose(order=name)
