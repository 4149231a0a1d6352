"""`merkle stop`."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Final, TypedDict

from indexer.cli.opening import root_of
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.errors import ExitCode, UncheckedError
from indexer.service.client import connect

_PATIENCE: Final = 10.0


class StopDocument(TypedDict):
    """Result of `stop`."""

    workspace: str
    stopped: bool
    pid: int | None
    """The process that was running, None where there was none."""


@merkle_command("stop", gives=(StopDocument,))
def command(options: Globals) -> int:
    """End the service of the workspace, and wait until it has ended.

    What it was asked to store is stored. The next `merkle watch`, or a client that needs one,
    starts another. Where none runs there is nothing to do, which is fine.

    \b
    Example:
      merkle stop
    """
    root = root_of(options)
    client = connect(root)
    document: StopDocument = {"workspace": str(root), "stopped": False, "pid": None}
    if client is not None:
        pid = int(client.get("/v1/health")["pid"])
        _end(pid)
        document["stopped"], document["pid"] = True, pid
    show(options, document, _text)
    return ExitCode.FINE


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    while _is_alive(pid):
        if time.monotonic() >= deadline:
            raise UncheckedError(
                f"process {pid} has not ended within {_PATIENCE:.0f} seconds",
                hint=f"look into .merkle/service.log; `kill -9 {pid}` ends it, and loses nothing",
            )
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as state:
            # Z: it has ended, and whoever started it has taken no note of that.
            return not state.read().rpartition(b")")[2].startswith(b" Z")
    except OSError:
        # Not every system tells.
        return True


def _text(document: StopDocument) -> str:
    if document["pid"] is None:
        return "no service is running"
    return f"stopped process {document['pid']}"
