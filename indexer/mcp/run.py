"""Serving: over the process's own streams, or over HTTP on the loopback address."""

from __future__ import annotations

import contextlib
import gc
import hmac
import logging
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Final

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from indexer.errors import UncheckedError
from indexer.mcp.calls import Calls
from indexer.mcp.server import make_server

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"


def run_stdio(calls: Calls) -> None:
    """Serve one client on standard input and output until it leaves."""
    _prepare()
    # There is nothing to save here, and a thread that reads its input cannot be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(_stdio, calls)


async def _stdio(calls: Calls) -> None:
    server = make_server(calls)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def run_http(
    calls: Calls, port: int, *, token: str | None = None, tell: Callable[[str], None]
) -> None:
    """Serve any number of clients on a loopback port until SIGINT or SIGTERM.

    Every user of the machine can reach it, so a token is made and told where none is given.
    """
    listener = _listen(port)
    chosen = int(listener.getsockname()[1])
    words = f"http://{HOST}:{chosen}{PATH}"
    if token is None:
        token = secrets.token_urlsafe(24)
        words += f"\nAuthorization: Bearer {token}"
    _prepare()
    application = http_application(calls, chosen, token)
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    with contextlib.closing(listener):
        anyio.run(_Server(config, lambda: tell(words)).serve, [listener])


class _Server(uvicorn.Server):
    """uvicorn that says when it is ready, and counts being told to stop as a good end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, then say so."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, and do not raise them again afterwards."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def http_application(calls: Calls, port: int, token: str) -> ASGIApp:
    """The application, which answers only requests that were meant for it and carry the token."""
    names = [f"{name}:{port}" for name in (HOST, "localhost", "[::1]")]
    application: ASGIApp = make_server(calls).streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(
            # A page from elsewhere can make a browser knock here, but not under these names.
            allowed_hosts=names,
            allowed_origins=[f"http://{name}" for name in names],
        ),
    )
    return _Guarded(application, token)


class _Guarded:
    """Lets through what carries the token."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                refusal = Response("a token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._application(scope, receive, send)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UncheckedError(
            f"cannot listen on {HOST}:{port}: {error.strerror or error}",
            hint="choose another port; 0 takes any that is free",
        ) from error
    return listener


def _prepare() -> None:
    """Set up what a process that stays needs."""
    # The command line holds the cycle collector back; what runs for days needs it.
    gc.enable()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # A request under a foreign name is refused; the log would only repeat what a stranger wrote.
    logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)
