"""Helper processes that answer pickled questions over pipes.

`multiprocessing` would import the caller's own script again in each of them: a script that uses
this package without a main guard would run several times. These processes import what they are
told and nothing else, and end when the pipe does, so also when their owner is killed. Most commands
start none, so what it takes to ask one is imported when one is started.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from indexer.errors import UncheckedError

if TYPE_CHECKING:
    import subprocess
    from concurrent.futures import Future
    from queue import SimpleQueue

_START: Final = (
    "import pickle, sys;"
    " sys.path[:], name = pickle.load(sys.stdin.buffer);"
    " import importlib; importlib.import_module(name).serve()"
)


class ProcessEndedError(Exception):
    """A helper process ended without an answer."""


class OtherCodeError(UncheckedError):
    """A helper process runs other code than the process that asks it, whose name results bear."""

    code = "other_code"


_RUNNING: Final[set[subprocess.Popen[bytes]]] = set()


def kill_helpers() -> None:
    """End every helper of this process at once, whatever it is at: this process ends now."""
    for process in list(_RUNNING):
        process.kill()


class HelperProcess:
    """One process that runs `serve()` of a module, and answers one question at a time."""

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        import subprocess

        if not sys.executable:
            raise ProcessEndedError("there is no interpreter to start")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            # As where no more processes are allowed.
            raise ProcessEndedError(f"no process can be started: {error}") from error
        _RUNNING.add(self._process)
        self._send((sys.path, module))

    def ask(self, question: Any) -> Any:
        """Send a question and wait for its answer."""
        import pickle

        self._send(question)
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise ProcessEndedError("a helper process ended") from error

    def _send(self, message: Any) -> None:
        import pickle

        assert self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        except OSError as error:
            raise ProcessEndedError("a helper process ended") from error

    def close(self) -> None:
        """Let it come to its end, which is after the question it is at."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        _RUNNING.discard(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()


class HelperProcesses:
    """Several of them, sharing a list of questions.

    The answer to the beginning is the fingerprint of what they run, and has to be ours.
    """

    def __init__(
        self,
        count: int,
        module: str,
        beginning: Any,
        expected: Any,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor
        from queue import SimpleQueue

        self._idle: SimpleQueue[HelperProcess] = SimpleQueue()
        self._all: list[HelperProcess] = []
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="merkle-helper")
        try:
            for _ in range(count):
                self._all.append(HelperProcess(module, environment))
            # Asked after all are started, so that they start beside each other.
            for process in self._all:
                if process.ask(beginning) != expected:
                    raise OtherCodeError(
                        "the code on disk is not what this process has loaded: start it again",
                        hint="stop `merkle watch` where it runs, and run the command again",
                    )
                self._idle.put(process)
        except BaseException:
            self.close()
            raise

    def map(self, questions: Sequence[Any]) -> list[Any]:
        """An answer per question, in order; raises when a process ends under one of them."""
        return [asked.result() for asked in [self.begin(one) for one in questions]]

    def begin(self, question: Any) -> Future[Any]:
        """Ask without waiting, after everything that was asked before."""
        return self._threads.submit(self._ask, question)

    def _ask(self, question: Any) -> Any:
        process = self._idle.get()
        try:
            return process.ask(question)
        finally:
            self._idle.put(process)

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.close()


def answer_questions(answer: Callable[[Any], Any]) -> None:
    """In a helper process: answer until the owner closes the pipe."""
    import pickle

    # An interrupt at the terminal reaches the owner too, who then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An answer is many small objects and no cycle: to look for one now and then is enough.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    questions, answers = sys.stdin.buffer, _own_output()
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            return
        try:
            pickle.dump(answer(question), answers)
            answers.flush()
        except BrokenPipeError:
            os._exit(1)


def _own_output() -> BinaryIO:
    """The pipe to the owner; what custom code prints goes to the error stream instead."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
