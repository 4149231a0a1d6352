"""Rows about frames: a first pass against bare parsing, one edit at two sizes, an idle pass."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Row, merkle, run, take_turns
from benchmarks.trees import TreeSpec, edit_signature, make_tree
from indexer.engine.long_work import run_to_end
from indexer.engine.make.commands import regenerate
from indexer.engine.tree.scan import reconcile, scan
from indexer.engine.workspace import Engine
from indexer.generators.treesitter import parser_of
from indexer.service.client import connect

STATUS_LIMIT = 0.3
"""Seconds that a `status` may take beside a full pass, but for one in twenty."""

_BETWEEN = 0.02
"""Seconds between two of them."""

_STANDSTILL = 20.0
"""Seconds without a new frame after which a first pass is taken to be over."""

ORDINARY = 12
"""Files in a folder, at most, for an edit there to be measured."""

_BARE = "import sys; from benchmarks.frame_rows import parse_all; parse_all(sys.argv[1])"


def copy_of_standard_library(work: Path) -> Path:
    """The interpreter's own Python sources: a real tree that every machine has."""
    source = Path(sysconfig.get_paths()["stdlib"])
    target = work / "stdlib"
    shutil.copytree(
        source,
        target,
        ignore=shutil.ignore_patterns(
            "site-packages", "__pycache__", "*.so", "*.a", "lib2to3", "config-*"
        ),
        symlinks=True,
    )
    return target


def parse_all(root: str) -> None:
    """Bare parsing of every Python file, in this one process."""
    parser = parser_of("python")
    for path in sorted(Path(root).rglob("*.py")):
        parser.parse(path.read_bytes())


def first_pass_rows(work: Path, rounds: int) -> Iterator[Row]:
    """Scan, outlines, folder frames and storing, against parsing alone."""
    root = copy_of_standard_library(work)
    count = sum(1 for path in root.rglob("*") if path.is_file())
    interpreter = merkle(root)[0] if not merkle(root)[0].endswith("merkle") else None
    python = interpreter or str(Path(merkle(root)[0]).parent / "python")

    def forget() -> None:
        shutil.rmtree(root / ".merkle", ignore_errors=True)

    full, bare = take_turns(
        [
            (forget, lambda: run(merkle(root, "--quiet", "watch", "--once"))),
            (None, lambda: run([python, "-c", _BARE, root])),
        ],
        rounds,
    )
    yield Row("full first pass over the standard library", full, "s", "bare parsing", bare, 1.5)
    yield Row("outlines per second, full pass", count / full, "/s", "files", count, None)
    idle, walk = take_turns(
        [
            (None, lambda: run(merkle(root, "--quiet", "watch", "--once"))),
            (None, lambda: run(merkle(root, "--quiet", "scan"))),
        ],
        rounds,
    )
    yield Row("full pass with nothing to do", idle, "s", "scan, nothing changed", walk, None)


class Waits(NamedTuple):
    """Seconds that each `status` took beside one pass."""

    asked: list[float]
    """From the request, on a connection that is made for it, to the answer."""
    typed: list[float]
    """The whole command, from its start to its end."""


def statuses_beside_a_pass(root: Path) -> tuple[Waits, Waits]:
    """Beside a new service's first pass, and beside `regenerate` of everything."""
    command = merkle(root, "--quiet", "--json", "status")
    service = subprocess.Popen([*merkle(root), "--quiet", "watch"], stderr=subprocess.DEVNULL)
    try:
        while (client := connect(root)) is None or client.get("/v1/health")["state"] == "starting":
            assert service.poll() is None
            time.sleep(0.05)

        def until(is_done: Callable[[Any], bool]) -> Waits:
            waits, done = Waits([], []), False
            while not done:
                started = time.perf_counter()
                status = client.get("/v1/status")
                waits.asked.append(time.perf_counter() - started)
                done = is_done(status)
                time.sleep(_BETWEEN)
                started = time.perf_counter()
                run(command, fine=(0, 1))
                waits.typed.append(time.perf_counter() - started)
                time.sleep(_BETWEEN)
            return waits

        moved = (-1, time.monotonic())

        def has_all(status: Any) -> bool:
            """Whether nothing is missing, or nothing has come for a while: some cannot be made."""
            nonlocal moved
            missing, now = status["frames"]["missing"], time.monotonic()
            if missing != moved[0]:
                moved = (missing, now)
            return not missing or now - moved[1] > _STANDSTILL

        first = until(has_all)
        client.post("/v1/invalidate", {"node": ""})
        with ThreadPoolExecutor(1) as beside:
            wanted = {"node": "", "recursive": True}
            asked = beside.submit(client.post, "/v1/regenerate", wanted, patient=True)
            again = until(lambda _: asked.done())
            asked.result()
    finally:
        service.terminate()
        service.wait()
    return first, again


def status_rows(work: Path, folder: Path | None = None) -> Iterator[Row]:
    """A `status` beside full passes, against what somebody who waits does not notice."""
    if folder is None:
        root = copy_of_standard_library(work / "served")
    else:
        root = work / "served"
        shutil.copytree(folder, root, symlinks=True, ignore=shutil.ignore_patterns(".merkle"))
    names = ("a full first pass", "regenerate of everything")
    for name, waits in zip(names, statuses_beside_a_pass(root), strict=True):
        for how, taken in (("asked", sorted(waits.asked)), ("typed", sorted(waits.typed))):
            for share in (50, 95, 100):
                which = "longest" if share == 100 else f"p{share}"
                at = taken[share * (len(taken) - 1) // 100]
                limit = 1.0 if share == 95 else None
                row = f"status beside {name}, {how}, {which} of {len(taken)}"
                yield Row(row, at, "s", "the limit", STATUS_LIMIT, limit)


def regenerate_seconds(root: Path, spec: TreeSpec, edits: int) -> float:
    """Median engine time to make frames again after one edited signature.

    In folders of ordinary size: a policy reads all entries of its folder, and large trees have
    larger ones, which would be measured instead.
    """
    times = []
    sizes = Counter(os.path.dirname(path) for path in spec.files)
    ordinary = [k for k in spec.outlined if sizes[os.path.dirname(spec.files[k])] <= ORDINARY]
    with Engine.create(root) as engine:
        scan(engine)
        run_to_end(regenerate(engine))
        engine.serve()
        for number in range(edits):
            k = ordinary[number * 7919 % len(ordinary)]
            path = edit_signature(root, spec, k)
            reconcile(engine, [(path, False)])
            started = time.perf_counter()
            document = run_to_end(regenerate(engine))
            times.append(time.perf_counter() - started)
            assert document["regenerated"]
    return statistics.median(times)


def edit_rows(big: Path, big_spec: TreeSpec, work: Path, edits: int) -> Iterator[Row]:
    """Regeneration after one edit must not grow with the workspace."""
    small_spec = make_tree(work / "frames1k", 1000)
    small = regenerate_seconds(work / "frames1k", small_spec, edits)
    large = regenerate_seconds(big, big_spec, edits)
    yield Row(
        "regeneration after one edit, 100k files", large * 1e3, "ms", "1k files", small * 1e3, 2.0
    )
