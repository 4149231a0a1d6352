"""Postings that a service makes behind the frames: unasked, and never missing in an answer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.service.workspace import Workspace
from tests.support.engines import Engine
from tests.support.waiting import wait_until

Start = Callable[..., Any]

LATER = """
import indexer.engine.frames.heads, indexer.store.postings
indexer.engine.frames.heads.AT_ONCE = 0
indexer.store.postings.TOGETHER = 7
"""
"""Everything is indexed afterwards, in many small portions."""

NEVER_BY_ITSELF = f"""{LATER}
import indexer.service.maintainer
indexer.service.maintainer.Maintainer._index_for_search = lambda self: None
"""

LEFT = "SELECT count(*) FROM bodies WHERE length IS NULL"
WORDS = ("harbour", "lantern", "ferry", "quarry", "orchard", "granary")


@pytest.fixture
def filled(services: Start, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a few folders of modules."""
    # A function that carries a folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(services.runtime))  # type: ignore[attr-defined]
    for word in WORDS:
        _write(folder, word, range(6))
    return folder


def _write(folder: Path, word: str, numbers: range) -> None:
    (folder / word).mkdir(exist_ok=True)
    for number in numbers:
        text = f'"""The {word}."""\n\n\ndef {word}_{number}(a):\n    pass\n'
        (folder / word / f"{word}_{number}.py").write_text(text)


def _left(workspace: Workspace) -> int:
    return int(workspace.sql(LEFT)["rows"][0][0])


def test_a_service_makes_them_when_the_frames_are_made(services: Start, filled: Path) -> None:
    services(filled, inject=LATER).ready()
    with Workspace.open(filled) as workspace:
        wait_until(lambda: workspace.status()["frames"]["fresh"] >= 36, "frames are made")
        wait_until(lambda: _left(workspace) == 0, "nothing is left to index")
        # Notes of agents, which come with no batch of the tree, are indexed as well.
        workspace.agent_add("ann", "writer")
        workspace.put_frame("ferry", "mind the sluice", frame_type="note", agent="ann")
        wait_until(lambda: _left(workspace) == 0, "the note is indexed")
        assert workspace.validate()["errors"] == []


def test_a_question_does_not_miss_what_is_not_indexed_yet(services: Start, filled: Path) -> None:
    service = services(filled, inject=NEVER_BY_ITSELF)
    service.ready()
    with Workspace.open(filled) as workspace:
        wait_until(lambda: workspace.status()["frames"]["fresh"] >= 36, "frames are made")
        # What generators make is indexed by those who make it; this is not.
        workspace.agent_add("ann", "writer")
        workspace.put_frame("ferry", "mind the sluice", frame_type="note", agent="ann")
        assert _left(workspace) > 0
        assert workspace.compose(query="sluice")["items"][0]["path"] == "ferry"
        there = [workspace.compose(query=word) for word in WORDS]
        assert _left(workspace) == 0
        assert all(
            one["items"][0]["path"].startswith(word) for one, word in zip(there, WORDS, strict=True)
        )
        assert workspace.validate()["errors"] == []
    service.stop()
    with Engine(filled, wait=30) as engine:
        assert [engine.compose(query=word) for word in WORDS] == there


def test_questions_while_more_is_stored(services: Start, filled: Path) -> None:
    services(filled, inject=LATER).ready()
    problems: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            with Workspace.open(filled) as workspace:
                while not done.is_set():
                    found = workspace.compose(query="harbour", max_frames=3)
                    assert found["items"][0]["path"].startswith("harbour")
        except BaseException as error:
            problems.append(error)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    with Workspace.open(filled) as workspace:
        workspace.regenerate()
        for asker in askers:
            asker.start()
        for start in range(6, 30, 6):
            for word in WORDS[1:]:
                _write(filled, word, range(start, start + 6))
            workspace.regenerate()
        done.set()
        for asker in askers:
            asker.join()
        assert problems == []
        there = workspace.compose(query="lantern granary")
        assert workspace.validate()["errors"] == []
        pid = workspace.status()["service"]["pid"]
    os.kill(pid, signal.SIGTERM)
    with Engine(filled, wait=30) as engine:
        assert engine.compose(query="lantern granary") == there


def test_a_kill_before_they_are_made_loses_nothing(services: Start, filled: Path) -> None:
    service = services(filled, inject=NEVER_BY_ITSELF)
    service.ready()
    with Workspace.open(filled) as workspace:
        wait_until(lambda: workspace.status()["frames"]["fresh"] >= 36, "frames are made")
        # What generators make is indexed by those who make it; this is not.
        workspace.agent_add("ann", "writer")
        workspace.put_frame("ferry", "mind the sluice", frame_type="note", agent="ann")
        assert _left(workspace) > 0
    service.kill()
    with Engine(filled, wait=30) as engine:
        assert engine.frames.heads.unindexed > 0
        assert engine.validate()["errors"] == []
        assert engine.compose(query="orchard")["items"][0]["path"].startswith("orchard")
        assert engine.frames.heads.unindexed == 0
        assert engine.validate()["errors"] == []
