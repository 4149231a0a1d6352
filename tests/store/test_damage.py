"""A damaged database file: told as damage, or proved intact; never a silent wrong answer."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.store.layout import initialise
from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked, run

CORRUPT = 4

# Opens each workspace named on stdin and tells what it finds. A process of its own: whatever
# the database library does with garbage, it does it there.
LOOK = """
import hashlib, sys, json
from pathlib import Path
from tests.support.engines import Engine
from indexer.errors import MerkleError

def look(root):
    try:
        engine = Engine(root, wait=5)
    except MerkleError as error:
        return {"told": error.code, "exit": int(error.exit_code), "at": "open"}
    try:
        report = engine.validate()
        if not report["valid"]:
            return {"told": "invalid", "exit": 4 if report["errors"] else 3, "at": "validate"}
        seqs = [root.seq for root in engine.trees.roots(1000)]
        states = [
            [(path, int(e.kind), e.content_id.hex(), e.size) for path, e in tree.walk()]
            for tree in map(engine.trees.tree_at, seqs)
        ]
        told = [engine.log(1000), states, engine.status()["state"]]
        answer = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        roots = [each["root"] for each in reversed(engine.log(1000)["roots"])]
        return {"told": "valid", "answer": answer, "roots": roots}
    except MerkleError as error:
        return {"told": error.code, "exit": int(error.exit_code), "at": "read"}
    finally:
        engine.close()

for line in sys.stdin:
    print(json.dumps(look(Path(line.strip()))), flush=True)
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a history, its database folded into one file."""
    root = tmp_path_factory.mktemp("damage") / "original"
    root.mkdir()
    initialise(root)
    with Engine(root, clock=ManualClock(1 << 62)) as engine:
        for batch in range(6):
            for number in range(batch, 240, 3):
                folder = root / f"d{number % 7}"
                folder.mkdir(exist_ok=True)
                (folder / f"file{number}.txt").write_bytes(b"%d %d" % (batch, number))
            engine.scan()
        engine.database.checkpoint()
    return root


class Looker:
    """The process that opens damaged workspaces; started again when one kills it."""

    def __init__(self) -> None:
        self.process = self._start()

    def _start(self) -> Forked:
        return Forked(
            [sys.executable, "-c", LOOK], cwd=REPOSITORY, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def look(self, root: Path) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdin.write(f"{root}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return dict(json.loads(line))
        error = self.process.stderr.read()
        code = self.process.wait()
        self.close()
        self.process = self._start()
        return {"told": "crash", "exit": code, "error": error[-2000:]}

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        self.process.wait()


@pytest.fixture(scope="module")
def looker() -> Any:
    made = Looker()
    yield made
    made.close()


@pytest.fixture(scope="module")
def intact(original: Path, looker: Looker) -> dict[str, Any]:
    found = looker.look(original)
    assert found["told"] == "valid"
    return found


def copy(original: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = tmp_path / "w"
    copy_workspace(original, root)
    return root, root / ".merkle" / "index.duckdb"


def judge(found: dict[str, Any], intact: dict[str, Any]) -> None:
    """Either the very same answers, or damage told as damage."""
    if found["told"] == "valid":
        assert found == intact
    else:
        assert found["exit"] == CORRUPT, found


def damage_at(database: Path, offset: int, junk: bytes) -> None:
    with database.open("r+b") as file:
        file.seek(offset)
        file.write(junk)


def places(size: int, count: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return [
        0,
        8,
        4096,
        8192,
        size // 2,
        size - 600,
        *(chance.randrange(size) for _ in range(count)),
    ]


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[pytest.mark.soak] if n % 4 else []) for n in range(20)],
)
def test_garbage_anywhere(
    original: Path, tmp_path: Path, looker: Looker, intact: dict[str, Any], number: int
) -> None:
    root, database = copy(original, tmp_path)
    offset = places(database.stat().st_size, 14, seed=7)[number]
    damage_at(database, offset, random.Random(number).randbytes(512))
    judge(looker.look(root), intact)


@pytest.mark.parametrize("number", range(6))
def test_a_single_bit(
    original: Path, tmp_path: Path, looker: Looker, intact: dict[str, Any], number: int
) -> None:
    root, database = copy(original, tmp_path)
    content = bytearray(database.read_bytes())
    # Where there is something: an unused block may hold anything.
    offset = random.Random(number).choice([i for i, byte in enumerate(content) if byte])
    content[offset] ^= 1 << (number % 8)
    database.write_bytes(content)
    judge(looker.look(root), intact)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_truncated(
    original: Path, tmp_path: Path, looker: Looker, intact: dict[str, Any], share: float
) -> None:
    root, database = copy(original, tmp_path)
    with database.open("r+b") as file:
        file.truncate(int(database.stat().st_size * share))
    judge(looker.look(root), intact)


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 50_000, b"not a database " * 5000, b"SQLite format 3\0"]
)
def test_another_file_in_its_place(
    original: Path, tmp_path: Path, looker: Looker, intact: dict[str, Any], junk: bytes
) -> None:
    root, database = copy(original, tmp_path)
    database.write_bytes(junk)
    judge(looker.look(root), intact)


def test_a_database_of_another_workspace(
    original: Path, tmp_path: Path, looker: Looker, intact: dict[str, Any]
) -> None:
    root, database = copy(original, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "f").write_bytes(b"1")
    with Engine.create(other, hash_name="sha256") as engine:
        engine.scan()
    shutil.copy(other / ".merkle" / "index.duckdb", database)
    judge(looker.look(root), intact)


# -- the log of what was not yet folded into the file

KILLED = """
import os, sys
from pathlib import Path
from tests.support.engines import Engine
root = Path(sys.argv[1])
engine = Engine(root)
for number in range(5):
    (root / "d1" / "growing").write_bytes(b"x" * (number + 1))
    engine.reconcile([("d1/growing", False)])
os._exit(0)
"""


@pytest.fixture(scope="module")
def killed(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same workspace, ended after five batches that are only in the log."""
    root = tmp_path_factory.mktemp("killed") / "w"
    copy_workspace(original, root)
    assert run(["-c", KILLED, str(root)], cwd=REPOSITORY)[0] == 0
    assert (root / ".merkle" / "index.duckdb.wal").stat().st_size > 0
    return root


@pytest.fixture(scope="module")
def all_roots(killed: Path, looker: Looker, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("roots") / "w"
    copy_workspace(killed, root)
    found = looker.look(root)
    assert found["told"] == "valid"
    assert len(found["roots"]) == 11
    return list(found["roots"])


SHARES = [0.0, 0.01, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999]


@pytest.mark.parametrize(
    ("how", "share"),
    [
        # By turns in the ordinary run, and both ways at each place in the long one.
        pytest.param(how, share, marks=[pytest.mark.soak] if (by + n) % 2 else [])
        for by, how in enumerate(("cut", "garbage"))
        for n, share in enumerate(SHARES)
    ],
)
def test_a_damaged_log_gives_an_earlier_state_or_is_told(
    killed: Path, tmp_path: Path, looker: Looker, all_roots: list[str], how: str, share: float
) -> None:
    root, database = copy(killed, tmp_path)
    wal = database.with_name("index.duckdb.wal")
    offset = int(wal.stat().st_size * share)
    if how == "cut":
        with wal.open("r+b") as file:
            file.truncate(offset)
    else:
        damage_at(wal, offset, random.Random(offset).randbytes(64))
    found = looker.look(root)
    if found["told"] == "valid":
        assert found["roots"] == all_roots[: len(found["roots"])]
        assert len(found["roots"]) >= 6
    else:
        assert found["exit"] == CORRUPT, found


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE node_log SET content_id = '\\x00'::BLOB WHERE path = 'd1/file1.txt'",
        "UPDATE node_log SET node_id = '\\x00'::BLOB WHERE path = 'd1/file1.txt'",
        "UPDATE node_log SET size = size + 1 WHERE path = 'd1/file1.txt'",
        "UPDATE node_log SET kind = 3 WHERE path = 'd1/file1.txt'",
        "UPDATE node_log SET kind = 9 WHERE path = 'd1/file1.txt'",
        "DELETE FROM node_log WHERE path = 'd1/file1.txt'",
        "DELETE FROM node_log WHERE path = 'd1'",
        "INSERT INTO node_log SELECT seq, 'stray', kind, content_id, node_id, size FROM node_log"
        " WHERE path = 'd1/file1.txt'",
        "UPDATE root_log SET files = files + 1 WHERE seq = 6",
        "DELETE FROM root_log WHERE seq = 6",
        "DELETE FROM root_log WHERE seq = 2",
        "UPDATE listings SET ids = '\\x00'::BLOB WHERE path = 'd1'",
        "UPDATE listings SET stats = stats || '\\x01'::BLOB WHERE path = 'd1'",
        "DELETE FROM listings WHERE path = 'd1'",
        "DELETE FROM listings WHERE path = ''",
    ],
)
def test_rows_that_contradict_each_other(
    original: Path, tmp_path: Path, looker: Looker, statement: str
) -> None:
    """What no checksum notices: `validate` does."""
    root, _ = copy(original, tmp_path)
    with Engine(root) as engine, engine.database.transaction() as connection:
        connection.execute(statement)
    found = looker.look(root)
    assert found["told"] != "valid", found
    assert found["exit"] == CORRUPT, found


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_garbage_in_two_hundred_places(
    original: Path, tmp_path: Path, looker: Looker, intact: dict[str, Any]
) -> None:
    root, database = copy(original, tmp_path)
    content = database.read_bytes()
    chance = random.Random(1)
    for _ in range(200):
        shutil.rmtree(root)
        copy_workspace(original, root)
        offset = chance.randrange(len(content))
        damage_at(database, offset, chance.randbytes(chance.choice([1, 8, 512, 5000])))
        judge(looker.look(root), intact)
