"""Talking to a running service: one HTTP request over its Unix socket.

The few lines of HTTP are written here because the standard library's `http.client` loads `email`
and `ssl` with it: 10 to 16 ms of CPU more, of the 70 to 90 that a command takes which asks a
service and is not handed over to its ready process (`session`, say).
"""

from __future__ import annotations

# `_socket` is what `socket` is made of; the latter loads enumerations and selectors with it.
import _socket
import contextlib
import json
import os
import select
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlencode

from indexer.core.progress import Meter, Reading
from indexer.errors import (
    CorruptError,
    ExitCode,
    LockedError,
    MerkleError,
    NoWorkspaceError,
    UncheckedError,
    UsageError,
)
from indexer.service.whose_socket import is_our_socket, name_of_socket
from indexer.store.layout import Layout
from indexer.store.own_folder import own_folder, read_in

TIMEOUT: Final = 600.0
_LOOK_AGAIN: Final = 0.25
"""Seconds between two looks at how far the service has come."""

_TELLING: Final = 2.0
"""Seconds within which it tells that; it needs no thread that may be busy."""

MARK: Final = "Merkle-Mark"
"""The header with which a client knows its own request among those that are worked on."""

STOPPING: Final = 503
"""The answer of a service that is about to stop: as good as none."""


class ServiceError(UncheckedError):
    """The service did not answer as it should."""

    code = "service"


class RemoteError(MerkleError):
    """An error that the service reported, with its code."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.code = code  # type: ignore[misc]  # a remote error carries its code as a value


_KINDS: Final[dict[int, type[RemoteError]]] = {
    int(kind.exit_code): cast(
        type[RemoteError], type(f"Remote{kind.__name__}", (RemoteError, kind), {})
    )
    for kind in (UsageError, UncheckedError, CorruptError, NoWorkspaceError, LockedError)
}


def reported(code: str, message: str, hint: str, exit_code: int) -> RemoteError:
    """An error of the service; whoever expects its kind catches it, as without a service."""
    return _KINDS.get(exit_code, RemoteError)(code, message, hint)


class Client:
    """One service, addressed by its socket."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(
        self,
        path: str,
        query: dict[str, str] | None = None,
        *,
        meter: Meter | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """A GET request's document."""
        target = f"{path}?{urlencode(query)}" if query else path
        return self._ask("GET", target, b"", meter, timeout)

    def post(
        self,
        path: str,
        body: dict[str, Any],
        *,
        patient: bool = False,
        meter: Meter | None = None,
    ) -> dict[str, Any]:
        """A POST request's document; `patient` waits as long as the service lives.

        A meter shows meanwhile how far the service has come with it.
        """
        return self._ask("POST", path, json.dumps(body).encode(), meter, patient=patient)

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes,
        meter: Meter | None,
        timeout: float | None = None,
        patient: bool = False,
    ) -> dict[str, Any]:
        mark = os.urandom(8).hex() if meter is not None else ""
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: merkle\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            + (f"{MARK}: {mark}\r\n\r\n" if mark else "\r\n")
        )
        try:
            with _connection() as connection:
                connection.settimeout(timeout or TIMEOUT)
                connection.connect(self.address)
                connection.sendall(head.encode("ascii") + body)
                if meter is not None:
                    self._show_until_answered(connection, mark, meter)
                if patient:
                    # Models may take hours; a service that ends closes the connection.
                    connection.settimeout(None)
                status, answer = _read_answer(connection)
        except (OSError, ValueError) as error:
            raise ServiceError(
                f"the service stopped answering: {error}", hint="run the command again"
            ) from error
        return _document(status, answer)

    def _show_until_answered(self, connection: _socket.socket, mark: str, meter: Meter) -> None:
        """Ask now and then how far the service is, until its answer begins to come."""
        answer = select.poll()
        answer.register(connection, select.POLLIN)
        while not answer.poll(_LOOK_AGAIN * 1000):
            # One that cannot tell may still answer what it was asked.
            with contextlib.suppress(MerkleError, KeyError, TypeError):
                told = self.get("/v1/working", timeout=_TELLING)["working"]
                # Its own work, or what is done before its turn comes.
                shown = min(told, key=lambda one: one["mark"] != mark, default=None)
                if shown is not None:
                    meter.show(Reading(**{name: shown[name] for name in Reading._fields}))


def _connection() -> contextlib.closing[_socket.socket]:
    return contextlib.closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))


def _read_answer(connection: _socket.socket) -> tuple[int, bytes]:
    """Status and body of an answer that ends when the server closes the connection."""
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    head, separator, body = b"".join(pieces).partition(b"\r\n\r\n")
    if not separator:
        raise ConnectionResetError("the answer was cut short")
    lines = head.split(b"\r\n")
    status = lines[0].split()[1:2]
    if not lines[0].startswith(b"HTTP/1.") or not status:
        raise ValueError("the answer is not HTTP")
    headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
    if len(body) != int(headers.get(b"content-length", len(body))):
        raise ConnectionResetError("the answer was cut short")
    return int(status[0]), body


def _document(status: int, answer: bytes) -> dict[str, Any]:
    try:
        document = json.loads(answer)
    except ValueError as error:
        raise ServiceError("the service sent something that is not JSON") from error
    if status >= 400:
        problem = document.get("error", {}) if isinstance(document, dict) else {}
        if status == STOPPING:
            raise ServiceError(str(problem.get("message", "")), hint="run the command again")
        raise reported(
            str(problem.get("code", "service")),
            str(problem.get("message", f"the service answered {status}")),
            str(problem.get("hint", "")),
            int(problem.get("exit_code", ExitCode.UNCHECKED)),
        )
    if not isinstance(document, dict):
        raise ServiceError("the service sent no document")
    return document


def connect(root: Path) -> Client | None:
    """The service of a workspace, or None when none listens."""
    layout = Layout(root)
    try:
        with own_folder(layout.folder) as folder:
            address = os.fsdecode(read_in(folder, layout.socket.name).strip())
            name = name_of_socket(folder)
    except OSError:
        return None
    # The file may have come with a clone, or with a copy of a workspace that is served.
    if os.path.basename(address) != name or not is_our_socket(address):
        return None
    try:
        with _connection() as probe:
            probe.settimeout(5)
            probe.connect(address)
    except OSError:
        return None
    return Client(address)


def socket_name(root: Path) -> str:
    """What the socket of the service of this very folder is called; a copy's has another name."""
    with own_folder(Layout(root).folder) as folder:
        return name_of_socket(folder)
