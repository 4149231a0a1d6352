"""kill -9 at any moment of any writer: what was acknowledged is there, and nothing half."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.campaign import Tally, sized
from tests.support.engines import Engine
from tests.support.everything import fill
from tests.support.lives import EDITED, LIVE, Said, check, named
from tests.support.processes import REPOSITORY, Forked
from tests.support.service import Service

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

WRITERS = ("scan", "put-frame", "session append", "import", "compact", "regenerate")
KILLS = sized(2, 43)
PACKS = 12


@pytest.fixture
def base() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mkkill"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def root(base: Path) -> Path:
    """A workspace with an agent, a session and every frame."""
    made = base / "w"
    made.mkdir()
    fill(made)
    for path in EDITED:
        (made / path).write_text(named(0))
    with Engine.create(made) as engine:
        engine.scan()
        engine.add_agent("ann", "writer")
        engine.session_new("talk")
        engine.regenerate()
    return made


def make_packs(base: Path) -> dict[str, list[str]]:
    """Packs with notes about the same files, from another workspace; the notes of each."""
    other, folder, packs = base / "other", base / "packs", {}
    folder.mkdir()
    for pack in range(PACKS):
        shutil.rmtree(other, ignore_errors=True)
        other.mkdir()
        fill(other)
        texts = [f"of pack {pack}, {number}" for number in range(20)]
        with Engine.create(other) as engine:
            engine.scan()
            engine.add_agent("bob", "writer")
            for number, text in enumerate(texts):
                engine.put_frame(f"src/p0/m{number % 3 * 3}.py", text, frame_type="note",
                                 agent="bob")  # fmt: skip
            engine.export(folder / f"{pack}.pack")
        packs[f"{pack}.pack"] = texts
    return packs


@pytest.mark.parametrize("writer", WRITERS)
def test_killed_writers(base: Path, root: Path, tally: Callable[[str], Tally], writer: str) -> None:
    row, said = tally(f"kill -9: {writer}"), Said()
    if writer == "import":
        said.packs = make_packs(base)
    for life in range(KILLS):
        chance = random.Random(f"{writer} {life}")
        with Forked(
            [sys.executable, "-c", LIVE, str(root), writer, str(life)], cwd=REPOSITORY, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "ready \n", process.stderr.read()
            # By what was done rather than by time: a busy machine must not make it a start only.
            lines = [process.stdout.readline().rstrip("\n") for _ in range(chance.randrange(9))]
            time.sleep(chance.uniform(0, 0.3))
            ended = process.poll()
            process.kill()
            # A line without its end was not said.
            lines += process.stdout.read().split("\n")[:-1]
            error = process.stderr.read()
        if ended is not None or "Traceback" in error:
            row.fail("tracebacks", f"{writer} {life} ended by itself: {error[-1500:]}")
        row.runs += 1
        row.count("acknowledged", said.take(lines))
        check(root, said, row, f"{writer}, life {life}")


def test_killed_services(root: Path, tally: Callable[[str], Tally], runtime_dir: Path) -> None:
    row, said = tally("kill -9: watch"), Said()
    for life in range(KILLS):
        chance = random.Random(life)
        service = Service(root, runtime_dir, {})
        try:
            client = service.client
            for number in range(chance.randrange(9)):
                (root / chance.choice(EDITED)).write_text(named(chance.randrange(10**9)))
                text = f"watch {life} {number}"
                note = {"node": chance.choice(EDITED), "content": text, "frame_type": "note"}
                client.post("/v1/put-frame", {**note, "agent": "ann"})
                row.count("acknowledged", said.take([f"note {text}"]))
                if chance.random() < 0.5:
                    root_id = client.get("/v1/status")["root"]
                    row.count("acknowledged", said.take([f"root {root_id}"]))
            (root / chance.choice(EDITED)).write_text(named(chance.randrange(10**9)))
            time.sleep(chance.uniform(0, 0.1))
        finally:
            service.kill()
        row.runs += 1
        if "Traceback" in service.output():
            row.fail("tracebacks", service.output()[-1500:])
        check(root, said, row, f"watch, life {life}")
