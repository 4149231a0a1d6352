"""Writers that are killed at any moment, and what must be there afterwards.

A life is one process that writes and says what was acknowledged to it. What it said is kept, and
compared with what the index has after its death.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.campaign import Ran, Tally, run_python

EDITED = tuple(f"src/p{number % 3}/m{number}.py" for number in range(6))
"""The files that writers change; each has one function whose name says which edition it is."""

LIVE = """
import random, sys, time
from pathlib import Path
from indexer import Workspace
from indexer.errors import LockedError
from tests.support.lives import EDITED, named

root, writer, chance = Path(sys.argv[1]), sys.argv[2], random.Random(sys.argv[3])
number = 0

def said(kind, what):
    print(kind, what, flush=True)

def text():
    global number
    number += 1
    return f"{writer} {sys.argv[3]} {number}"

def edit():
    (root / chance.choice(EDITED)).write_text(named(chance.randrange(10**9)))

def scan(workspace):
    edit()
    said("root", workspace.scan()["root"])

def note(workspace):
    told = text()
    workspace.put_frame(chance.choice(EDITED), told, frame_type="note", agent="ann")
    said("note", told)

def append(workspace):
    told = text()
    workspace.session_append("talk", type="dialogue", role="user", text=told)
    said("word", told)
    if chance.random() < 0.3:
        workspace.session_commit("talk")

def bring_in(workspace):
    pack = chance.choice(sorted((root.parent / "packs").iterdir()))
    workspace.import_(pack)
    said("pack", pack.name)

def compact(workspace):
    scan(workspace)
    workspace.compact()
    note(workspace)

def regenerate(workspace):
    scan(workspace)
    workspace.regenerate()
    note(workspace)

step = {"scan": scan, "put-frame": note, "session append": append, "import": bring_in,
        "compact": compact, "regenerate": regenerate}[writer]
said("ready", "")
while True:
    # As commands do it: a start, then opened and closed, for one thing or for several.
    time.sleep(chance.uniform(0.02, 0.1))
    try:
        with Workspace.open(root) as workspace:
            for _ in range(chance.choice([1, 1, 3])):
                step(workspace)
    except LockedError:
        said("locked", "")
"""

LOOK = """
import json, sys
from pathlib import Path
from indexer import Workspace
from tests.support.lives import EDITED

with Workspace.open(Path(sys.argv[1])) as workspace:
    found = {"valid": workspace.validate()}
    found["roots"] = [each["root"] for each in workspace.log(1_000_000)["roots"]]
    found["lost"] = workspace.status()["lost"]
    found["notes"] = [row[0] for row in workspace.sql(
        "SELECT b.content FROM frame_log f JOIN bodies b ON b.sha256 = f.content"
        " WHERE f.agent NOT LIKE 'merkle:%'", limit=1_000_000)["rows"]]
    found["words"] = [row[0] for row in workspace.sql(
        "SELECT content FROM session_blobs", limit=1_000_000)["rows"]]
    found["shown"] = {
        path: [(one["freshness"], one["content"])
               for one in workspace.get_node(path, frame_type="outline")["frames"]]
        for path in EDITED
    }
print(json.dumps(found))
"""


def named(edition: int) -> str:
    """A module that says which edition it is, in its outline too."""
    return f'def edition_{edition}():\n    """Of {edition}."""\n'


@dataclass
class Said:
    """What was acknowledged over several lives."""

    roots: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    packs: dict[str, list[str]] = field(default_factory=dict)
    """The notes that each pack has."""

    def take(self, lines: list[str]) -> int:
        """What one life said; how much of it was acknowledged."""
        for line in lines:
            kind, _, what = line.partition(" ")
            if kind == "root":
                self.roots.add(what)
            elif kind == "note":
                self.notes.add(what)
            elif kind == "word":
                self.words.add(what)
            elif kind == "pack":
                self.notes.update(self.packs[what])
        return sum(not line.startswith(("ready", "locked")) for line in lines)

    @property
    def total(self) -> int:
        return len(self.roots) + len(self.notes) + len(self.words)


def look(root: Path) -> Ran:
    """What an index has, by a process of its own."""
    return run_python([sys.executable, "-c", LOOK, root])


def check(root: Path, said: Said, row: Tally, when: str) -> dict[str, Any]:
    """Everything acknowledged is there, every invariant holds, and no label is wrong."""
    ran = row.saw(look(root), when)
    if ran.code != 0:
        row.fail("unopened", f"{when}: exit {ran.code}: {ran.err[-1500:]}")
        return {}
    found: dict[str, Any] = json.loads(ran.out)
    for problem in found["valid"]["errors"]:
        row.fail("invalid", f"{when}: {problem}")
    words = {json.loads(each).get("text") for each in found["words"]}
    for name, wanted, there in (
        ("roots", said.roots, set(found["roots"])),
        ("notes", said.notes, set(found["notes"])),
        ("words", said.words, words),
    ):
        if missing := wanted - there:
            row.fail("lost", f"{when}: {len(missing)} {name}, such as {min(missing)}")
    if found["lost"]:
        row.fail("lost", f"{when}: {found['lost']}")
    for path, shown in found["shown"].items():
        text = (root / path).read_text()
        for freshness, content in shown:
            if freshness == "fresh" and text.partition("(")[0].removeprefix("def ") not in content:
                row.fail("stale as fresh", f"{when}: {path}")
    return found
