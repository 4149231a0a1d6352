"""The page's application: routes, templates, and errors as pages."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from indexer.engine.sessions.names import SessionUnknownError
from indexer.engine.tree.history import UnknownRootError
from indexer.engine.tree.resolve import UnknownNodeError
from indexer.errors import MerkleError, UsageError
from indexer.service.server import Api, status_of
from indexer.web import live, text
from indexer.web.guard import Address, Guard
from indexer.web.pages import Pages, Query
from indexer.web.session_pages import SessionPages

_HERE: Final = Path(__file__).parent


class WebPage:
    """The page of one service: a port of this machine, and what answers there."""

    def __init__(self, port: int = 0) -> None:
        self._address = Address(port)

    @property
    def url(self) -> str:
        """Where it can be opened, token included."""
        return self._address.url

    @property
    def listener(self) -> socket.socket:
        """The bound socket."""
        return self._address.listener

    def close(self) -> None:
        """Let go of the port."""
        self._address.close()

    def application(self, api: Api) -> ASGIApp:
        """The application that answers there, behind the guard."""
        return Guard(_Site(api).application(), self._address)


class _Site:
    """The routes, each a template that one method of `Pages` or `SessionPages` fills."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._templates = _templates(api.engine.root)

    def application(self) -> Starlette:
        pages, sessions = Pages(self._api), SessionPages(self._api)
        return Starlette(
            routes=[
                self._route("/", "overview.html", pages.overview),
                self._route("/node", "node.html", pages.node),
                self._route("/search", "search.html", pages.search),
                self._route("/roots", "roots.html", pages.roots),
                self._route("/diff", "diff.html", pages.diff),
                self._route("/health", "health.html", pages.health),
                self._route("/sessions", "sessions.html", sessions.sessions),
                self._route("/session", "session.html", sessions.session),
                Route("/events", self._events),
                Mount("/static", StaticFiles(directory=_HERE / "static")),
            ],
            exception_handlers={404: self._not_found, Exception: self._unexpected},
        )

    def _route(self, path: str, template: str, page: Callable[[Query], dict[str, Any]]) -> Route:
        def fill(query: Query) -> tuple[int, str]:
            try:
                return 200, self._render(template, page(query))
            except (UnknownNodeError, UnknownRootError, SessionUnknownError) as error:
                return 404, self._error(error)
            except MerkleError as error:
                return status_of(error), self._error(error)

        async def endpoint(request: Request) -> Response:
            with self._api.in_use():
                query = Query(dict(request.query_params))
                status, body = await run_in_threadpool(fill, query)
                return HTMLResponse(body, status)

        return Route(path, endpoint)

    def _render(self, template: str, values: dict[str, Any]) -> str:
        return self._templates.get_template(template).render(values)

    def _error(self, error: MerkleError) -> str:
        return self._render("error.html", {"message": error.message, "hint": error.hint})

    async def _events(self, request: Request) -> Response:
        told = live.stream(self._api.broadcast)
        return StreamingResponse(told, media_type="text/event-stream")

    async def _not_found(self, request: Request, error: Exception) -> Response:
        return HTMLResponse(self._error(UsageError("there is no such page")), 404)

    async def _unexpected(self, request: Request, error: Exception) -> Response:
        problem = MerkleError(f"unexpected {type(error).__name__}: {error}")
        return HTMLResponse(self._error(problem), 500)


def _templates(root: Path) -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["workspace"] = root.name or str(root)
    made.globals["workspace_path"] = str(root)
    for function in (
        text.plain,
        text.visible,
        text.marked,
        text.commands,
        text.path_text,
        text.block,
        text.lines,
        text.markdown,
        text.query,
        text.number,
        text.size,
        text.plural,
    ):
        made.filters[function.__name__] = function
    return made
