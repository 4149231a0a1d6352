"""A workspace that is only ever asked through its service, which is started where none runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from indexer.engine.settings import load_settings
from indexer.errors import MerkleError, NoWorkspaceError, UncheckedError
from indexer.service.client import Client, ServiceError, connect, reported
from indexer.service.whose_socket import MARKERS
from indexer.service.workspace import Workspace
from indexer.store.layout import Layout, initialise, is_initialised
from indexer.store.lock import holder, locked_by
from indexer.store.own_folder import open_own_file, own_folder, read_own_file

IDLE_EXIT: Final = "10m"
"""How long a service that a client started stays when nobody asks it anything."""

_PAUSE: Final = 0.02
"""Seconds between two looks whether a service answers, or another client is done starting one."""

_HEAD_START: Final = 30.0
"""Seconds that a service which is started before anybody asks may take."""


class ServedWorkspace(Workspace):
    """For clients that live long: it never owns the index, and finds the service's successor."""

    may_own = False

    def _attach(self, deadline: float) -> None:
        self._client = connect(self.root) or start_service(self.root, deadline)


def wake_service(root: Path) -> None:
    """Start the service of an initialised workspace in the background, if none runs."""
    if is_initialised(root):
        # So that the first question does not have to wait for the first look at the disk.
        threading.Thread(target=_wake, args=(root,), name="wake", daemon=True).start()


def _wake(root: Path) -> None:
    # A failure is told to whoever asks something; there it can be acted upon.
    with contextlib.suppress(MerkleError):
        if connect(root) is None:
            start_service(root, time.monotonic() + _HEAD_START)


def start_service(root: Path, deadline: float, options: Sequence[str] | None = None) -> Client:
    """Start a service and wait until it answers; one that another client just started will do.

    Without options for `merkle watch` it ends when nobody has asked it anything for a while.
    """
    if not any((root / marker).exists() for marker in MARKERS):
        # Not in any folder a client happens to start in: that could be somebody's home.
        raise NoWorkspaceError(
            f"{root} is not a merkle workspace",
            hint="run `merkle init` in the folder to be indexed, or name that folder with -C",
        )
    initialise(root)
    try:
        with _alone(root, deadline):
            # The one before may have started it.
            return connect(root) or _wait_for(root, spawn_service(root, options), deadline)
    except OSError as error:
        raise UncheckedError(
            f"cannot start the service: {error.filename or ''} {error.strerror or error}",
            hint="merkle needs to write in .merkle to work with the index",
        ) from error


@contextlib.contextmanager
def _alone(root: Path, deadline: float) -> Iterator[None]:
    """Keep other clients from starting a service meanwhile."""
    layout = Layout(root)
    with own_folder(layout.folder) as folder:
        descriptor = open_own_file(folder, layout.starting, os.O_RDWR | os.O_CREAT)
    try:
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise ServiceError(
                    "another client has been starting the service for too long",
                    hint=f"look into {layout.service_log}, then try again",
                )
            time.sleep(_PAUSE * random.uniform(0.5, 1.5))
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def spawn_service(root: Path, options: Sequence[str] | None = None) -> subprocess.Popen[bytes]:
    """A service of its own session: it outlives the client that needed it first."""
    # -P, and away from the workspace: nothing in there may be taken for a module of ours.
    command = [sys.executable, "-P", "-m", "indexer.cli", "-C", str(root), "--json", "--quiet"]
    command.append("watch")
    if options is not None:
        command += options
    elif load_settings(root).origins["watch.idle_exit"].kind == "default":
        command += ["--idle-exit", IDLE_EXIT]
    layout = Layout(root)
    with own_folder(layout.folder) as folder:
        descriptor = open_own_file(folder, layout.service_log, os.O_WRONLY | os.O_CREAT)
    with open(descriptor, "wb") as log:
        log.truncate()
        process = subprocess.Popen(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    # Somebody has to take note of its end, whenever that is.
    threading.Thread(target=process.wait, name="service-end", daemon=True).start()
    return process


def _wait_for(root: Path, process: subprocess.Popen[bytes], deadline: float) -> Client:
    while True:
        found = connect(root)
        if found is not None:
            owner = holder(Layout(root).lock)
            if owner is not None and owner[0] != process.pid:
                # Somebody else's was first; this one would wait, and take over when that is ended.
                process.terminate()
            return found
        status = process.poll()
        if status is not None:
            raise _failure(root, status)
        if time.monotonic() >= deadline:
            owner = holder(Layout(root).lock)
            if owner is not None and owner[0] != process.pid:
                raise locked_by(owner)
            raise ServiceError(
                "the service has not answered yet", hint="it is still starting; try again"
            )
        time.sleep(_PAUSE)


def _failure(root: Path, status: int) -> Exception:
    """Why a service ended before it answered, as it said itself."""
    log = Layout(root).service_log
    text = read_own_file(log).decode(errors="replace")
    start = text.find('{\n  "error"')
    with contextlib.suppress(ValueError, KeyError, TypeError):
        told: dict[str, Any] = json.loads(text[start:])["error"]
        return reported(told["code"], told["message"], told["hint"], status)
    return ServiceError(
        f"the service could not be started (status {status})", hint=f"its last words are in {log}"
    )
