"""Composition through a running service: proved when read, recorded by the one writer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import ExitCode, MerkleError
from indexer.service.workspace import Workspace
from tests.support.engines import Engine

Start = Callable[..., Any]
REQUESTS = ({}, {"query": "lantern"}, {"nodes": ["ferry.py"]}, {"budget": 0})


@pytest.fixture
def served(services: Start, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small workspace with a service that has made its frames."""
    for name in ("harbour", "lantern", "ferry"):
        (folder / f"{name}.py").write_text(
            f'"""The {name}."""\n\n\ndef {name}_open(a):\n    pass\n'
        )
    # A function that carries a folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(services.runtime))  # type: ignore[attr-defined]
    services(folder).ready()
    with Workspace.open(folder) as workspace:
        workspace.regenerate()
    return folder


def test_the_same_as_without_a_service(served: Path) -> None:
    with Workspace.open(served) as workspace:
        assert workspace.is_remote
        # Requests from a table.
        there = [workspace.compose(**one) for one in REQUESTS]  # type: ignore[arg-type]
        assert there[1]["items"][0]["path"] == "lantern.py"
        recorded = workspace.compose(query="lantern", record=True)
        assert recorded["recorded"]
        assert workspace.replay(recorded["manifest_id"])["messages"] == there[1]["messages"]
        compiled = workspace.compile([{"kind": "user", "turn": 0, "payload": "hi"}])
        assert compiled["stages"]["RAW"]["event_count"] == 1
        pid = workspace.status()["service"]["pid"]
    os.kill(pid, signal.SIGTERM)
    with Engine(served, wait=30) as engine:
        # Requests from a table.
        here = [engine.compose(**one) for one in REQUESTS]  # type: ignore[arg-type]
    assert here == there


def test_an_edit_is_seen_by_the_next_composition(served: Path) -> None:
    with Workspace.open(served) as workspace:
        for number in range(5):
            (served / "ferry.py").write_text(f"def quarry_{number}(a):\n    pass\n")
            found = workspace.compose(["ferry.py"], sources=["node"])
            (item,) = found["items"]
            # Made again already, or told to be stale: never the old text as if it were new.
            text = found["messages"][0]["content"]
            assert (f"quarry_{number}" in text) == (item["freshness"] == "fresh")
            assert (", stale)" in text) == (item["freshness"] == "stale")
        workspace.regenerate()
        assert workspace.compose(query="quarry")["items"][0]["path"] == "ferry.py"
        assert [i["path"] for i in workspace.compose(query="quarry", paths=["*.py"])["items"]] == [
            "ferry.py"
        ]


def test_readers_and_a_recorder_at_the_same_time_as_edits(served: Path) -> None:
    problems: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            with Workspace.open(served) as workspace:
                for turn in range(8):
                    found = workspace.compose(
                        query="harbour lantern ferry quarry",
                        budget=300,
                        record=number == 0,
                    )
                    assert found["tokens"] <= 300
                    assert found["items"]
                    if number == 0:
                        again = workspace.replay(found["manifest_id"])
                        assert again["messages"] == found["messages"]
                    if number == 1:
                        (served / f"quarry{turn}.py").write_text(
                            f"def quarry_{turn}():\n    pass\n"
                        )
                        (served / "ferry.py").write_text(f"def ferry_{turn}():\n    pass\n")
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    with Workspace.open(served) as workspace:
        workspace.regenerate()
        assert len(workspace.compose(query="quarry", paths=["*.py"])["items"]) == 8
        assert workspace.validate()["errors"] == []


def test_wrong_arguments_are_refused_by_name(served: Path) -> None:
    with Workspace.open(served) as workspace:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("compose", {"budget": -1}), ("compose", {"sources": ["moon"]}),
            ("compose", {"order": "nowhere"}), ("compose", {"query": " "}),
            ("compose", {"budget": "many"}), ("compose", {"moon": 1}), ("replay", {}),
            ("replay", {"manifest": "ffffff"}), ("compile", {"events": {}}),
        ]  # fmt: skip
        for name, wrong in calls:
            with pytest.raises(MerkleError) as refused:
                workspace._operate(name, {"self": workspace, **wrong})
            assert refused.value.exit_code == ExitCode.USAGE


def test_what_was_recorded_through_it_survives_its_end(served: Path) -> None:
    with Workspace.open(served) as workspace:
        shown = workspace.compose(query="harbour", record=True)
        pid = workspace.status()["service"]["pid"]
    os.kill(pid, signal.SIGKILL)
    with Workspace.open(served, wait=30) as workspace:
        assert workspace.replay(shown["manifest_id"])["messages"] == shown["messages"]
    with Engine(served) as engine:
        assert engine.validate()["errors"] == []
