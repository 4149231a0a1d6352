"""HTTP over the Unix socket: each route calls one operation and returns its document."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from indexer import __version__
from indexer.engine.engine import Engine
from indexer.engine.status import recorded_status
from indexer.errors import MerkleError, UsageError
from indexer.service.events import Broadcast
from indexer.service.jobs import StoppingError
from indexer.service.keeper import Keeper
from indexer.service.operations import OPERATIONS, Operation
from indexer.store.database import DatabaseError

T = TypeVar("T")

_LOOK_AGAIN: Final = 0.5
"""Seconds between two looks whether a client of a long run is still there."""

MAX_BODY: Final = 8 << 20
"""Bytes of a request's body; the longest sensible one is a frame with every byte escaped."""


class TooLargeError(UsageError):
    """The request is longer than any that makes sense."""

    code = "too_large"


class Api:
    """The routes of one workspace's service."""

    def __init__(self, engine: Engine, keeper: Keeper, broadcast: Broadcast) -> None:
        self.engine = engine
        self.keeper = keeper
        self.broadcast = broadcast
        self.web: str | None = None
        """The address of the web page, where there is one."""
        self.last_used = time.monotonic()
        self._busy = 0

    def application(self) -> Starlette:
        """The ASGI application."""
        routes = [
            # Answered even while every worker thread waits for the keeper.
            self._route("GET", "/v1/health", self.health, inline=True),
            self._route("GET", "/v1/status", self.status),
            self._route("POST", "/v1/scan", self.scan),
            self._route("POST", "/v1/validate", self.validate),
            self._route("GET", "/v1/log", self.log),
            self._route("GET", "/v1/diff", self.diff),
            self._route("POST", "/v1/sql", self.sql),
            self._route("GET", "/v1/resolve", self.resolve),
            self._route("GET", "/v1/why-ignored", self.why_ignored),
            Route("/v1/events", self.events, methods=["GET"]),
        ]
        routes += [
            self._route(
                "POST",
                f"/v1/{name}",
                self._frame_operation(operation),
                in_steps=operation.begin is not None,
            )
            for name, operation in OPERATIONS.items()
        ]
        return Starlette(
            routes=routes,
            exception_handlers={404: _not_found, 405: _not_found, Exception: _unexpected},
        )

    @property
    def idle_since(self) -> float | None:
        """Since when nobody has asked anything; None while somebody is being served."""
        return None if self._busy or self.broadcast.readers else self.last_used

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While this lasts the service is not idle."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.last_used = time.monotonic()

    def _route(
        self,
        method: str,
        path: str,
        operation: Callable[[_Arguments], Any],
        *,
        inline: bool = False,
        in_steps: bool = False,
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            with self.in_use():
                try:
                    arguments = await _Arguments.of(request)
                    if inline:
                        return _answer(200, operation(arguments))
                    if in_steps:
                        return _answer(200, await _unless_gone(request, operation, arguments))
                    return _answer(200, await run_in_threadpool(operation, arguments))
                except MerkleError as error:
                    return _answer(status_of(error), error_document(error))

        return Route(path, endpoint, methods=[method])

    # -- operations, each on a worker thread

    def health(self, arguments: _Arguments) -> dict[str, Any]:
        """Whether the service is well."""
        health = self.keeper.health()
        return {
            "state": health.state,
            "reason": health.reason,
            "pid": os.getpid(),
            "version": __version__,
            "watches": health.watches,
            "batches": health.batches,
            "pending": health.pending,
            "frames": health.frames,
        }

    def status(self, arguments: _Arguments) -> dict[str, Any]:
        """The index against the disk, proved by a cookie unless the client will not wait."""
        if arguments.flag("wait", True):
            caught_up = self.keeper.catch_up()
            state = "current" if caught_up else "degraded"
        else:
            state = "unknown"
        health = self.keeper.health()
        if health.state == "unhealthy":
            raise DatabaseError(health.reason or "the database failed", hint="it is being reopened")
        if health.state == "unavailable":
            state = "unavailable"
        elif state == "degraded" or health.state == "degraded":
            # Events cannot be relied on: compare with the disk itself.
            document = self.keeper.call(self.engine.status)
            if document["state"] == "current":
                document["state"] = "degraded"
            return self._with_service(dict(document))
        return self._with_service(dict(recorded_status(self.engine, state)))

    def _with_service(self, document: dict[str, Any]) -> dict[str, Any]:
        health = self.keeper.health()
        document["service"] = {
            "running": True,
            "pid": os.getpid(),
            "watches": health.watches,
            "degraded": health.reason,
            "web": self.web,
        }
        return document

    def scan(self, arguments: _Arguments) -> Any:
        """A scan on request."""
        force, accept = arguments.flag("force", False), arguments.flag("accept_empty", False)
        return self.keeper.call(lambda: self.keeper.accept_scan(force=force, accept_empty=accept))

    def validate(self, arguments: _Arguments) -> Any:
        """Every invariant; the disk too when asked."""
        content = arguments.flag("content", False)
        subset = arguments.get("subset")
        expect = arguments.get("expect_root")
        if subset is not None and not _is_subset(subset):
            raise UsageError("subset must be two numbers, part and parts")
        if expect is not None and not isinstance(expect, str):
            raise UsageError("expect_root must be text")
        if content or subset is not None:
            self.keeper.catch_up()
        part = None if subset is None else (subset[0], subset[1])
        return self.keeper.call(
            lambda: self.engine.validate(content=content, subset=part, expect_root=expect)
        )

    def log(self, arguments: _Arguments) -> Any:
        """Recorded roots."""
        return self.engine.log(arguments.number("limit", 20))

    def diff(self, arguments: _Arguments) -> Any:
        """Two recorded roots compared."""
        return self.engine.diff(arguments.text("old"), arguments.text("new"))

    def sql(self, arguments: _Arguments) -> Any:
        """One SELECT."""
        return self.engine.sql(
            arguments.text("query"),
            limit=arguments.number("limit", 1000),
            timeout=min(arguments.seconds("timeout", 10.0), 300.0),
        )

    def resolve(self, arguments: _Arguments) -> Any:
        """A node by path or id."""
        node = arguments.text("node")
        self.keeper.catch_up()
        # The tree in memory belongs to the keeper's thread.
        return self.keeper.call(lambda: self.engine.resolve(node))

    def why_ignored(self, arguments: _Arguments) -> Any:
        """The rule that leaves a path out."""
        path = arguments.text("path")
        return self.keeper.call(lambda: self.engine.why_ignored(path))

    def _frame_operation(self, operation: Operation) -> Callable[[_Arguments], Any]:
        """An operation on frames: after everything written before it, reads beside the keeper."""

        def run(arguments: _Arguments) -> Any:
            operation.arguments(arguments.values)
            if operation.begin is not None:
                return self._in_steps(operation, arguments)
            writes = operation.is_writing(arguments.values)
            document = self.perform(
                lambda engine: operation.run(engine, arguments.values),
                writes=writes,
                disk=operation.disk,
            )
            if writes and operation.method.startswith("session_"):
                self.broadcast.publish_session(str(arguments.get("name") or ""))
            return document

        return run

    def perform(self, work: Callable[[Engine], T], *, writes: bool = False, disk: bool = True) -> T:
        """Something done with the engine, after everything written before it has been seen.

        What has nothing to do with files (`disk` is False) waits for no event.
        """
        proved = self.keeper.catch_up() if disk else True
        if writes or not proved:
            return self._on_keeper(lambda: work(self.engine), proved)
        return work(self.engine)

    def _on_keeper(self, work: Callable[[], T], proved: bool) -> T:
        """Where events cannot be relied on, the engine looks at the disk itself."""

        def looking() -> T:
            self.engine.served = proved
            try:
                return work()
            finally:
                self.engine.served = True

        return self.keeper.call(looking)

    def _in_steps(self, operation: Operation, arguments: _Arguments) -> Any:
        """Work that may wait for hours, without the keeper: it only makes the steps."""
        proved = self.keeper.catch_up() if operation.disk else True
        work = self._on_keeper(lambda: operation.start(self.engine, arguments.values), proved)
        try:
            while not arguments.gone.is_set() and not self._on_keeper(work.step, proved):
                work.wait()
            work.leave()
        finally:
            # A keeper that stops has closed it already.
            with contextlib.suppress(StoppingError):
                self._on_keeper(work.close, proved)
        return work.document()

    async def events(self, request: Request) -> Response:
        """The stream of changes."""
        return StreamingResponse(self.broadcast.stream(), media_type="text/event-stream")


class _Arguments:
    """A request's query or JSON body, read with clear errors."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.gone = threading.Event()
        """Set when nobody waits for the answer any more."""

    @classmethod
    async def of(cls, request: Request) -> _Arguments:
        if request.method == "GET":
            return cls(dict(request.query_params))
        raw = await _body(request)
        try:
            values = json.loads(raw) if raw else {}
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the body is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise UsageError("the body must be a JSON object")
        return cls(values)

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str) or not _is_unicode(value):
            raise UsageError(f"{name} is required and must be text")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if isinstance(value, str) and value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false")
        return value

    def number(self, name: str, default: int) -> int:
        value = self.values.get(name, default)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
            raise UsageError(f"{name} must be a whole number from 0 to 999999999")
        return value

    def seconds(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            raise UsageError(f"{name} must be a positive number of seconds")
        return float(value)


async def _unless_gone(
    request: Request, operation: Callable[[_Arguments], Any], arguments: _Arguments
) -> Any:
    """Run an operation, and tell it when its client has left: nobody pays for nobody."""
    work = asyncio.ensure_future(run_in_threadpool(operation, arguments))
    while not (await asyncio.wait({work}, timeout=_LOOK_AGAIN))[0]:
        if await request.is_disconnected():
            arguments.gone.set()
            break
    return await work


async def _body(request: Request) -> bytes:
    """The body, refused as soon as it is known to be too long."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_BODY:
            raise TooLargeError(f"the body is longer than {MAX_BODY} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _is_unicode(value: str) -> bool:
    """Whether there is no lone surrogate in it, which JSON can spell and UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_subset(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(part, int) and not isinstance(part, bool) for part in value)
        and 1 <= value[0] <= value[1]
    )


def error_document(error: MerkleError) -> dict[str, Any]:
    """An error as JSON has it, with the exit code for the client's process."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "exit_code": int(error.exit_code),
        }
    }


def status_of(error: MerkleError) -> int:
    """The HTTP status for an error."""
    if isinstance(error, TooLargeError):
        return 413
    if isinstance(error, StoppingError):
        return 503
    return 400 if isinstance(error, UsageError) else 409


def _answer(status: int, document: Any) -> Response:
    # Escaped: a workspace's own path may hold bytes that are not UTF-8.
    body = json.dumps(document).encode()
    return Response(body, status_code=status, media_type="application/json")


async def _not_found(request: Request, error: Exception) -> Response:
    problem = UsageError(f"there is no {request.method} {request.url.path}")
    return JSONResponse(error_document(problem), status_code=getattr(error, "status_code", 404))


async def _unexpected(request: Request, error: Exception) -> Response:
    problem = MerkleError(f"unexpected {type(error).__name__}: {error}", hint="see the log")
    return JSONResponse(error_document(problem), status_code=500)
