"""No room, no writing, no watches: nothing acknowledged is lost, nothing is fresh unseen."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.errors import MerkleError
from tests.support.campaign import Tally, merkle, sized
from tests.support.engines import Engine
from tests.support.everything import fill
from tests.support.lives import EDITED, Said, check, named
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ROUNDS = sized(2, 20)
SOON = "import indexer.service.writing_thread as w; w.DEGRADED_POLL = 0.2\n"
NO_WATCHES = (
    "indexer.watch.inotify.InotifyWatcher.add = lambda self, path: self._unwatched.add(path)\n"
)
READS = (
    ("status",), ("log",), ("validate",), ("get-node", EDITED[0]), ("list-frames", EDITED[0]),
    ("explain", EDITED[0]), ("compose", EDITED[0]), ("sql", "SELECT count(*) FROM nodes"),
)  # fmt: skip


@pytest.fixture
def root() -> Iterator[Path]:
    """A workspace on a small file system of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mkm", dir="/tmp"))
    told = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "tmpfs", folder],
        capture_output=True, text=True,
    )  # fmt: skip
    if told.returncode:
        folder.rmdir()
        pytest.skip(f"nothing can be mounted here: {told.stderr.strip()}")
    made = folder / "w"
    made.mkdir()
    fill(made)
    for path in EDITED:
        (made / path).write_text(named(0))
    with Engine.create(made) as engine:
        engine.scan()
        engine.add_agent("ann", "writer")
        engine.session_new("talk")
        engine.regenerate()
    yield made
    subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()


def fill_up(root: Path) -> Path:
    """Take all the room that is left beside a workspace."""
    path = root.parent / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return path


def edit(root: Path, edition: int) -> None:
    """In place and no longer: there may be no room for more."""
    with (root / EDITED[0]).open("r+") as file:
        file.write(named(edition % 10))


def write_some(service: Service, said: Said, row: Tally, texts: list[str]) -> None:
    """Notes, of which those count that were acknowledged."""
    for text in texts:
        try:
            note = {"node": EDITED[1], "content": text, "frame_type": "note", "agent": "ann"}
            service.client.post("/v1/put-frame", note)
            row.count("acknowledged", said.take([f"note {text}"]))
        except MerkleError:
            row.told["refused"] += 1


def test_a_full_disk(root: Path, tally: Callable[[str], Tally], runtime_dir: Path) -> None:
    row, said = tally("full disk"), Said()
    service = Service(root, runtime_dir, {"inject": SOON}).ready()
    try:
        for number in range(ROUNDS):
            chance = random.Random(number)
            row.runs += 1
            write_some(service, said, row, [f"before {number}"])
            filler = fill_up(root)
            edit(root, number)
            long = "x" * chance.randrange(1, 50_000)
            write_some(service, said, row, [f"full {number} {part} {long}" for part in range(3)])
            if not service.is_running():
                row.fail("ended", service.output()[-1500:])
                return
            filler.unlink()
            wait_until(lambda: service.health()["state"] == "watching", "it is well again")
            write_some(service, said, row, [f"after {number}"])
            service.converges()
        service.stop()
        if "Traceback" in service.output():
            row.fail("tracebacks", service.output()[-1500:])
    finally:
        service.kill()
    check(root, said, row, "after a full disk")


def test_a_read_only_medium(root: Path, tally: Callable[[str], Tally]) -> None:
    row = tally("read-only")
    remount = ["mount", "-o", "remount,ro", root.parent]
    subprocess.run(remount, check=True)
    for _ in range(ROUNDS):
        for arguments in READS:
            row.runs += 1
            ran = row.saw(merkle(root, "--json", *arguments), " ".join(arguments))
            row.told[f"exit {ran.code}"] += 1
            if ran.code != 0:
                row.fail("unread", f"{arguments}: {ran.out[-500:]}")
        for arguments in (("scan", "--force"), ("invalidate", EDITED[0])):
            row.runs += 1
            ran = row.saw(merkle(root, "--json", *arguments), " ".join(arguments))
            row.told["refused"] += ran.code == 3
            if ran.code != 3:
                row.fail("acknowledged there", f"{arguments}: {ran.code}")


def test_lost_watches(tally: Callable[[str], Tally], runtime_dir: Path) -> None:
    row, base = tally("lost watches"), Path(tempfile.mkdtemp(prefix="mkwatch"))
    root = base / "w"
    root.mkdir()
    fill(root)
    for path in EDITED:
        (root / path).write_text(named(0))
    service = Service(root, runtime_dir, {"inject": NO_WATCHES}).ready()
    try:
        client = service.client
        for number in range(1, sized(20, 300) + 1):
            row.runs += 1
            path = EDITED[number % len(EDITED)]
            (root / path).write_text(named(number))
            for node in (path, path.rpartition("/")[0]):
                for one in client.post("/v1/get-node", {"node": node})["frames"]:
                    row.told[one["freshness"]] += 1
                    if one["freshness"] == "fresh" and f"edition_{number}" not in one["content"]:
                        row.fail("stale as fresh", f"{node!r} in round {number}")
            if client.get("/v1/status")["state"] == "current":
                row.fail("stale as fresh", "a status that did not look says current")
        service.stop()
        if "Traceback" in service.output():
            row.fail("tracebacks", service.output()[-1500:])
    finally:
        service.kill()
        shutil.rmtree(base, ignore_errors=True)
