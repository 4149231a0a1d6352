"""Python processes that need no start: forked from one that has loaded all and has nothing open.

They have streams, an environment, signals and an exit status like any other; a start of its own
takes a process five times as long. What a start does by itself (what it loads, in which order,
under which locale) is for tests with real ones.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.short import SHORT

REPOSITORY = Path(__file__).resolve().parents[2]

_PARENT = """
import contextlib, gc, importlib, json, os, pathlib, pkgutil, runpy, select, signal, socket, struct
import sys, tempfile
import indexer

for found in pkgutil.walk_packages(indexer.__path__, "indexer."):
    # The editor's protocol takes long to load, and none of these speaks it.
    if not found.name.endswith("__main__") and not found.name.startswith("indexer.lsp"):
        importlib.import_module(found.name)
for lazy in ("openai", "anyio._backends._asyncio", "uvicorn.lifespan.off", "uvicorn.loops.auto",
             "uvicorn.protocols.http.auto"):
    importlib.import_module(lazy)
indexer.core.encodings.count_tokens(indexer.core.encodings.DEFAULT_ENCODING, "", many=True)
# What a process finds out once (rules, grammars, versions, statements, routes) is found out here.
with tempfile.TemporaryDirectory() as folder:
    # Nothing of the test that happens to be the first, here either.
    os.environ.update(dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), folder + "/own"))
    pathlib.Path(folder, "module.py").write_text("def one(): ...")
    pathlib.Path(folder, "README.md").write_text("# One")
    with indexer.Workspace.open(folder) as workspace:
        workspace.scan()
        workspace.regenerate()
        workspace.status()
indexer.service.server.Api(None, None, None).application()
threads = pathlib.Path("/proc/self/task")
assert not threads.exists() or len(list(threads.iterdir())) == 1

def child(request, streams):
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    if request["safe"]:
        del sys.path[0]
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1 << 16)
    form, what, *arguments = request["arguments"]
    sys.argv[:] = [form, *arguments]
    if form == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})

listener = socket.socket(fileno=int(sys.argv[1]))
listener.setblocking(False)
clients = []
wake, woken = socket.socketpair()
woken.setblocking(False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.set_wakeup_fd(woken.fileno())
told = {}
gc.freeze()

def accept():
    with contextlib.suppress(BlockingIOError):
        clients.append(listener.accept()[0])

while True:
    ready, _, _ = select.select([listener, wake, *clients], [], [])
    if listener in ready:
        accept()
    if wake in ready:
        wake.recv(4096)
        while told:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            os.write(told[pid], struct.pack("i", os.waitstatus_to_exitcode(status)))
            os.close(told.pop(pid))
    client = next((each for each in clients if each in ready), None)
    if client is None:
        continue
    message, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 4)
    if not message:
        client.close()
        clients.remove(client)
        if not clients:
            # Who connects from now on finds none; who did is served.
            pathlib.Path(listener.getsockname()).unlink(missing_ok=True)
            accept()
            if not clients:
                os._exit(0)
        continue
    *streams, status = descriptors
    pid = os.fork()
    if pid:
        told[pid] = status
        for descriptor in streams:
            os.close(descriptor)
        os.write(status, struct.pack("i", pid))
        continue
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        child(json.loads(message), streams)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""


class _Parent:
    """The process that the others are forked from: one for all workers, it ends with the last."""

    def __init__(self) -> None:
        self._requests = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        place = f"{SHORT}/mkp-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
        with open(__file__, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._requests.connect(place)
            except OSError:
                self._start(place)
                self._requests.connect(place)

    def _start(self, place: str) -> None:
        # Nothing of the test that happens to be the first to need it.
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MERKLE_"))}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(place)
            listener.listen()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PARENT, str(listener.fileno())],
                cwd=REPOSITORY, env=plain, stdin=subprocess.DEVNULL, pass_fds=[listener.fileno()],
            )  # fmt: skip

    def ask(self, request: dict[str, Any], streams: list[int]) -> tuple[int, int]:
        """The id of a new process, and a descriptor that tells its exit status in the end."""
        reading, writing = os.pipe()
        try:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [*streams, writing])
        finally:
            os.close(writing)
        return _number(reading), reading


@functools.cache
def _parent() -> _Parent:
    return _Parent()


def _number(descriptor: int) -> int:
    found: int
    (found,) = struct.unpack("i", os.read(descriptor, 4))
    return found


class Forked(subprocess.Popen[Any]):
    """A `Popen` for `[sys.executable, "-m", MODULE, …]` or `[…, "-c", CODE, …]`, also with `-P`."""

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
        creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
        restore_signals, gid, gids, uid, umask, start_new_session, *more,
    ) -> None:  # fmt: skip
        python, *arguments = args
        assert python == sys.executable
        safe = arguments[0] == "-P"
        arguments = arguments[safe:]
        assert arguments[0] in ("-c", "-m")
        request = {
            "arguments": [os.fsdecode(each) for each in arguments],
            "cwd": os.fsdecode(os.getcwd() if cwd is None else cwd),
            "env": dict(os.environ if env is None else env),
            "safe": safe,
            "session": start_new_session,
        }
        given = enumerate((p2cread, c2pwrite, errwrite))
        streams = [number if each == -1 else each for number, each in given]
        self.pid, self._told = _parent().ask(request, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        return self._status_within(0)

    def _wait(self, timeout: float | None) -> int:
        found = self._status_within(timeout)
        if found is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return found

    def _status_within(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = _number(self._told)
            os.close(self._told)
        return self.returncode


class ForkingSubprocess:
    """In place of the module `subprocess`, for code of ours that starts a service."""

    Popen = Forked
    DEVNULL, STDOUT = subprocess.DEVNULL, subprocess.STDOUT


def run(arguments: list[Any], stdin: bytes = b"", **options: Any) -> tuple[int, str, str]:
    """Run such a process to its end: status, stdout and stderr, which must be UTF-8."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Forked([sys.executable, *arguments], **pipes, **options) as process:
        try:
            out, err = process.communicate(stdin, timeout=60)
        finally:
            process.kill()
    return process.returncode, out.decode(), err.decode()
