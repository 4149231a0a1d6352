"""HTTP over the Unix socket: each route calls one operation and returns its document."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from indexer import __version__
from indexer.core.arguments import checked
from indexer.core.progress import Meter
from indexer.engine.search.sql import ask
from indexer.engine.tree.scan import known_scan
from indexer.engine.tree.status import recorded_status, status
from indexer.engine.workspace import Engine
from indexer.errors import MalformedError, MerkleError, UncheckedError, UsageError
from indexer.scan.large_files import BEING_READ
from indexer.service.client import MARK
from indexer.service.events import Broadcast
from indexer.service.jobs import StoppingError, stopping
from indexer.service.openapi import openapi_document
from indexer.service.operations import OPERATIONS, Operation
from indexer.service.request_values import MediaTypeError, TooLargeError, from_body, from_query
from indexer.service.routes import EVENT_STREAM, FIXED, JSON, OF_SESSIONS, FixedRoute, SessionRoute
from indexer.service.writing_thread import WritingThread

T = TypeVar("T")
Values = dict[str, Any]

_LOOK_AGAIN: Final = 0.5
"""Seconds between two looks whether a client of a long run is still there."""

LONGEST_QUERY: Final = 300.0
"""Seconds that a query may take at most, whatever the client would wait."""


MOST_QUERIES: Final = 4
"""Queries that run at a time; others wait for their turn."""

MOST_WAITING: Final = 100
"""Queries that may wait; more are refused."""

MOST_STATUSES: Final = 16
"""Clients that are told the status at a time."""


class BusyError(UncheckedError):
    """More is asked than can be done at a time; nothing was done."""

    code = "busy"


class Api:
    """The routes of one workspace's service."""

    def __init__(self, engine: Engine, writer: WritingThread, broadcast: Broadcast) -> None:
        self.engine = engine
        self.writer = writer
        self.broadcast = broadcast
        self.web: str | None = None
        """The address of the web page, where there is one."""
        self.last_used = time.monotonic()
        self._busy = 0
        self._description: dict[str, Any] | None = None
        # Threads of their own: a status never waits until a query or a long run is over.
        self._statuses = CapacityLimiter(MOST_STATUSES)
        self._queries = CapacityLimiter(MOST_QUERIES)
        self._waited_for: dict[threading.Event, CapacityLimiter | None] = {}
        """What ends when its client leaves, by the event that tells it so."""
        self._meters: dict[Meter, tuple[str, str]] = {}
        """How far each request has come, with the operation and its client's mark."""
        self._leaving = False

    def application(self) -> Starlette:
        """The ASGI application."""
        routes = [self._fixed(route) for route in FIXED]
        routes += [self._operation(name, operation) for name, operation in OPERATIONS.items()]
        routes += [self._of_session(route) for route in OF_SESSIONS]
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

    def _fixed(self, route: FixedRoute) -> Route:
        answer = getattr(self, route.handler)
        if route.media == EVENT_STREAM:
            return Route(route.path, answer, methods=["GET"])

        async def endpoint(request: Request) -> Response:
            """Answered at once, even while every worker thread waits."""
            with self.in_use():
                try:
                    checked({}, {}, dict(request.query_params))
                    return _answer(200, answer())
                except MerkleError as error:
                    return _refusal(error)

        return Route(route.path, endpoint, methods=["GET"])

    def _operation(self, name: str, operation: Operation) -> Route:
        special: dict[str, Callable[[Values, Meter], Any]] = {
            "status": self.status,
            "scan": self.scan,
            "validate": self.validate,
        }
        run = special.get(name) or self._in_one_go(operation)
        limiter = self._statuses if name == "status" else None
        # What ends when its client leaves.
        breakable = self._in_steps(operation) if operation.in_steps else None
        if name == "sql":
            breakable, limiter = self.sql, self._queries

        async def endpoint(request: Request) -> Response:
            with self.in_use(), self._metered(request, name) as meter:
                try:
                    if operation.get:
                        values = from_query(dict(request.query_params), operation.known)
                    else:
                        values = await from_body(request)
                    if breakable is not None:
                        told = await self._unless_gone(request, breakable, values, meter, limiter)
                        return _answer(200, told)
                    told = await to_thread.run_sync(run, values, meter, limiter=limiter)
                    return _answer(200, told)
                except MerkleError as error:
                    return _refusal(error)

        return Route(f"/v1/{name}", endpoint, methods=["GET" if operation.get else "POST"])

    def _of_session(self, route: SessionRoute) -> Route:
        run = self._in_one_go(OPERATIONS[route.operation])

        async def endpoint(request: Request) -> Response:
            with self.in_use():
                try:
                    checked({}, {}, dict(request.query_params))
                    values = {**route.given, "name": request.path_params["name"]}
                    return _answer(200, await to_thread.run_sync(run, values, Meter()))
                except MerkleError as error:
                    return _refusal(error)

        # A name may hold slashes.
        return Route(route.path.replace("{name}", "{name:path}"), endpoint, methods=["GET"])

    # -- what only a service can tell, answered at once

    def openapi(self) -> dict[str, Any]:
        """This description."""
        if self._description is None:
            self._description = openapi_document(type(self))
        return self._description

    def health(self) -> dict[str, Any]:
        """Whether the service is well."""
        health = self.writer.health()
        return {
            "state": health.state,
            "reason": health.reason,
            "pid": os.getpid(),
            "version": __version__,
            "watches": health.watches,
            "batches": health.batches,
            "pending": health.pending,
            "frames": health.frames,
            "team": health.team,
        }

    def working(self) -> dict[str, Any]:
        """What is being done, for whom, and how far it has come."""
        meters = {self.writer.meter: ("watch", ""), **self._meters}
        told = [(meter.read(), *about) for meter, about in meters.items()]
        return {
            "working": [
                {"mark": mark, "operation": operation, **reading._asdict()}
                for reading, operation, mark in told
                if reading.doing
            ]
        }

    @contextlib.contextmanager
    def _metered(self, request: Request, name: str) -> Iterator[Meter]:
        """What a request tells how far it is, listed while it lasts."""
        meter = Meter()
        self._meters[meter] = (name, request.headers.get(MARK, "")[:64])
        try:
            yield meter
        finally:
            del self._meters[meter]

    # -- operations that a service does in its own way, each on a worker thread

    def status(self, values: Values, meter: Meter) -> dict[str, Any]:
        """The recorded state, where the index is known to have caught up with the disk."""
        given = OPERATIONS["status"].arguments(values)
        if given.get("wait", True):
            caught_up = self.writer.catch_up()
            state = "current" if caught_up else "degraded"
        else:
            state = "unknown"
        health = self.writer.health()
        if health.state == "unavailable":
            state = "unavailable"
        elif state == "degraded" or health.state in ("degraded", "unhealthy"):
            # Events cannot be relied on, or nothing is recorded: compare with the disk itself.
            document = self.writer.call(lambda: status(self.engine, progress=meter))
            if document["state"] == "current":
                document["state"] = "degraded"
            return self._with_service(dict(document))
        document = recorded_status(self.engine.frames, self.engine.recorded, state)
        if state == "current" and any(
            remark["reason"].startswith(BEING_READ) for remark in document["unreadable"]
        ):
            # The remark and the tree are recorded together: what is read but not yet recorded
            # counts as not read.
            document["state"] = "stale"
        return self._with_service(dict(document))

    def _with_service(self, document: dict[str, Any]) -> dict[str, Any]:
        health = self.writer.health()
        document["service"] = {
            "running": True,
            "pid": os.getpid(),
            "watches": health.watches,
            "degraded": health.reason,
            "web": self.web,
        }
        return document

    def scan(self, values: Values, meter: Meter) -> Any:
        """What the service knows, where events prove it; otherwise a scan by the writing thread."""
        given = OPERATIONS["scan"].arguments(values)
        if not (given.get("force") or given.get("accept_empty")) and self._watches():
            before, tree, started = self.engine.trees.head(), self.engine.tree, time.monotonic()
            if before is not None and self.writer.catch_up() and self._watches():
                return known_scan(self.engine.recorded, before, tree, time.monotonic() - started)
        return self.writer.call(lambda: self.writer.accept_scan(meter, **given))

    def _watches(self) -> bool:
        return self.writer.health().state == "watching"

    def validate(self, values: Values, meter: Meter) -> Any:
        """The index has to catch up only where the disk is compared with it."""
        operation = OPERATIONS["validate"]
        given = operation.arguments(values)
        if any(given.get(name) for name in ("content", "locked", "subset")):
            self.writer.catch_up()
        return self.writer.call(lambda: operation.run(self.engine, values, meter))

    def sql(self, values: Values, gone: threading.Event, meter: Meter) -> Any:
        """A query may take only so long, and never longer than its client waits."""
        given = OPERATIONS["sql"].arguments(values)
        if given.get("timeout", 0) > LONGEST_QUERY:
            given["timeout"] = LONGEST_QUERY
        return ask(self.engine.database, **given, gone=gone)

    def _in_one_go(self, operation: Operation) -> Callable[[Values, Meter], Any]:
        """An operation: after everything written before it, reads beside the writing thread."""

        def run(values: Values, meter: Meter) -> Any:
            operation.arguments(values)
            writes = operation.is_writing(values)
            document = self.perform(
                lambda engine: operation.run(engine, values, meter),
                writes=writes,
                disk=operation.disk,
            )
            if writes and operation.module.startswith("sessions."):
                name = str(values.get("name") or "")
                self.broadcast.publish_session(name)
                if self.broadcast.readers:
                    # Imported late: most services never see a session.
                    from indexer.service.ctree_events import ctree_events

                    # It is done, whatever becomes of the news about it.
                    with contextlib.suppress(MerkleError):
                        self.broadcast.publish_told(ctree_events(self.engine, name, document))
            return document

        return run

    def _in_steps(self, operation: Operation) -> Callable[[Values, threading.Event, Meter], Any]:
        """An operation that may wait for hours: the writing thread only makes its steps."""

        def run(values: Values, gone: threading.Event, meter: Meter) -> Any:
            operation.arguments(values)
            proved = self.writer.catch_up() if operation.disk else True
            start = partial(operation.start, self.engine, values, meter)
            work = self._on_writing_thread(lambda: self._written(start), proved)
            done = False
            try:
                while not done and not gone.is_set():
                    done = self._on_writing_thread(work.step, proved)
                    if not done:
                        work.wait()
                work.leave()
            finally:
                # A writer that stops has closed it already.
                with contextlib.suppress(StoppingError):
                    self._on_writing_thread(work.close, proved)
            if self._leaving and not done:
                # Whoever asked finds this service's successor, or does the rest.
                raise stopping()
            return work.document()

        return run

    def perform(self, work: Callable[[Engine], T], *, writes: bool = False, disk: bool = True) -> T:
        """Something done with the engine, after everything written before it has been seen.

        What has nothing to do with files (`disk` is False) waits for no event.
        """
        proved = self.writer.catch_up() if disk else True
        if writes:
            return self._on_writing_thread(lambda: self._written(lambda: work(self.engine)), proved)
        if proved:
            return work(self.engine)
        return self._on_writing_thread(lambda: work(self.engine), proved)

    def _written(self, work: Callable[[], T]) -> T:
        """Do a write, unless the index is no longer where the next process would look for it."""
        self.engine.disk.check_root()
        return work()

    def _on_writing_thread(self, work: Callable[[], T], proved: bool) -> T:
        """Where events cannot be relied on, the engine looks at the disk itself."""

        def looking() -> T:
            with self.engine.looking_itself():
                return work()

        return self.writer.call(work if proved else looking)

    async def _unless_gone(
        self,
        request: Request,
        operation: Callable[[Values, threading.Event, Meter], Any],
        values: Values,
        meter: Meter,
        limiter: CapacityLimiter | None,
    ) -> Any:
        """Run an operation, and tell it when its client has left: nobody pays for nobody."""
        queries = sum(one is self._queries for one in self._waited_for.values())
        if limiter is self._queries and queries >= MOST_QUERIES + MOST_WAITING:
            raise BusyError(
                f"{MOST_QUERIES} queries run and {MOST_WAITING} wait already",
                hint="wait for some of them, or give them a shorter --timeout",
            )
        gone = threading.Event()
        self._waited_for[gone] = limiter
        try:
            work = asyncio.ensure_future(
                to_thread.run_sync(operation, values, gone, meter, limiter=limiter)
            )
            while not (await asyncio.wait({work}, timeout=_LOOK_AGAIN))[0]:
                if self._leaving or await request.is_disconnected():
                    gone.set()
                    break
            return await work
        finally:
            del self._waited_for[gone]

    def leave(self) -> None:
        """The service stops: nothing that runs for a client goes on."""
        self._leaving = True
        for gone in [*self._waited_for]:
            gone.set()

    async def events(self, request: Request) -> Response:
        """The stream of changes."""
        return StreamingResponse(self.broadcast.stream(), media_type=EVENT_STREAM)


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
    if isinstance(error, TooLargeError | MediaTypeError):
        return 413 if isinstance(error, TooLargeError) else 415
    if isinstance(error, StoppingError | BusyError):
        return 503
    return 400 if isinstance(error, UsageError) else 409


def _refusal(error: MerkleError) -> Response:
    """What the description excludes is malformed; the rest was understood, and cannot be done."""
    understood = isinstance(error, UsageError) and not isinstance(error, MalformedError)
    return _answer(422 if understood else status_of(error), error_document(error))


def _answer(status: int, document: Any) -> Response:
    # Escaped: a workspace's own path may hold bytes that are not UTF-8.
    body = json.dumps(document).encode()
    return Response(body, status_code=status, media_type=JSON)


async def _not_found(request: Request, error: Exception) -> Response:
    problem = UsageError(f"there is no {request.method} {request.url.path}")
    status, headers = getattr(error, "status_code", 404), getattr(error, "headers", None)
    # With 405 comes what the path does allow.
    return JSONResponse(error_document(problem), status_code=status, headers=headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    problem = MerkleError(f"unexpected {type(error).__name__}: {error}", hint="see the log")
    return JSONResponse(error_document(problem), status_code=500)
