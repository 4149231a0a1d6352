"""Sessions under several readers and writers at once, and under kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import MerkleError
from indexer.service.workspace import Workspace
from indexer.sessions import import_session
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, Forked, run


def _environment() -> dict[str, str]:
    """That of this process, where processes also find the helpers of these tests."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@pytest.fixture
def through(
    services: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Workspace]:
    """A service for an empty workspace, and clients of it."""
    services(folder).ready()
    # A function that carries a folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(services.runtime))  # type: ignore[attr-defined]

    def client() -> Workspace:
        workspace = Workspace.open(folder)
        assert workspace.is_remote
        return workspace

    return client


def whole_cycles(thread: str) -> int:
    """How many cycles a thread shows, each of which must be whole and in its place."""
    said = [message["content"] for message in json.loads(thread)]
    cycles = len(said) // 2
    assert said == [f"{who} {n}" for n in range(cycles) for who in ("question", "answer")]
    return cycles


def cycle(workspace: Workspace, number: int) -> int:
    for who, role in (("question", "user"), ("answer", "assistant")):
        workspace.session_append("talk", type="dialogue", role=role, text=f"{who} {number}")
    return int(workspace.session_commit("talk")["cycle"])


@pytest.mark.parametrize("most", [6, pytest.param(25, marks=pytest.mark.soak)])
def test_readers_see_whole_cycles_while_one_commits(
    through: Callable[[], Workspace], most: int
) -> None:
    writer = through()
    writer.session_new("talk")
    done = threading.Event()
    seen: dict[str, list[int]] = {"render": [], "export": [], "compile": [], "select": []}
    problems: list[BaseException] = []

    def read(kind: str) -> None:
        workspace = through()
        try:
            while not done.is_set() or len(seen[kind]) < 3:
                seen[kind].append(READERS[kind](workspace))
        except BaseException as error:
            problems.append(error)
            done.set()

    threads = [threading.Thread(target=read, args=[kind]) for kind in READERS]
    for thread in threads:
        thread.start()
    acknowledged = 0
    for number in range(most):
        acknowledged = cycle(writer, number)
    done.set()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert acknowledged == most
    for kind, cycles in seen.items():
        assert cycles == sorted(cycles), kind
        assert READERS[kind](writer) == most


def _exported(workspace: Workspace) -> int:
    # An import checks every hash, and that the log leads to the snapshot beside it.
    session = import_session(workspace.session_export("talk")["data"], "copy")
    return whole_cycles(session.render().decode())


def _compiled(workspace: Workspace) -> int:
    said = [m["content"] for m in workspace.session_compile("talk")["messages"]]
    cycles = len(said) // 2
    assert said[: 2 * cycles] == [
        f"{who} {n}" for n in range(cycles) for who in ("question", "answer")
    ]
    return cycles


def _selected(workspace: Workspace) -> int:
    ids = workspace.session_select("talk", "@t0 .mt .cb")["ids"]
    assert len(ids) % 2 == 0
    return len(ids) // 2


READERS: dict[str, Callable[[Workspace], int]] = {
    "render": lambda workspace: whole_cycles(workspace.session_render("talk")["thread"]),
    "export": _exported,
    "compile": _compiled,
    "select": _selected,
}

APPENDER = """
import sys
from indexer import Workspace
for number in range(int(sys.argv[3])):
    with Workspace.open(sys.argv[1]) as workspace:
        said = workspace.session_append("talk", type="output", text=f"{sys.argv[2]} {number}")
        if number % 4 == 3:
            workspace.session_commit("talk")
        print(said["commit"], flush=True)
"""


def append_at_once(root: Path, each: int) -> list[str]:
    """Two processes append to one session; what they were told."""
    writers = [
        Forked(
            [sys.executable, "-c", APPENDER, root, name, str(each)],
            env=_environment(), stdout=subprocess.PIPE, text=True,
        )
        for name in ("left", "right")
    ]  # fmt: skip
    told = [writer.communicate(timeout=100)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [len(each_told) for each_told in told] == [each, each]
    return told[0] + told[1]


def check_both_are_there(workspace: Workspace, told: list[str], each: int) -> None:
    session = import_session(workspace.session_export("talk")["data"], "copy")
    assert {commit.commit_hash for commit in session.state.log.commits} == set(told)
    said = [message["content"] for message in session.thread("@w")]
    for name in ("left", "right"):
        mine = [text for text in said if text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(each)]


def test_two_processes_append_at_once_without_a_service(folder: Path) -> None:
    with Engine.create(folder) as engine:
        engine.session_new("talk")
    told = append_at_once(folder, 6)
    with Workspace.open(folder) as workspace:
        check_both_are_there(workspace, told, 6)


def test_two_processes_append_at_once_through_the_service(
    through: Callable[[], Workspace], folder: Path
) -> None:
    workspace = through()
    workspace.session_new("talk")
    check_both_are_there(workspace, append_at_once(folder, 12), 12)


def test_bad_requests_are_refused_by_the_service(through: Callable[[], Workspace]) -> None:
    workspace = through()
    workspace.session_new("talk")
    before = workspace.session_export("talk")
    client = workspace._client
    assert client is not None
    for body in (
        {}, {"name": 1}, {"name": "talk", "type": "output", "text": 5},
        {"name": "talk", "type": "output", "text": "x", "ttl": -1},
        {"name": "talk", "type": "output", "text": "x", "offset": 1.5},
        {"name": "talk", "type": "output", "text": "x", "unknown": True},
        {"name": "talk", "type": "output", "text": "\ud800"},
        {"name": "talk", "type": "output", "payload": []},
        {"name": "talk", "type": "freeform", "payload": {"deep": _nested(250)}},
    ):  # fmt: skip
        with pytest.raises(MerkleError) as caught:
            client.post("/v1/session-append", body)
        assert caught.value.exit_code == 2, body
    assert workspace.session_export("talk") == before


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


COMMITTER = """
import os, signal, sys
from pathlib import Path
from indexer.engine.sessions import open_sessions, write
from tests.support.engines import Engine
from indexer.store import frames, journal, sessions

def die(*ignored, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def after(function):
    def call(*arguments, **options):
        result = function(*arguments, **options)
        die()
        return result
    return call

def torn(descriptor, data, offset):
    os.pwrite(descriptor, bytes(data)[: len(data) // 2], offset)
    die()

def arm(point):
    if point == "before the journal":
        journal.Journal.append = die
    elif point == "in the journal":
        journal._write_all = torn
    elif point == "after the journal":
        journal.Journal.append = after(journal.Journal.append)
    elif point == "in the transaction":
        sessions.SessionRows.write = after(sessions.SessionRows.write)
    elif point == "after the transaction":
        frames.FrameStore.record = after(frames.FrameStore.record)

def work(root, point):
    with Engine(root) as engine:
        number = engine.session_show("talk")["cycle"]
        while True:
            kept = len(engine.session_select("talk", "@w ^ah .cb")["ids"])
            for who, role in (("question", "user"), ("answer", "assistant"))[kept:]:
                text = f"{who} {number}"
                engine.session_append("talk", type="dialogue", role=role, text=text)
            if point is not None:
                arm(point)
            number = engine.session_commit("talk")["cycle"]
            print(number, flush=True)
"""
KILLER = (
    COMMITTER
    + """
import random, select, time
root, chance, rounds = Path(sys.argv[1]), random.Random(int(sys.argv[2])), int(sys.argv[3])
# Once for all children: what a commit counts with takes longer to load than a commit takes.
from indexer.core.tokens import TiktokenCounter
TiktokenCounter(encoding_name="o200k_base").count_text("warm")
for _ in range(rounds):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        try:
            work(root, None)
        finally:
            os._exit(3)
    os.close(writing)
    with os.fdopen(reading) as told:
        first = told.readline()
        time.sleep(chance.random() * 0.12)
        os.kill(child, signal.SIGKILL)
        lines = [first, *told]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), status
    complete = [line for line in lines if line.endswith("\\n")]
    print(complete[-1].strip(), flush=True)
"""
)


def check_after_kill(root: Path, acknowledged: int) -> int:
    """Every cycle is whole or absent, and what was acknowledged is there."""
    with Engine(root) as engine:
        found = engine.validate()
        assert found["errors"] == []
        sealed = int(engine.session_show("talk")["cycle"])
        assert sealed >= acknowledged
        assert whole_cycles(engine.session_render("talk")["thread"]) == sealed
        for number in range(sealed + 1):
            thread = engine.session_render("talk", snapshot=f"@c{number}")["thread"]
            assert whole_cycles(thread) == number
        data = engine.session_export("talk")["data"]
        assert import_session(data, "copy").export().decode() == data
        return sealed


POINTS = {
    "in the transaction": 0, "before the journal": 0, "in the journal": 0,
    "after the journal": 1, "after the transaction": 1,
}  # fmt: skip


def test_a_kill_at_any_point_of_a_commit_leaves_it_whole_or_absent(folder: Path) -> None:
    with Engine.create(folder) as engine:
        engine.session_new("talk")
    sealed = 0
    for point, more in POINTS.items():
        work = f"{COMMITTER}\nwork(Path(sys.argv[1]), sys.argv[2])"
        code, _, err = run(["-c", work, folder, point], env=_environment())
        assert code == -signal.SIGKILL, err
        assert check_after_kill(folder, sealed) == sealed + more, point
        sealed += more


@pytest.mark.soak
def test_fifty_kills_at_random_moments(folder: Path) -> None:
    with Engine.create(folder) as engine:
        engine.session_new("talk")
    sealed = 0
    for seed in range(10):
        ran = subprocess.run(
            [sys.executable, "-c", KILLER, folder, str(seed), "5"],
            env=_environment(), capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        acknowledged = [int(line) for line in ran.stdout.split()]
        assert len(acknowledged) == 5
        assert acknowledged == sorted(acknowledged)
        sealed = check_after_kill(folder, acknowledged[-1])
    assert sealed >= 50


@pytest.mark.soak
def test_a_killed_service_keeps_what_it_acknowledged(
    services: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A function that carries a folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(services.runtime))  # type: ignore[attr-defined]
    chance = random.Random(5)
    acknowledged = 0
    for turn in range(4):
        service = services(folder).ready()
        workspace = Workspace.open(folder, wait=0.2)
        assert workspace.is_remote
        if turn == 0:
            workspace.session_new("talk")
        timer = threading.Timer(0.2 + chance.random() * 0.5, service.kill)
        timer.start()
        try:
            kept = len(workspace.session_select("talk", "@w ^ah .cb")["ids"])
            while service.is_running():
                number = int(workspace.session_show("talk")["cycle"])
                for who, role in (("question", "user"), ("answer", "assistant"))[kept:]:
                    workspace.session_append(
                        "talk", type="dialogue", role=role, text=f"{who} {number}"
                    )
                kept = 0
                acknowledged = int(workspace.session_commit("talk")["cycle"])
        except MerkleError:
            pass
        workspace.close()
        timer.join()
        service.kill()
        assert check_after_kill(folder, acknowledged) >= acknowledged


KEEPER = (
    COMMITTER.partition("def work(")[0]
    + """
import json
root = Path(sys.argv[1])
from indexer.core.tokens import TiktokenCounter
TiktokenCounter(encoding_name="o200k_base").count_text("warm")
ACTS = {
    "fork": lambda e, n: e.session_fork("talk", f"branch {n}"),
    "merge": lambda e, n: e.session_merge("talk", "other"),
    "rename": lambda e, n: e.session_rename("moving", f"moved {n}"),
    "delete": lambda e, n: e.session_delete(f"moved {n}"),
    "restore": lambda e, n: e.session_restore(f"moved {n}", new="moving"),
    "set": lambda e, n: e.session_set("talk", "law", text=f"law {n}", priority=n),
}

def state(engine):
    found = {one["name"]: engine.session_export(one["name"])["data"]
             for one in engine.session_list()["sessions"]}
    gone = [one["name"] for one in engine.session_list(deleted=True)["sessions"]]
    return found, gone

def in_child(work):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with Engine(root) as engine, os.fdopen(writing, "w") as out:
                work(engine, out)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    return os.waitpid(child, 0)[1], text

def said(work):
    status, text = in_child(work)
    assert status == 0
    return json.loads(text)

def turn(engine, out):
    engine.session_append("other", type="dialogue", text=f"turn {number}")
    engine.session_commit("other")
    json.dump(state(engine), out)

for number, point in enumerate(json.loads(sys.argv[2]), start=1):
    before = said(turn)
    for name, act in ACTS.items():
        def dying(engine, out):
            arm(point)
            act(engine, number)

        def looking(engine, out):
            happened = json.loads(json.dumps(state(engine))) != before
            if not happened:
                # It never was: nothing is in its way when it is asked for again.
                act(engine, number)
            json.dump([happened, state(engine)], out)

        status = in_child(dying)[0]
        assert os.WIFSIGNALED(status), (point, name, status)
        happened, before = said(looking)
        print(json.dumps([point, name, happened]), flush=True)
"""
)


@pytest.mark.parametrize(
    "points",
    [
        ["after the journal"],
        pytest.param(["in the journal", "after the journal"], marks=pytest.mark.soak),
    ],
)
def test_what_keeps_sessions_survives_kill_9(folder: Path, points: list[str]) -> None:
    """Every act is whole or never was, wherever it dies; what is journalled is redone."""
    with Engine.create(folder) as engine:
        engine.scan()
        engine.session_new("talk")
        engine.session_append("talk", type="instruction", text="law", id="law")
        engine.session_commit("talk")
        engine.session_fork("talk", "other")
        engine.session_new("moving")
    code, out, err = run(["-c", KEEPER, folder, json.dumps(points)], env=_environment())
    assert code == 0, err
    told = [json.loads(line) for line in out.splitlines()]
    assert len(told) == len(points) * 6
    for point, name, happened in told:
        assert happened == (point == "after the journal"), (point, name)
    with Engine(folder) as engine:
        assert engine.validate()["errors"] == []
