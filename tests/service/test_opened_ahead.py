"""What goes on after a scan in any case: its database is opened while others look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import run

PROGRAM = """
import sys
from pathlib import Path
from indexer.engine.owned import Owned
from indexer.scan import shared_walk
from indexer.service import workspace as module
from indexer.service.workspace import Workspace

shared_walk._WORTH = 1
noted = []

class Command(Workspace):
    may_fork = True

load = module._load_ahead

def load_ahead(*given):
    noted.append("ahead")
    load(*given)
    assert {"indexer.engine.tree.scan", "indexer.engine.durable.journal"} <= sys.modules.keys()

module._load_ahead = load_ahead

def once(edit=lambda: None):
    from indexer.engine.make import commands
    from indexer.engine.workspace import Engine

    look, begin = commands.bring_up_to_date, Engine.__init__
    commands.bring_up_to_date = lambda *given: (noted.append("second look"), look(*given))
    Engine.__init__ = lambda *given, **named: (noted.append("opened"), begin(*given, **named))[1]
    try:
        with Command.open(root) as workspace:
            workspace.goes_on_with = "regenerate"
            scanned = workspace.scan()
            with workspace.as_scanned():
                return scanned, workspace.regenerate()
    finally:
        commands.bring_up_to_date, Engine.__init__ = look, begin

root = Path(sys.argv[1])
shared_walk._may_fork = lambda: True
"""

NOTHING_CHANGED = """
scanned, made = once()
assert noted == ["ahead", "opened"], noted
assert not scanned["modified"] and scanned["files"] == 20, scanned
assert made["regenerated"] == 0 and made["unchanged"], made
"""

ONE_EDIT = """
(root / "folder3" / "file.py").write_text("def another(): pass\\n")
scanned, made = once()
assert noted == ["ahead", "opened"], noted
assert scanned["modified"] == 1, scanned
assert made["regenerated"] and not made["failed"], made
"""

NOT_OPENED = """
from indexer.store import database
from indexer.errors import CorruptError

def refuse(*given, **named):
    raise CorruptError("damaged, as it happens", hint="")

connect, database._connect = database._connect, refuse
try:
    once()
except CorruptError as error:
    assert error.message == "damaged, as it happens"
    assert noted[:2] == ["ahead", "opened"], noted
else:
    raise AssertionError("it was opened")
Owned(root, wait=0.0).release()
database._connect = connect
assert once()[0]["files"] == 20
"""


@pytest.mark.parametrize("then", [NOTHING_CHANGED, ONE_EDIT, NOT_OPENED])
def test_it_is_opened_once_and_nothing_is_looked_at_twice(tmp_path: Path, then: str) -> None:
    for number in range(20):
        file = tmp_path / f"folder{number}" / "file.py"
        file.parent.mkdir()
        file.write_text(f"def number{number}(): pass\n")
    assert run(["-P", "-m", "indexer.cli", "-C", str(tmp_path), "watch", "--once"])[0] == 0
    subprocess.run([sys.executable, "-c", PROGRAM + then, str(tmp_path)], check=True)
