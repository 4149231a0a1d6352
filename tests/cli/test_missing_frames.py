"""An index that was interrupted says how many frames it lacks, wherever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.status import _text
from indexer.mcp.calls import METHODS, Calls
from indexer.service.workspace import Workspace


@pytest.fixture
def interrupted(tmp_path: Path, process: Callable[..., Any]) -> Path:
    """Frames of one folder of two, and none above: 3 of 7, as a pass that was cut off leaves it."""
    root = tmp_path / "interrupted"
    for name in ("one/a.py", "one/b.py", "two/c.py", "two/d.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"def {name[4]}():\n    pass\n")
    assert process("-C", root, "scan").code == 0
    assert process("-C", root, "regenerate", "one", "--recursive").code == 0
    return root


def test_status_doctor_and_compose_tell(interrupted: Path, process: Callable[..., Any]) -> None:
    status = process("-C", interrupted, "status", "--json").json
    assert status["state"] == "current"
    assert (status["frames"]["fresh"], status["frames"]["missing"]) == (3, 4)
    assert status["types"]["outline"]["missing"] == 4
    said = process("-C", interrupted, "status").out
    assert "4 frames not made yet: `merkle regenerate`" in said
    assert "the index is true" not in said
    beside: Any = {**status, "service": {**status["service"], "running": True}}
    assert "4 frames not made yet: the service makes them" in _text(beside, None)
    doctor = process("-C", interrupted, "doctor", "--json")
    line = next(check for check in doctor.json["checks"] if check["name"] == "frames")
    assert (line["state"], line["message"]) == (
        "warn", "4 frames not made yet: `merkle regenerate`",
    )  # fmt: skip
    assert process("-C", interrupted, "compose", "--json").json["missing"] == 4
    assert "4 frames not made yet" in process("-C", interrupted, "compose").out


def test_an_agent_is_told_too(interrupted: Path) -> None:
    # Not through a service, which would make them meanwhile.
    calls = Calls(interrupted, None)
    with Workspace.open(interrupted) as workspace:
        assert METHODS["status"](calls, workspace, {}).head["frames"]["missing"] == 4
        asked = {"query": "a"}
        assert METHODS["search"](calls, workspace, asked).head["missing"] == 4
        assert METHODS["compose"](calls, workspace, asked).head["missing"] == 4


def test_nothing_is_said_once_they_are_made(interrupted: Path, process: Callable[..., Any]) -> None:
    assert process("-C", interrupted, "regenerate", "", "--recursive").code == 0
    status = process("-C", interrupted, "status", "--json").json
    assert status["frames"]["missing"] == 0
    assert status["frames"]["fresh"] == status["frames"]["total"] == 7
    assert "not made" not in process("-C", interrupted, "status").out
    assert process("-C", interrupted, "doctor").code == 0
    assert process("-C", interrupted, "compose", "--json").json["missing"] == 0


def test_a_folder_that_was_never_scanned_lacks_nothing(
    tmp_path: Path, process: Callable[..., Any]
) -> None:
    assert process("-C", tmp_path, "init").code == 0
    assert process("-C", tmp_path, "status", "--json").json["frames"]["missing"] == 0
