"""Long work tells how far it is, and a bar shows that, in a terminal and through a service."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from indexer.cli import progress as bars
from indexer.cli.options import Globals
from indexer.cli.progress import bar, bar_line
from indexer.core.progress import Meter, Reading
from indexer.engine.frames import heads as shelf
from indexer.engine.team import exchange as sharing
from indexer.service.workspace import Workspace
from indexer.store import postings


def five_files(root: Path) -> Path:
    root.mkdir()
    for number in range(5):
        (root / f"m{number}.py").write_text(f"def f{number}(): ...\n")
    return root


def test_regenerate_tells_how_many_frames_are_done(tmp_path: Path) -> None:
    root = five_files(tmp_path / "workspace")
    done: list[int] = []
    with Workspace.open(root) as workspace:
        workspace.scan()
        made = workspace.regenerate(progress=done.append)
        assert sum(done) == made["regenerated"] + made["reused"] == 6
        (root / "m0.py").write_text("def g(): ...\n")
        done.clear()
        workspace.synthesize("", frame_type="outline", progress=done.append)
        assert sum(done) == 2


def test_in_a_team_it_tells_of_every_portion_and_of_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", f"sqlite:///{tmp_path}/team.sqlite")
    monkeypatch.setattr(sharing, "PORTION", 2)
    told = {}
    for clone in ("first", "second"):
        root = five_files(tmp_path / clone)
        done: list[int] = []
        with Workspace.open(root) as workspace:
            workspace.scan()
            workspace.regenerate(progress=done.append)
        told[clone] = done
    assert sum(told["first"]) == sum(told["second"]) == 6
    assert len(told["first"]) > len(told["second"]) == 1


def test_the_first_question_tells_how_many_texts_it_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "AT_ONCE", 3)
    monkeypatch.setattr(postings, "TOGETHER", 4)
    for number in range(5):
        (tmp_path / f"m{number}.py").write_text(f"def f{number}(): ...\n")
    done: list[int] = []
    with Workspace.open(tmp_path) as workspace:
        workspace.scan()
        # What generators make is indexed by those who make it; notes that come together are not.
        workspace.regenerate()
        workspace.agent_add("ann", "writer")
        workspace.put_frames(
            [
                {"node": "m0.py", "content": f"word{n}", "type": "note", "agent": "ann"}
                for n in range(6)
            ]
        )
        # Without a question nothing needs to be indexed.
        assert workspace.compose(progress=done.append)["items"]
        assert done == []
        assert workspace.compose(query="f3", progress=done.append)["items"][0]["path"] == "m3.py"
        assert done == [4, 2]
        workspace.compose(query="f3", progress=done.append)
        assert done == [4, 2]


class Stages(Meter):
    """A meter that remembers each piece of work, with how much of it was done at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.past: list[Reading] = []

    def begin(self, doing: str, what: str = "", total: int | None = None, done: int = 0) -> None:
        self.past.append(self.read())
        super().begin(doing, what, total, done)

    def counted(self) -> dict[str, tuple[int, int | None]]:
        """How many of how many, of everything that was counted."""
        return {one.doing: (one.done, one.total) for one in [*self.past, self.read()] if one.what}


@pytest.fixture
def five(tmp_path: Path) -> Path:
    root = tmp_path / "five"
    root.mkdir()
    for number in range(5):
        (root / f"m{number}.py").write_text(f"def f{number}(): ...\n")
    return root


def test_each_work_says_what_it_counts_and_how_many_there_are(five: Path) -> None:
    with Workspace.open(five) as workspace:
        stages = Stages()
        workspace.scan(progress=stages)
        # How much there is in a folder that nobody has looked at is known at the end.
        assert stages.counted() == {"scanning": (5, None)}

        workspace.regenerate(progress=stages)
        assert stages.counted()["making frames (outline)"] == (6, 6)

        stages = Stages()
        workspace.scan(progress=stages)
        assert stages.counted() == {"scanning": (5, 6)}

        workspace.validate(content=True, progress=stages)
        assert stages.counted()["reading every file again"] == (5, 6)
        assert stages.counted()["checking symbols and words"] == (5, 5)

        workspace.validate(subset=(1, 1), progress=stages)
        assert stages.counted()["reading files again"] == (5, 5)

        workspace.lock(progress=stages)
        assert stages.read().doing == "writing merkle.lock"

        pack = five.parent / "five.pack"
        workspace.export(pack, progress=stages)
        assert stages.counted()["writing computed results"] == (6, 6)

        workspace.compact(progress=stages)
        forgotten, written = stages.past[-1], stages.read()
        assert (forgotten.doing, forgotten.what) == ("forgetting what is old", "steps")
        assert forgotten.done == forgotten.total
        assert (written.doing, written.what) == ("writing the index anew", "rows")
        assert written.done == written.total
        # Of every file and folder a node, a frame and a head, at least.
        assert written.done > 3 * 6

        workspace.status(progress=stages)
        workspace.report(progress=stages)
        assert stages.read().doing == "comparing"
    with Workspace.open(five.parent / "five") as workspace:
        workspace.import_(pack, trust=True, progress=stages)
        assert stages.counted()["checking the pack"] == (6, None)


@pytest.mark.parametrize(
    ("reading", "shown"),
    [
        (Reading(), "waiting  0:00"),
        (Reading("comparing", seconds=61.2), "comparing  1:01"),
        (Reading("scanning", "entries", 50, None, 2.0), "scanning  50 entries  25/s  0:02"),
        (
            Reading("making frames", "frames", 1000, 4000, 10.0),
            "making frames  ━━━━━━━───────────────────────  1,000 of 4,000 frames  100/s"
            "  0:10, 0:30 left",
        ),
        (
            Reading("writing", "records", 2, 2, 3700.0),
            "writing  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  2 of 2 records  0/s  1:01:40, 0:00 left",
        ),
        (Reading("bad \x1b[2J name"), "bad \\x1b[2J name  0:00"),
    ],
)
def test_a_bar_has_a_total_a_rate_and_an_end(
    reading: Reading, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert bar_line(reading, 110) == shown


def test_a_bar_never_breaks_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    reading = Reading("making frames (outline)", "frames", 1000, 4000, 10.0)
    for columns in range(10, 120):
        assert len(bar_line(reading, columns)) <= columns
    assert bar_line(reading, 45) == "making frames (outline)  1,000 of 4,000 frame"


def test_what_came_since_it_was_counted_makes_the_total_more() -> None:
    meter = Meter()
    meter.begin("scanning", "entries", 5)
    meter(3)
    meter(4)
    assert meter.read()[:4] == ("scanning", "entries", 7, 7)
    meter.end()
    assert not meter.read().doing


def test_nothing_is_drawn_where_nobody_looks_or_wants_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bars, "PATIENCE", 0)
    with bar(Globals()) as meter:
        assert meter is None
    monkeypatch.setattr(bars, "is_terminal", lambda: True)
    with bar(Globals(quiet=True)) as meter:
        assert meter is None
    monkeypatch.setattr(bars, "PATIENCE", 1000)
    with bar(Globals()) as meter:
        assert meter is not None
    assert capsys.readouterr().err == ""


IN_A_TERMINAL = """
import sys, threading
from indexer.cli import progress
from indexer.scan.walk import Walker

drawn = threading.Event()
walk, line = Walker.walk, progress.bar_line

def shown(reading, columns):
    if reading.doing == "scanning":
        drawn.set()
    return line(reading, columns)

def slowly(self):
    assert drawn.wait(60)
    return walk(self)

Walker.walk, progress.bar_line, progress.PATIENCE, progress._EVERY = slowly, shown, 0, 0.01
from indexer.cli.main import main
sys.argv[1:1] = ["-C", sys.argv.pop(), "scan"]
main()
"""


def test_in_a_terminal_a_command_draws_its_bar_and_takes_it_away(five: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", IN_A_TERMINAL, str(five)])
    shown = bytearray()
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            # Linux says so where the other end is closed.
            break
        shown += piece
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0, shown
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert "\r\x1b[Kscanning  0 entries" in text
    # The line is empty again before the result is printed.
    assert re.search(r"\r\x1b\[Kroot {5}[0-9a-f]{32}", text)


def test_a_scan_tells_how_many_notes_it_carried_along(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "old.txt").write_text("what the note is about\n")
    with Workspace.open(root) as workspace:
        assert workspace.scan()["carried"] == 0
        workspace.agent_add("reviewer", "writer")
        workspace.put_frame("old.txt", "worth reading", frame_type="note", agent="reviewer")
        (root / "old.txt").rename(root / "new.txt")
        assert workspace.scan()["carried"] == 1
        assert workspace.get_node("new.txt")["frames"][0]["content"] == "worth reading"
