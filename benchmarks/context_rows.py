"""Rows about context: counting tokens, composing through the service, and what postings cost."""

from __future__ import annotations

import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from benchmarks.frame_rows import ORDINARY, copy_of_standard_library
from benchmarks.measure import Row, merkle, take_turns
from benchmarks.trees import ADJECTIVES, NOUNS, VERBS, TreeSpec, edit_signature, make_tree
from indexer.core.encodings import load_encoding
from indexer.core.tokens import TiktokenCounter
from indexer.engine.long_work import run_to_end
from indexer.engine.make.commands import regenerate
from indexer.engine.search.compose import compose
from indexer.engine.tree.scan import reconcile, scan
from indexer.engine.workspace import Engine
from indexer.service.client import connect
from indexer.service.workspace import Workspace

ENCODING = "o200k_base"
BUDGET = 8_000
SMALL = 10_000
PATIENCE = 900.0
"""Seconds for a service to make every frame of a large tree."""

P95_SMALL_MS, P95_LARGE_MS, MEMORY_MB = 50.0, 150.0, 400.0


def token_rows(work: Path, rounds: int) -> Iterator[Row]:
    """Counting real files: at least 0.9 of bare tiktoken's speed, and no encoding again."""
    root = copy_of_standard_library(work / "tokens")
    files = sorted(root.glob("*.py"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    encoding = load_encoding(ENCODING)
    known = TiktokenCounter(encoding_name=ENCODING)

    def count(counter: TiktokenCounter) -> None:
        for text in texts:
            counter.count_text(text)

    count(known)
    bare, first, second = take_turns(
        [
            (None, lambda: [len(encoding.encode_ordinary(text)) for text in texts]),
            (None, lambda: count(TiktokenCounter(encoding_name=ENCODING))),
            (None, lambda: count(known)),
        ],
        max(5, rounds),
    )
    size = sum(map(len, texts)) / 1e6
    yield Row(
        "counting tokens, first time", size / first, "MB/s", "bare tiktoken", size / bare, 0.9, True
    )
    yield Row("counting tokens, second time", second, "s", "bare tiktoken", bare, 0.1)


def questions(number: int) -> Iterator[str]:
    """Questions in the words of the trees, the same in every run."""
    random = Random(7)
    for _ in range(number):
        adjective, verb = random.choice(ADJECTIVES), random.choice(VERBS)
        one, other = random.sample(NOUNS, 2)
        yield f"how does the {adjective} {one} {verb} a {other}"


@contextmanager
def service(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service that has made every frame; ended by its process id."""
    with Engine.create(root) as engine:
        scan(engine)
        run_to_end(regenerate(engine))
    process = subprocess.Popen(
        merkle(root, "--quiet", "watch"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while connect(root) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def compose_rows(root: Path, files: int, limit_ms: float, asked: int) -> Iterator[Row]:
    """Compose with a question and 8,000 tokens: the 95th percentile, and memory afterwards."""
    with service(root) as process, Workspace.open(root) as workspace:
        total = workspace.status()["frames"]["total"]
        started = time.perf_counter()
        workspace.compose(query="warm up")
        first = time.perf_counter() - started
        times = []
        for question in questions(asked):
            started = time.perf_counter()
            found = workspace.compose(query=question, budget=BUDGET)
            times.append((time.perf_counter() - started) * 1e3)
            assert found["tokens"] <= BUDGET
        p95 = sorted(times)[int(0.95 * len(times))]
        name = f"compose over {total:,} frames, p95"
        yield Row(name, p95, "ms", f"limit of {limit_ms:g} ms", limit_ms, 1.0)
        median = statistics.median(times)
        yield Row(f"compose over {total:,} frames, median", median, "ms", "p95", p95, None)
        yield Row(f"first compose over {total:,} frames", first, "s", "files", files, None)
        memory = resident_mb(process.pid)
        yield Row(
            f"service memory, {total:,} frames loaded", memory, "MB",
            f"limit of {MEMORY_MB:g} MB", MEMORY_MB, 1.0,
        )  # fmt: skip


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no memory")


def keep_seconds(root: Path, spec: TreeSpec, edits: int) -> float:
    """Median time to store the frames of one edit, postings among them."""
    folders: dict[str, int] = {}
    for path in spec.files:
        folders[path.rpartition("/")[0]] = folders.get(path.rpartition("/")[0], 0) + 1
    ordinary = [k for k in spec.outlined if folders[spec.files[k].rpartition("/")[0]] <= ORDINARY]
    with Engine.create(root) as engine:
        scan(engine)
        run_to_end(regenerate(engine))
        engine.serve()
        # A question makes the postings of what is stored; from then on each edit makes its own.
        compose(engine, query="warm up")
        times = timed_keeps(engine)
        for number in range(edits):
            path = edit_signature(root, spec, ordinary[number * 7919 % len(ordinary)])
            reconcile(engine, [(path, False)])
            run_to_end(regenerate(engine))
    return statistics.median(times[-edits:])


def timed_keeps(engine: Engine) -> list[float]:
    """Measure what storing takes from now on."""
    times: list[float] = []
    keep: Callable[..., int] = engine.frames.heads.add

    def timed(batch: object, before_commit: object = None) -> int:
        started = time.perf_counter()
        seq = keep(batch, before_commit)
        times.append(time.perf_counter() - started)
        return seq

    engine.frames.heads.add = timed  # type: ignore[method-assign]  # measured in place
    return times


def rows(big: Path, big_spec: TreeSpec, work: Path, rounds: int, files: int) -> Iterator[Row]:
    """Everything about context; the large tree is given."""
    yield from token_rows(work, rounds)
    asked = 20 * rounds
    small = min(SMALL, files)
    make_tree(work / "context10k", small)
    yield from compose_rows(work / "context10k", small, P95_SMALL_MS, asked)
    yield from compose_rows(big, files, P95_LARGE_MS, asked)
    tiny = min(1000, files)
    tiny_spec = make_tree(work / "context1k", tiny)
    small_keep = keep_seconds(work / "context1k", tiny_spec, 40)
    large_keep = keep_seconds(big, big_spec, 40)
    yield Row(
        f"storing one edit with its postings, {files:,} files", large_keep * 1e3, "ms",
        f"{tiny:,} files", small_keep * 1e3, 2.0,
    )  # fmt: skip
