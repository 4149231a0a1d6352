"""The same candidates, statistics, request and tokenizer give the same messages, anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.core.fence import unfenced
from tests.support.space import Space, python

REPOSITORY = Path(__file__).resolve().parents[3]
REQUESTS: list[dict[str, Any]] = [
    {}, {"query": "where is python told"}, {"nodes": ["src/one/a.py"]}, {"order": "type"},
    {"query": "python outline b", "nodes": ["src/two"]}, {"order": "agent", "budget": 150},
]  # fmt: skip
_RUN = """
import json, sys
from tests.support.engines import Engine
from pathlib import Path
with Engine(Path(sys.argv[1])) as engine:
    print(json.dumps([engine.compose(**one) for one in json.loads(sys.argv[2])]))
"""


@pytest.mark.parametrize("seeds", [("0", "1"), pytest.param(("4242",), marks=pytest.mark.soak)])
def test_across_processes_and_hash_seeds(project: Space, seeds: tuple[str, ...]) -> None:
    project.note("src/one/a.py", "returns what it is told")
    here = [project.engine.compose(**one) for one in REQUESTS]
    project.engine.close()
    for seed in seeds:
        environment = {
            **os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY),
            "TZ": "Asia/Tokyo" if seed == "1" else "UTC", "LC_ALL": "C",
        }  # fmt: skip
        ran = subprocess.run(
            [sys.executable, "-c", _RUN, str(project.root), json.dumps(REQUESTS)],
            env=environment, capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        assert json.loads(ran.stdout) == here


def test_in_a_clone_with_the_same_history(project: Space) -> None:
    other = Space()
    try:
        files = ("README.md", "src/one/a.py", "src/one/b.py", "src/two/c.py")
        other.fill({path: (project.root / path).read_text() for path in files})
        other.settle()
        for one in REQUESTS:
            assert other.engine.compose(**one) == project.engine.compose(**one)
    finally:
        other.close()


def test_results_do_not_depend_on_history(project: Space) -> None:
    """Bodies that no head points to count for nothing: not in df, not in the average length."""
    before = [project.engine.compose(query=q) for q in ("python outline", "wanderer")]
    for number in range(5):
        project.write("src/one/a.py", python("a", doc=f"A wanderer {number} that does return."))
        project.settle()
    (project.root / "src/new.py").write_text(python("wanderer"))
    project.settle()
    (project.root / "src/new.py").unlink()
    project.write("src/one/a.py", python("a"))
    project.settle()
    after = [project.engine.compose(query=q) for q in ("python outline", "wanderer")]
    assert after == before


@pytest.mark.parametrize("order", ["recency", "type", "agent", None])
def test_an_unrelated_file_changes_no_message(project: Space, order: str | None) -> None:
    request: dict[str, Any] = {
        "nodes": ["src/one/a.py"], "sources": ["node", "siblings"], "order": order,
    }  # fmt: skip
    before = project.engine.compose(**request)
    project.write("docs/unrelated.md", "# Something else\n\nThat does it, and returns.\n")
    project.settle()
    after = project.engine.compose(**request)
    assert after["messages"] == before["messages"]
    assert after["candidates_sha256"] == before["candidates_sha256"]
    assert after["items"] == before["items"]
    assert after["root"] != before["root"]
    assert after["manifest_id"] != before["manifest_id"]


def test_under_relevance_an_unrelated_file_changes_only_the_statistics(project: Space) -> None:
    request: dict[str, Any] = {"query": "python", "paths": ["src/one"]}
    before = project.engine.compose(**request)
    project.write("docs/unrelated.md", "# Something else\n")
    project.settle()
    after = project.engine.compose(**request)
    assert [i["frame_id"] for i in after["items"]] == [i["frame_id"] for i in before["items"]]
    assert after["messages"] == before["messages"]


def test_the_beginning_stays_when_something_late_changes(project: Space) -> None:
    """What changes goes to the end, so that everything before its old place is as it was."""
    for number in range(6):
        project.write(f"src/one/m{number}.py", python(f"m{number}"))
        project.settle()

    def texts() -> list[str]:
        shown = project.engine.compose(paths=["*.py"])["messages"]
        return [unfenced(one["content"]) for one in shown]

    before = texts()
    project.write("src/one/m4.py", python("m4", doc="Something new."))
    project.settle()
    after = texts()
    place = next(i for i, text in enumerate(before) if text.startswith("src/one/m4.py"))
    assert place >= 5
    assert after[:place] == before[:place]
    assert after[-1].startswith("src/one/m4.py")
    assert len(after) == len(before)
    # Edited again, it is already last: all of the others stay.
    project.write("src/one/m4.py", python("m4", doc="Something newer."))
    project.settle()
    assert texts()[:-1] == after[:-1]
