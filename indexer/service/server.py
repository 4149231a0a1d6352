"""HTTP over the Unix socket: each route calls one operation and returns its document."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from indexer import __version__
from indexer.engine.engine import Engine
from indexer.engine.status import recorded_status
from indexer.errors import MerkleError, UsageError
from indexer.service.arguments import checked
from indexer.service.events import Broadcast
from indexer.service.jobs import StoppingError
from indexer.service.keeper import Keeper
from indexer.service.openapi import openapi_document
from indexer.service.operations import OPERATIONS, Operation
from indexer.service.request_values import MediaTypeError, TooLargeError, from_body, from_query
from indexer.service.routes import EVENT_STREAM, FIXED, FixedRoute
from indexer.store.database import DatabaseError

Values = dict[str, Any]

LONGEST_QUERY: Final = 300.0
"""Seconds that a query may take at most, whatever the client would wait."""


class Api:
    """The routes of one workspace's service."""

    def __init__(self, engine: Engine, keeper: Keeper, broadcast: Broadcast) -> None:
        self._engine = engine
        self._keeper = keeper
        self._broadcast = broadcast
        self.last_used = time.monotonic()
        self._busy = 0
        self._description: dict[str, Any] | None = None

    def application(self) -> Starlette:
        """The ASGI application."""
        routes = [self._fixed(route) for route in FIXED]
        routes += [
            self._route("POST", f"/v1/{name}", self._frame_operation(operation))
            for name, operation in OPERATIONS.items()
        ]
        return Starlette(
            routes=routes,
            exception_handlers={404: _not_found, 405: _not_found, Exception: _unexpected},
        )

    @property
    def idle_since(self) -> float | None:
        """Since when nobody has asked anything; None while somebody is being served."""
        return None if self._busy or self._broadcast.readers else self.last_used

    def _fixed(self, route: FixedRoute) -> Route:
        answer = getattr(self, route.handler)
        if route.media == EVENT_STREAM:
            return Route(route.path, answer, methods=[route.method])
        known = {**route.required, **route.optional}

        def run(values: Values) -> Any:
            if route.method == "GET":
                values = from_query(values, known)
            return answer(checked(route.required, route.optional, values))

        return self._route(route.method, route.path, run, inline=route.inline)

    def _route(
        self, method: str, path: str, operation: Callable[[Values], Any], *, inline: bool = False
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            self._busy += 1
            try:
                values = dict(request.query_params) if method == "GET" else await from_body(request)
                if inline:
                    return _answer(200, operation(values))
                return _answer(200, await run_in_threadpool(operation, values))
            except MerkleError as error:
                return _answer(_status_of(error), error_document(error))
            finally:
                self._busy -= 1
                self.last_used = time.monotonic()

        return Route(path, endpoint, methods=[method])

    # -- operations, each on a worker thread

    def openapi(self, values: Values) -> dict[str, Any]:
        """This description."""
        if self._description is None:
            self._description = openapi_document(type(self))
        return self._description

    def health(self, values: Values) -> dict[str, Any]:
        """Whether the service is well."""
        health = self._keeper.health()
        return {
            "state": health.state,
            "reason": health.reason,
            "pid": os.getpid(),
            "version": __version__,
            "watches": health.watches,
            "batches": health.batches,
            "pending": health.pending,
        }

    def status(self, values: Values) -> dict[str, Any]:
        """The index against the disk, proved by a cookie unless the client will not wait."""
        if values.get("wait", True):
            caught_up = self._keeper.catch_up()
            state = "current" if caught_up else "degraded"
        else:
            state = "unknown"
        health = self._keeper.health()
        if health.state == "unhealthy":
            raise DatabaseError(health.reason or "the database failed", hint="it is being reopened")
        if health.state == "unavailable":
            state = "unavailable"
        elif state == "degraded" or health.state == "degraded":
            # Events cannot be relied on: compare with the disk itself.
            document = self._keeper.call(self._engine.status)
            if document["state"] == "current":
                document["state"] = "degraded"
            return self._with_service(dict(document))
        return self._with_service(dict(recorded_status(self._engine, state)))

    def _with_service(self, document: dict[str, Any]) -> dict[str, Any]:
        health = self._keeper.health()
        document["service"] = {
            "running": True,
            "pid": os.getpid(),
            "watches": health.watches,
            "degraded": health.reason,
        }
        return document

    def scan(self, values: Values) -> Any:
        """A scan on request."""
        force, accept = values.get("force", False), values.get("accept_empty", False)
        return self._keeper.call(lambda: self._keeper.accept_scan(force=force, accept_empty=accept))

    def validate(self, values: Values) -> Any:
        """Every invariant; the disk too when asked."""
        if any(values.get(name) for name in ("content", "locked", "subset")):
            self._keeper.catch_up()
        part = values.pop("subset", None)
        subset = None if part is None else (part[0], part[1])
        return self._keeper.call(lambda: self._engine.validate(subset=subset, **values))

    def log(self, values: Values) -> Any:
        """Recorded roots."""
        return self._engine.log(**values)

    def diff(self, values: Values) -> Any:
        """Two recorded roots compared."""
        return self._engine.diff(**values)

    def sql(self, values: Values) -> Any:
        """One SELECT."""
        timeout = min(values.pop("timeout", 10.0), LONGEST_QUERY)
        return self._engine.sql(**values, timeout=timeout)

    def resolve(self, values: Values) -> Any:
        """A node by path or id."""
        self._keeper.catch_up()
        # The tree in memory belongs to the keeper's thread.
        return self._keeper.call(lambda: self._engine.resolve(**values))

    def why_ignored(self, values: Values) -> Any:
        """The rule that leaves a path out."""
        return self._keeper.call(lambda: self._engine.why_ignored(**values))

    def _frame_operation(self, operation: Operation) -> Callable[[Values], Any]:
        """An operation on frames: after everything written before it, reads beside the keeper."""

        def run(values: Values) -> Any:
            operation.arguments(values)
            proved = self._keeper.catch_up()

            def on_keeper() -> Any:
                # Where events cannot be relied on, the engine looks at the disk itself.
                self._engine.served = proved
                try:
                    return operation.run(self._engine, values)
                finally:
                    self._engine.served = True

            if operation.writes or not proved:
                return self._keeper.call(on_keeper)
            return operation.run(self._engine, values)

        return run

    async def events(self, request: Request) -> Response:
        """The stream of changes."""
        return StreamingResponse(self._broadcast.stream(), media_type="text/event-stream")


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


def _status_of(error: MerkleError) -> int:
    if isinstance(error, TooLargeError | MediaTypeError):
        return 413 if isinstance(error, TooLargeError) else 415
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
