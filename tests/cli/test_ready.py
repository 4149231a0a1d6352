"""Commands handed over to the process that a service keeps ready: the same bytes, sooner."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.cli import ready, thin
from indexer.cli.thin import ASKED
from indexer.errors import ExitCode
from tests.support.processes import Forked
from tests.support.processes import run as run_forked
from tests.support.short import SHORT
from tests.support.waiting import wait_until

MERKLE = [sys.executable, "-m", "indexer.cli"]
LINES = {
    "status": [["status"], ["status", "--tree"], ["status", "--quiet"], ["status", "--no-wait"]],
    "scan": [["scan"], ["scan", "--quiet"]],
    "get-node": [["get-node", "a.py"], ["get-node", "nowhere"], ["get-node", "-"]],
    "ls": [["ls"], ["ls", "sub"], ["ls", "b.md"], ["ls", "nowhere"]],
    "help": [["help"], ["help", "session", "new"], ["help", "nothing"]],
    "list-frames": [["list-frames", "a.py"]],
    "get-frame": [["get-frame", "000000"]],
    "get-head": [["get-head", ""]],
    "explain": [["explain", "a.py"]],
    "compose": [
        ["compose", "--query", "add"],
        ["compose", "what adds?"],
        ["compose", "--budget", "-3"],
    ],
    "search": [["search", "add"], ["search", "+ b", "--kind", "text"]],
    "show": [["show", "a.py::add"], ["show", "b.md"]],
    "symbols": [["symbols", "add"]],
    "definition": [["definition", "gone"]],
    "references": [["references", "add"]],
    "callers": [["callers", "add"]],
    "callees": [["callees", "add"]],
    "impact": [["impact", "a.py"]],
    "replay": [["replay", "0" * 12]],
    "log": [["log"], ["log", "-n", "x"]],
    "diff": [["diff", "@-0", "@-0"], ["diff"]],
    "note": [
        ["note", "nowhere", "It adds.", "--agent", "ada"],
        ["note", "--still-true", "000000", "--agent", "ada"],
        ["note", "--withdraw", "000000", "--agent", "ada"],
        ["note", "a.py", "It adds.", "--agent", "A B"],
    ],
    "notes": [["notes"], ["notes", "sub", "--stale"], ["notes", "nowhere"]],
    "sql": [["sql", "SELECT count(*) FROM nodes"], ["sql", "DROP TABLE x"]],
}
VARYING = ("seconds", "freshness_as_of")


@contextlib.contextmanager
def serving(workspace: Path, runtime: Path, start: Any = Forked) -> Iterator[Path]:
    """A workspace with a real service and its ready process."""
    (workspace / "a.py").write_text('"""Adds."""\n\n\ndef add(a, b):\n    return a + b\n')
    (workspace / "sub").mkdir()
    (workspace / "sub" / "b.md").write_text("# About b\n")
    here = {"XDG_RUNTIME_DIR": str(runtime), "MERKLE_SERVICE_READY": "yes"}
    watching = start(
        [*MERKLE, "-C", str(workspace), "watch", "--quiet"], env={**os.environ, **here},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: [*(runtime / "merkle").glob("*.ready")], "the ready process listens")
        wait_until(
            lambda: _is_settled(_run(workspace, "status", "--json", **here)), "frames are made"
        )
        yield workspace
    finally:
        watching.terminate()
        watching.wait(30)


@pytest.fixture(scope="module")
def one_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A served workspace that no test changes, and the runtime folder of its service."""
    workspace = tmp_path_factory.mktemp("served")
    with (
        tempfile.TemporaryDirectory(prefix="mk", dir=SHORT) as runtime,
        serving(workspace, Path(runtime)),
    ):
        yield workspace, Path(runtime)


def _is_settled(status: subprocess.CompletedProcess[bytes]) -> bool:
    document = json.loads(status.stdout)
    return not status.returncode and bool(document["frames"]["total"] >= document["nodes"])


@pytest.fixture
def served_alone(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One of a test's own, which may do anything to it."""
    monkeypatch.setenv("MERKLE_SERVICE_READY", "yes")
    with serving(workspace, Path(os.environ["XDG_RUNTIME_DIR"])):
        yield workspace


@pytest.fixture
def served(one_for_all: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The served workspace that all tests share, found by whatever a test starts."""
    workspace, runtime = one_for_all
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("MERKLE_SERVICE_READY", "yes")
    return workspace


def _run(
    folder: Path, *line: str, handed: bool = True, text: str = "a.py\nsub/b.md\n", **more: str
) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "MERKLE_SERVICE_READY": "yes" if handed else "no", **more}
    return subprocess.run(
        [*MERKLE, *line], cwd=folder, env=environment, input=text.encode(), capture_output=True,
        timeout=60,
    )  # fmt: skip


def _run_here(folder: Path, *line: str) -> subprocess.CompletedProcess[bytes]:
    """The same in a process that does it all itself."""
    code, out, err = run_forked(
        ["-m", "indexer.cli", *line], stdin=b"a.py\nsub/b.md\n", cwd=folder,
        env={**os.environ, "MERKLE_SERVICE_READY": "no"},
    )  # fmt: skip
    return subprocess.CompletedProcess(line, code, out.encode(), err.encode())


def _hand_over(folder: Path, before: str, *line: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; {before}; from indexer.cli.thin import hand_over;"
    code += "status = hand_over(sys.argv[1:]); print(status, file=sys.stderr)"
    return subprocess.run(
        [sys.executable, "-c", code, *line], cwd=folder, capture_output=True, text=True, timeout=60
    )


def _told(done: subprocess.CompletedProcess[bytes]) -> tuple[int, Any, bytes]:
    out: Any = done.stdout
    if out.startswith(b"{"):
        out = {k: v for k, v in json.loads(out).items() if k not in VARYING}
    elif b" s\n" in out:
        out = out[: out.rindex(b" in ")] if b" in " in out else out
    return done.returncode, out, done.stderr


def test_every_command_says_the_same_both_ways(served: Path) -> None:
    assert LINES.keys() == ASKED
    for place, line in enumerate(line for lines in LINES.values() for line in lines):
        # Each starts two processes, so they take turns.
        asked = [*line, "--json"] if place % 2 else line
        assert _told(_run(served, *asked)) == _told(_run_here(served, *asked)), asked
    assert _hand_over(served, "pass", "status").stderr == "0\n"


def test_a_folder_inside_and_a_named_one_mean_the_same(served: Path, tmp_path: Path) -> None:
    here = _run(served, "get-node", "sub/b.md", handed=False).stdout
    assert _run(served / "sub", "get-node", "b.md").stdout == here
    named = ["-C", str(served), "get-node", "sub/b.md"]
    assert _run(tmp_path, *named).stdout == here
    assert _hand_over(tmp_path, "pass", *named).stderr == "0\n"


def test_a_terminal_sees_the_same_colours(served: Path) -> None:
    def shown(handed: bool) -> bytes:
        seen = bytearray()

        def read(descriptor: int) -> bytes:
            piece = os.read(descriptor, 1 << 16)
            seen.extend(piece)
            return piece

        environment = {"MERKLE_SERVICE_READY": "yes" if handed else "no", "TERM": "xterm"}
        line = ["env", *(f"{k}={v}" for k, v in environment.items()), *MERKLE, "-C", str(served)]
        pty.spawn([*line, "status"], read, lambda descriptor: b"")
        return bytes(seen)

    handed = shown(True)
    assert b"\x1b[" in handed
    assert handed == shown(False)


def test_nothing_but_the_interpreters_own_is_loaded(served: Path) -> None:
    done = _hand_over(served, "before = set(sys.modules)", "status", "--quiet")
    assert done.stderr == "0\n"
    code = (
        "import sys; before = set(sys.modules)\n"
        "import indexer.cli.main; from indexer.cli.thin import hand_over\n"
        "hand_over(sys.argv[1:])\n"
        "print(sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "status"], cwd=served, capture_output=True, text=True
    )
    loaded = set(eval(done.stderr))
    assert loaded <= {
        "indexer", "indexer.cli", "indexer.cli.main", "indexer.cli.thin", "indexer.service",
        "indexer.service.whose_socket", "__future__", "_socket", "importlib", "_sha256",
        "importlib._bootstrap", "importlib._bootstrap_external", "_sha2", "gc",
        "warnings",
    }  # fmt: skip


def test_a_note_is_written_the_same_both_ways(
    served_alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada of Git\n")
    for name in [name for name in os.environ if name.startswith("GIT_")] + ["MERKLE_AGENT"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert _hand_over(served_alone, "pass", "note", "a.py", "The first.").stderr == "0\n"
    written = []
    for handed, node in ((True, "a.py"), (False, "sub/b.md")):
        done = _run(served_alone, "note", node, "Said", "once.", "--json", handed=handed)
        written.append(json.loads(done.stdout))
    shared, alone = ({k: v for k, v in one.items() if "id" not in k} for one in written)
    assert shared == {**alone, "path": "a.py"}
    assert shared["agent"] == "ada-of-git"
    assert shared["freshness"] == "fresh"


def test_a_note_that_needs_an_editor_or_git_is_not_handed_over(served: Path) -> None:
    assert _hand_over(served, "pass", "note", "a.py").stderr == "None\n"
    assert _hand_over(served, "pass", "note", "a.py", "--type", "note").stderr == "None\n"
    assert _hand_over(served, "pass", "note", "a.py", "-").stderr == "None\n"
    other = "import os; os.environ['GIT_CONFIG_GLOBAL'] = '/elsewhere'"
    assert _hand_over(served, other, "note", "nowhere", "Said.").stderr == "None\n"
    assert _hand_over(served, "pass", "notes", "export", "n").stderr == "None\n"
    assert _hand_over(served, "pass", "notes", "--json", "import", "n").stderr == "None\n"


def test_what_writes_files_or_is_of_another_release_is_not_handed_over(served: Path) -> None:
    assert _hand_over(served, "pass", "report", "r.html").stderr == "None\n"
    assert _hand_over(served, "pass", "export", "p").stderr == "None\n"
    assert _hand_over(served, "pass", "log", "-C", "elsewhere").stderr == "None\n"
    other = "import indexer; indexer.__version__ = 'other'"
    assert _hand_over(served, other, "status").stderr == "None\n"


def test_names_of_programs_are_not_handed_on(served: Path) -> None:
    code = (
        "from indexer.cli.thin import request; import os;"
        "os.environ.update(PATH='/hostile', LD_PRELOAD='/x.so', NO_COLOR='1', CI='1');"
        "print(request(['status']))"
    )
    sent = subprocess.run([sys.executable, "-c", code], cwd=served, capture_output=True).stdout
    assert b"hostile" not in sent
    assert b"LD_PRELOAD" not in sent
    assert b"NO_COLOR=1" in sent
    # Where the service has just ended, the copy must not start another in CI.
    assert b"\0CI=1" in sent.replace(b"\\x00", b"\0")


@contextlib.contextmanager
def asking_for_long(served: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that takes a minute, with its copy at work; in the end the copy has to end too."""
    wait_until(lambda: not _children(), "the copies of other commands have ended")
    slow = ["sql", "SELECT count(*) FROM range(100000000000)", "--timeout", "60"]
    with subprocess.Popen([*MERKLE, *slow], cwd=served, stderr=subprocess.DEVNULL) as asking:
        try:
            wait_until(_children, "the copy runs")
            yield asking
            wait_until(lambda: not _children(), "the copy has ended")
        finally:
            asking.kill()


def test_an_interrupt_reaches_the_command_and_its_end_the_client(served: Path) -> None:
    with asking_for_long(served) as asking:
        asking.send_signal(signal.SIGINT)
        assert asking.wait(30) == 128 + signal.SIGINT


def test_a_command_ends_with_whoever_asked_for_it(served: Path) -> None:
    with asking_for_long(served) as asking:
        asking.kill()
        asking.wait(30)


def test_what_may_be_under_way_already_is_not_done_here_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(thin, "PATIENCE", 0.05)
    monkeypatch.setattr(thin, "request", lambda arguments: b"anything")
    monkeypatch.setattr(thin, "_send", lambda connection, message: connection.sendall(message))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(os.fspath(tmp_path / "silent"))
        silent.listen()
        assert thin._ask(os.fspath(tmp_path / "silent"), ["scan"]) == ExitCode.UNCHECKED
    assert "does not answer" in capsys.readouterr().err


def test_what_cannot_be_begun_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise who reads from the command that is then done alone would wait for ever."""

    def no_more() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    listener = socket.socket(socket.AF_UNIX)
    with ours, theirs, listener:
        before = len(os.listdir("/proc/self/fd"))
        message = b"\0".join([thin.spoken_by().encode(), os.fsencode(tmp_path), b"18"])
        streams = [os.dup(writing) for _ in range(3)]
        socket.send_fds(ours, [len(message).to_bytes(4, "big") + message], streams)
        for number in streams:
            os.close(number)
        monkeypatch.setattr("os.fork", no_more)
        ready.Ready(listener, 0)._take(theirs)
        # The asker is told by the end of its connection.
        assert ours.recv(4) == b""
        assert len(os.listdir("/proc/self/fd")) == before - 1
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_another_home_means_the_same_both_ways(served: Path, tmp_path: Path) -> None:
    (tmp_path / ".config" / "merkle").mkdir(parents=True)
    (tmp_path / ".config" / "merkle" / "config.toml").write_text("[nonsense\n")
    here = {key: value for key, value in os.environ.items() if key != "XDG_CONFIG_HOME"}
    alone, handed = (
        subprocess.run(
            [*MERKLE, "status"], cwd=served, capture_output=True,
            env={**here, "HOME": str(tmp_path), "MERKLE_SERVICE_READY": wanted},
        )
        for wanted in ("no", "yes")
    )  # fmt: skip
    assert alone.returncode == handed.returncode == ExitCode.USAGE
    assert alone.stderr == handed.stderr
    assert b"config.toml is not valid TOML" in handed.stderr


def test_it_ends_with_the_service_however_that_ends(served_alone: Path) -> None:
    status = json.loads(_run(served_alone, "status", "--json").stdout)
    process = _process()
    os.kill(status["service"]["pid"], signal.SIGKILL)
    wait_until(lambda: not _is_alive(process), "the ready process has ended")
    assert _hand_over(served_alone, "pass", "status").stderr == "None\n"
    after = json.loads(_run(served_alone, "status", "--json").stdout)
    assert after["service"]["running"] is False


def _process() -> int:
    """The ready process of this test's service, by the runtime folder that it was given."""
    runtime = f"XDG_RUNTIME_DIR={os.environ['XDG_RUNTIME_DIR']}".encode()
    found = {
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if b"indexer.cli.ready" in _read(pid, "cmdline") and runtime in _read(pid, "environ")
    }
    # Copies of it look the same, and are its children, or gone by now.
    (process,) = (pid for pid in found if _parent(pid) not in {0, *found})
    return process


def _parent(pid: int) -> int:
    return int((_read(pid, "stat").rpartition(b") ")[2].split() or [b"", b"0"])[1])


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _children() -> list[str]:
    pid = _process()
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _is_alive(pid: int) -> bool:
    return bool(_read(pid, "cmdline"))


def test_a_service_in_the_background_is_started_found_and_stopped(workspace: Path) -> None:
    (workspace / "a.txt").write_text("a")
    started = json.loads(_run(workspace, "watch", "--background", "--json").stdout)
    try:
        assert started["workspace"] == str(workspace)
        status = json.loads(_run(workspace, "status", "--json").stdout)
        assert status["service"]["pid"] == started["pid"]
        again = _run(workspace, "watch", "--background")
        assert (again.returncode, again.stdout) == (6, b"")
    finally:
        stopped = json.loads(_run(workspace, "stop", "--json").stdout)
    assert stopped == {"workspace": str(workspace), "stopped": True, "pid": started["pid"]}
    assert not _is_alive(started["pid"])
    assert _run(workspace, "stop").stdout == b"no service is running\n"


def test_a_service_has_ended_whether_or_not_anybody_took_note_of_it(workspace: Path) -> None:
    """In a container the first process often never does; here it is the test that does not."""
    # What forks processes for tests would take note of it.
    with serving(workspace, Path(os.environ["XDG_RUNTIME_DIR"]), subprocess.Popen):
        stopped = _run(workspace, "stop")
        assert (stopped.returncode, stopped.stderr) == (0, b"")


def test_a_large_workspace_gets_a_service_in_a_terminal_and_never_in_ci(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a.txt").write_text("a")
    _run_here(workspace, "scan")
    small = (
        "import indexer.cli.autostart as a; a.LARGE = 0; from indexer.cli.main import main; main()"
    )

    def told(*line: str, **more: str) -> bytes:
        seen = bytearray()

        def read(descriptor: int) -> bytes:
            piece = os.read(descriptor, 1 << 16)
            seen.extend(piece)
            return piece

        given = [f"{name}={value}" for name, value in more.items()]
        command = [sys.executable, "-c", small, "-C", str(workspace), *line]
        pty.spawn(["env", *given, *command], read, lambda descriptor: b"")
        return bytes(seen)

    assert b"started a service" not in told("log", CI="true")
    assert b"started a service" not in told("log", CI="", MERKLE_SERVICE_AUTOSTART="no")
    monkeypatch.delenv("CI", raising=False)
    try:
        assert b"started a service for these 5 files" in told("log", CI="")
        wait_until(
            lambda: json.loads(_run_here(workspace, "status", "--json").stdout)["service"][
                "running"
            ],
            "it answers",
        )
    finally:
        _run_here(workspace, "stop")
