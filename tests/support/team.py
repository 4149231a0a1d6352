"""Members of a team: workspaces with the same files, and a generator that notes its runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked
from tests.support.space import empty_workspace

_MODULE = """
import os, time

def note(what):
    # One short append: several processes may do so at once.
    with open(os.environ["COUNTED_RUNS"], "ab", buffering=0) as runs:
        runs.write(what.encode("unicode_escape") + b"\\n")
    time.sleep(float(os.environ.get("COUNTED_PAUSE", "0")))

class Upper:
    name = "upper"
    version = "1"

    def __init__(self, options):
        pass

    def fingerprint_parts(self):
        return (("name", self.name), ("version", "1"))

    def generate(self, source):
        note("file " + source.name + " " + source.content.decode())
        return source.content.decode().upper()

class Join:
    name = "join"
    version = "1"

    def __init__(self, options):
        pass

    def fingerprint_parts(self):
        return (("name", self.name), ("version", "1"))

    def synthesize(self, children):
        text = "|".join(f"{child.name}={child.body}" for child in children)
        note("folder " + text)
        return text
"""
_ENTRIES = "[indexer.generators]\nupper = counted_runs:Upper\njoin = counted_runs:Join\n"
TYPES = '[types.loud]\nfile = "upper"\nfolder = "join"\nverify = false\n'


class Counted:
    """Installs the generator, and tells what it ran on."""

    def install(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        site = base / "site"
        info = site / "counted_runs-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "counted_runs.py").write_text(_MODULE)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted-runs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(_ENTRIES)
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{REPOSITORY}")
        runs = base / "runs"
        runs.touch()
        monkeypatch.setenv("COUNTED_RUNS", str(runs))
        return runs


COUNTED = Counted()


def ran(runs: Path) -> Counter[str]:
    """What the generator and policy ran on, and how often."""
    return Counter(runs.read_text().splitlines())


def sizes(short: int, long: int) -> pytest.MarkDecorator:
    """So many files, and as many as it takes long with among the long tests."""
    return pytest.mark.parametrize("count", [short, pytest.param(long, marks=pytest.mark.soak)])


def files(count: int, folders: int = 3) -> dict[str, str]:
    """Small files with different contents in a few folders."""
    return {f"d{n % folders}/e{n % 2}/f{n}.txt": f"text number {n}" for n in range(count)}


class Member:
    """One machine of the team: a workspace of its own."""

    def __init__(self, content: dict[str, str], declared: str = TYPES) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="mkt"))
        self.root = self.base / "w"
        copy_workspace(empty_workspace(), self.root)
        for path, text in {**content, "merkle.toml": declared}.items():
            self.write(path, text)
        self.engine: Engine | None = None

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def open(self) -> Engine:
        if self.engine is None:
            self.engine = Engine(self.root)
        return self.engine

    def full_pass(self) -> Any:
        """What `merkle watch --once` does."""
        engine = self.open()
        engine.scan()
        return engine.regenerate()

    def bodies(self, frame_type: str = "loud") -> dict[str, str]:
        """Every frame of the present, by path; each is fresh."""
        found = {}
        engine = self.open()
        for path, _ in engine.tree.walk():
            for frame in engine.get_node(path, frame_type=frame_type)["frames"]:
                assert frame["freshness"] == "fresh", path
                found[path] = frame["content"]
        return found

    def start(self, *arguments: str, **environment: str) -> Forked:
        """`merkle` as a process of its own."""
        return Forked(
            [sys.executable, "-m", "indexer.cli", "-C", str(self.root), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip

    def end(self) -> None:
        """Let go of the index; the next use opens it again, with the settings of then."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None

    def close(self) -> None:
        self.end()
        shutil.rmtree(self.base, ignore_errors=True)
