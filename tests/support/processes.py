"""Python processes that need no start: forked from one that has loaded everything and done nothing.

They have streams, an environment, signals and an exit status like any other; a start of its own
takes a process five times as long. What a start does by itself (what it loads, in which order,
under which locale) is for tests with real ones.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parents[2]

_PARENT = """
import gc, importlib, json, os, pkgutil, select, signal, socket, struct, sys, runpy
import indexer

for found in pkgutil.walk_packages(indexer.__path__, "indexer."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)

def child(request, streams):
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, max(streams) + 1)
    form, what, *arguments = request["arguments"]
    sys.argv[:] = [form, *arguments]
    if form == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})

control = socket.socket(fileno=int(sys.argv[1]))
wake, woken = socket.socketpair()
woken.setblocking(False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.set_wakeup_fd(woken.fileno())
told = {}
gc.freeze()
while True:
    ready, _, _ = select.select([control, wake], [], [])
    if wake in ready:
        wake.recv(4096)
        while told:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            os.write(told[pid], struct.pack("i", os.waitstatus_to_exitcode(status)))
            os.close(told.pop(pid))
    if control not in ready:
        continue
    message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
    if not message:
        os._exit(0)
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
    """The process that the others are forked from; it ends with this one."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PARENT, str(theirs.fileno())],
                cwd=REPOSITORY, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def ask(self, request: dict[str, object], streams: list[int]) -> tuple[int, int]:
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


class Forked:
    """`python -m MODULE …` or `python -c CODE …`, as such a process, on streams that are open."""

    def __init__(
        self,
        *arguments: str | bytes | Path,
        streams: Sequence[IO[bytes]],
        cwd: str | bytes | Path = "/",
        env: Mapping[str, str] | None = None,
    ) -> None:
        request = {
            "arguments": [os.fsdecode(each) for each in arguments],
            "cwd": os.fsdecode(cwd),
            "env": dict(os.environ if env is None else env),
        }
        self.returncode: int | None = None
        self.pid, self._status = _parent().ask(request, [each.fileno() for each in streams])

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None as long as it runs."""
        return self._wait(0)

    def wait(self, timeout: float = 60) -> int:
        """The exit status, waited for."""
        found = self._wait(timeout)
        if found is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return found

    def _wait(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = _number(self._status)
            os.close(self._status)
        return self.returncode

    def kill(self) -> None:
        """End it, where it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def run(*arguments: str | bytes | Path, stdin: bytes = b"", **options: Any) -> tuple[int, str, str]:
    """Run such a process to its end: status, stdout and stderr, which must be UTF-8."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin)
        given.seek(0)
        process = Forked(*arguments, streams=(given, out, err), **options)
        try:
            code = process.wait()
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return code, out.read().decode(), err.read().decode()
