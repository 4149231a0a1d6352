"""The process that a service keeps ready for commands: everything loaded, nothing opened.

For each command line that arrives (`cli/thin.py`) it forks; the copy takes over the streams, the
folder and what counts of the environment of whoever asked, and runs the command as `merkle` itself
would. It has one thread and opens no database, so a copy is as good as a new process. It ends with
the service, whose end of its standard input closes then, however the service ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

from indexer.cli.main import run_here
from indexer.cli.thin import ASKED, ENVIRONMENT, PREFIXES, spoken_by

_PATIENCE: Final = 2.0
"""Seconds that a request may take to arrive; nobody else is listened to meanwhile."""


@dataclass(slots=True)
class _Running:
    """A command under way: its process, who asked, and a pipe that closes when it ends."""

    process: int
    asker: socket.socket
    lives: int
    told: bool = False


class Ready:
    """Listens for command lines and runs each in a copy of this process."""

    def __init__(self, listener: socket.socket, lifeline: int) -> None:
        self._listener: socket.socket | None = listener
        self._lifeline = lifeline
        self._running: list[_Running] = []

    def run(self) -> None:
        """Until the service is gone and the last command has ended."""
        while self._listener is not None or self._running:
            waiting = [each.lives for each in self._running]
            waiting += [each.asker.fileno() for each in self._running if not each.told]
            if self._listener is not None:
                waiting += [self._listener.fileno(), self._lifeline]
            # Not `select`, which knows no descriptor above 1023.
            several = select.poll()
            for one in waiting:
                several.register(one, select.POLLIN)
            readable = {one for one, _ in several.poll()}
            for each in list(self._running):
                if each.lives in readable:
                    self._ended(each)
                elif not each.told and each.asker.fileno() in readable:
                    # Whoever asked is gone, and with it the reader of what comes out.
                    each.told = True
                    os.kill(each.process, signal.SIGTERM)
            if self._listener is None:
                continue
            if self._lifeline in readable:
                self._listener.close()
                self._listener = None
            elif self._listener.fileno() in readable:
                with contextlib.suppress(OSError):
                    self._take(self._listener.accept()[0])

    def _ended(self, each: _Running) -> None:
        self._running.remove(each)
        os.close(each.lives)
        _, status = os.waitpid(each.process, 0)
        code = os.waitstatus_to_exitcode(status)
        with each.asker, contextlib.suppress(OSError):
            each.asker.sendall((128 - code if code < 0 else code).to_bytes(4, "big"))

    def _take(self, asker: socket.socket) -> None:
        asker.settimeout(_PATIENCE)
        message, streams = _receive(asker)
        try:
            self._begin(asker, message, streams)
        except OSError:
            # There is no room for one more: whoever asked does it alone.
            asker.close()
        finally:
            # In any case: whoever reads what a command writes waits for the last one to let go.
            for stream in streams:
                os.close(stream)

    def _begin(self, asker: socket.socket, message: bytes, streams: list[int]) -> None:
        parts = [os.fsdecode(part) for part in message.split(b"\0")]
        if len(streams) != 3 or parts[0] != spoken_by() or not os.path.isdir(parts[1]):
            # Another release: it is better off with a process of its own.
            asker.close()
            return
        lives, living = os.pipe()
        try:
            process = os.fork()
        except OSError:
            os.close(lives)
            os.close(living)
            raise
        if not process:
            for each in self._running:
                each.asker.close()
                os.close(each.lives)
            os.close(lives)
            _become(parts[1:], streams, [self._listener, asker])
        os.close(living)
        self._running.append(_Running(process, asker, lives))
        with contextlib.suppress(OSError):
            asker.sendall(process.to_bytes(4, "big"))


def _receive(asker: socket.socket) -> tuple[bytes, list[int]]:
    """A whole request and the streams that came with it; nothing where it is none."""
    piece, streams, _, _ = socket.recv_fds(asker, 1 << 16, 8)
    size, received = int.from_bytes(piece[:4], "big"), piece[4:]
    deadline = time.monotonic() + _PATIENCE
    with contextlib.suppress(OSError):
        while piece and len(received) < size and time.monotonic() < deadline:
            piece = asker.recv(1 << 16)
            received += piece
    return (received, streams) if len(received) == size else (b"", streams)


def _become(parts: list[str], streams: list[int], ours: list[socket.socket | None]) -> None:
    """Be the process that somebody asked for, and end as it would."""
    try:
        for each in ours:
            if each is not None:
                each.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        folder, umask, *coded, count = parts[:6]
        arguments = parts[6 : 6 + int(count)]
        os.chdir(folder)
        os.umask(int(umask))
        _take_environment(parts[6 + int(count) :])
        _take_streams(coded)
        sys.argv[1:] = arguments
        run_here()
    except KeyboardInterrupt:
        # Before the command itself could say how it ends.
        os._exit(128 + signal.SIGINT)
    finally:
        # Whatever happened: nothing of the parent's is to be done by its copy.
        os._exit(3)


def _take_environment(handed: list[str]) -> None:
    for name in list(os.environ):
        if name in ENVIRONMENT or name.startswith(PREFIXES):
            del os.environ[name]
    for line in handed:
        name, _, value = line.partition("=")
        os.environ[name] = value
    time.tzset()


def _take_streams(coded: list[str]) -> None:
    """Text streams as the interpreter of whoever asked had made them."""
    made = []
    for number, named in enumerate(coded):
        encoding, _, errors = named.partition(":")
        mode = "r" if number == 0 else "w"
        line_by_line = number == 2 or os.isatty(number)
        made.append(
            open(  # noqa: SIM115  # open until the process ends
                number, mode, buffering=1 if line_by_line else -1, encoding=encoding,
                errors=errors, closefd=False,
            )
        )  # fmt: skip
    sys.stdin, sys.stdout, sys.stderr = made
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = made  # type: ignore[misc, assignment]  # its own


def main() -> None:
    """Load what commands need, then serve: the socket is handed over by the service."""
    # Held back and not ignored: one that is meant for a copy that was only just made reaches it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    for name in ASKED:
        importlib.import_module(f"indexer.cli.{name.replace('-', '_')}")
    importlib.import_module("indexer.cli.group")
    gc.freeze()
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.setblocking(True)
    Ready(listener, sys.stdin.fileno()).run()


if __name__ == "__main__":
    main()
