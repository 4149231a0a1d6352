"""Random edits and reads through a service and commands: what is called fresh was looked at.

Files change in place, by renaming, under another name (hard links), with their times restored, as
links that are swapped, and below a bind mount. After every edit something is read, and each label
is compared with what is on disk at that moment.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.hashing import workspace_hash
from indexer.errors import MerkleError
from tests.support.campaign import Tally, merkle, sized
from tests.support.engines import Engine
from tests.support.lives import named
from tests.support.service import Service

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PARTS = 3
ROUNDS = sized(40, 1000)
FILES = tuple(f"src/p{number % 3}/m{number}.py" for number in range(9))


class Place:
    """A workspace with other ways into it, and the ways in which its files change."""

    def __init__(self, base: Path, chance: random.Random) -> None:
        self.root, self.outside, self.mounted = base / "w", base / "outside", base / "mounted"
        self._chance = chance
        self._edition = 10_000
        self.is_mounted = False
        self.root.mkdir()
        for folder in (self.outside, self.mounted, self.root / "bound"):
            folder.mkdir()
        for path in FILES:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(self.text())
        (self.root / "a").write_text(self.text())
        (self.root / "b").write_text(self.text())
        (self.root / "link").symlink_to("a")
        (self.mounted / "m.py").write_text(self.text())
        bound = subprocess.run(
            ["mount", "--bind", self.mounted, self.root / "bound"], capture_output=True
        )
        self.is_mounted = bound.returncode == 0
        for number, path in enumerate(FILES[:3]):
            os.link(self.root / path, self.outside / str(number))

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", self.root / "bound"], capture_output=True, check=False)

    def text(self) -> str:
        self._edition += 1
        return named(self._edition)

    @property
    def files(self) -> tuple[str, ...]:
        return (*FILES, "bound/m.py") if self.is_mounted else FILES

    def edit(self) -> str:
        """Change something, in one of the ways; which."""
        ways = [self._in_place, self._renamed, self._other_name, self._old_times, self._swapped]
        way = self._chance.choice([*ways, self._mounted] if self.is_mounted else ways)
        way()
        return way.__name__

    def _in_place(self) -> None:
        (self.root / self._chance.choice(FILES)).write_text(self.text())

    def _renamed(self) -> None:
        target = self.root / self._chance.choice(FILES[3:])
        beside = target.with_suffix(".new")
        beside.write_text(self.text())
        os.replace(beside, target)

    def _other_name(self) -> None:
        (self.outside / self._chance.choice("012")).write_text(self.text())

    def _old_times(self) -> None:
        """Mostly the same size, and the same times: only ctime tells."""
        target = self.root / self._chance.choice(FILES)
        stat = target.stat()
        target.write_text(self.text())
        os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def _swapped(self) -> None:
        beside = self.root / "link.new"
        beside.symlink_to("b" if os.readlink(self.root / "link") == "a" else "a")
        os.replace(beside, self.root / "link")

    def _mounted(self) -> None:
        (self.mounted / "m.py").write_text(self.text())


@pytest.fixture
def place() -> Iterator[Place]:
    base = Path(tempfile.mkdtemp(prefix="mkinter"))
    made = Place(base, random.Random(0))
    yield made
    made.close()
    shutil.rmtree(base, ignore_errors=True)


def edition(path: Path) -> str:
    return path.read_text().partition("(")[0].removeprefix("def ")


def read(place: Place, client: Any, chance: random.Random, row: Tally, after: str) -> None:
    """Read one file in one way, and compare every label with the disk."""
    path = chance.choice(place.files)
    kind = chance.randrange(5)
    if kind == 4:
        ran = row.saw(merkle(place.root, "--json", "get-node", path, "--type", "outline"), after)
        frames = ran.json["frames"] if ran.code == 0 else []
    elif kind == 3:
        composed = client.post("/v1/compose", {"nodes": [path]})
        frames = [one for one in composed["items"] if one["path"] == path]
    elif kind == 2:
        frames = client.post("/v1/get-head", {"node": path})["heads"]
    elif kind == 1:
        frames = client.post("/v1/list-frames", {"node": path, "limit": 1})["frames"]
    else:
        frames = client.post("/v1/get-node", {"node": path})["frames"]
    row.count("reads")
    now = edition(place.root / path)
    for one in frames:
        if one["freshness"] == "fresh":
            row.count("fresh")
            said = client.post("/v1/get-frame", {"frame": one["frame_id"]})["content"]
            if now not in said:
                row.fail("stale as fresh", f"{path} by read {kind} after {after}")


def read_status(place: Place, client: Any, row: Tally, after: str) -> None:
    """What `current` says of the tree must be what a scan from nothing finds."""
    status = client.get("/v1/status")
    row.count("reads")
    if status["state"] == "current":
        row.count("fresh")
        for path in place.files:
            told = client.post("/v1/get-node", {"node": path})["content_id"]
            actual = workspace_hash("xxh3_128").of_file((place.root / path).read_bytes()).hex()
            if told != actual:
                row.fail("stale as fresh", f"{path} under a current status after {after}")


@pytest.mark.parametrize("part", range(PARTS))
def test_edits_and_reads(
    place: Place, tally: Callable[[str], Tally], runtime_dir: Path, part: int
) -> None:
    row, chance = tally("edits and reads"), random.Random(part)
    place._chance = chance
    with Engine.create(place.root) as engine:
        engine.scan()
        engine.regenerate()
    service = Service(place.root, runtime_dir, {}).ready()
    try:
        client = service.client
        for _ in range(ROUNDS):
            row.runs += 1
            after = place.edit()
            row.told[after.strip("_").replace("_", " ")] += 1
            try:
                if chance.random() < 0.15:
                    read_status(place, client, row, after)
                else:
                    read(place, client, chance, row, after)
            except MerkleError as error:
                row.fail("refused", f"after {after}: {error.message}")
            if chance.random() < 0.02:
                # Another service goes on where this one ended.
                service.stop()
                with contextlib.suppress(MerkleError):
                    row.saw(merkle(place.root, "--json", "status"), "status without a service")
                service = Service(place.root, runtime_dir, {}).ready()
                client = service.client
        if service.converges()["state"] != "current":
            row.fail("refused", "it does not converge")
        if "Traceback" in service.output():
            row.fail("tracebacks", service.output()[-1500:])
    finally:
        service.kill()
