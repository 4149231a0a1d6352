"""What is asked for: from where, filtered how, in which order, within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indexer.errors import UsageError

DEFAULT_BUDGET: Final = 8_000
"""Tokens, where none are given: about what a model reads without losing the thread."""

LARGEST: Final = 10**9

NODE: Final = "node"
PARENTS: Final = "parents"
SIBLINGS: Final = "siblings"
BELOW: Final = "below"
RELATED: Final = "related"
WORKSPACE: Final = "workspace"
SOURCES: Final = (NODE, PARENTS, SIBLINGS, BELOW, RELATED, WORKSPACE)

RECENCY: Final = "recency"
TYPE: Final = "type"
AGENT: Final = "agent"
RELEVANCE: Final = "relevance"
ORDERS: Final = (RECENCY, TYPE, AGENT, RELEVANCE)


class RequestError(UsageError):
    """A composition was asked for in a way that has no meaning."""

    code = "request"


@dataclass(frozen=True, slots=True)
class Request:
    """A composition request in which nothing is left to a default; nodes are paths."""

    nodes: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    query: str | None = None
    order: str = RECENCY
    budget: int = DEFAULT_BUDGET
    max_frames: int | None = None
    require_fresh: bool = False
    types: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    only: bool = False
    """Whether types or agents that give the order leave out all others, too."""
    paths: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    source: bool = True
    """Whether the files' own text may be shown."""
    tests: bool = False
    """Whether tests count like everything else."""
    docs: bool = False
    """Whether documents count like everything else."""

    def to_json(self) -> dict[str, object]:
        """The request as a manifest records it."""
        return {
            "nodes": list(self.nodes),
            "related": list(self.related),
            "sources": list(self.sources),
            "query": self.query,
            "order": self.order,
            "budget": self.budget,
            "max_frames": self.max_frames,
            "require_fresh": self.require_fresh,
            "types": list(self.types),
            "agents": list(self.agents),
            "paths": list(self.paths),
            "since": self.since,
            "until": self.until,
            # Left out at their defaults, so that requests recorded before they came stay the same.
            **({"only": True} if self.only else {}),
            **({} if self.source else {"source": False}),
            **({"tests": True} if self.tests else {}),
            **({"docs": True} if self.docs else {}),
        }

    @property
    def kept_types(self) -> tuple[str, ...]:
        """The types that are not left out; none where all stay."""
        return self.types if self.only or self.order != TYPE else ()

    @property
    def kept_agents(self) -> tuple[str, ...]:
        """The agents whose frames are not left out; none where all stay."""
        return self.agents if self.only or self.order != AGENT else ()


def make_request(values: Mapping[str, object]) -> Request:
    """A request with its defaults filled in; refused where it contradicts itself."""
    given = {name: value for name, value in values.items() if value is not None}
    request = Request(**given)  # type: ignore[arg-type]  # checked right after
    for name in ("budget", "max_frames"):
        value = getattr(request, name)
        if value is not None and not 0 <= value <= LARGEST:
            raise RequestError(f"{name} must be a whole number from 0 to {LARGEST}")
    if request.query is not None:
        check_query(request.query)
    sources = request.sources or _usual_sources(request)
    for source in sources:
        if source not in SOURCES:
            raise RequestError(
                f"there is no source {source!r}", hint=f"use one of: {', '.join(SOURCES)}"
            )
        if source != WORKSPACE and not (request.related if source == RELATED else request.nodes):
            what = "related nodes" if source == RELATED else "nodes"
            raise RequestError(
                f"the source {source} needs {what}", hint="name them, or use source workspace"
            )
    order = given.get("order") or _usual_order(request)
    if request.related:
        sources = (*sources, RELATED)
    given["sources"] = tuple(name for name in SOURCES if name in sources)
    given["order"] = order
    return Request(**given)  # type: ignore[arg-type]  # checked above


def check_query(query: str) -> None:
    """Refuse a question that asks for nothing."""
    if not query.strip():
        raise RequestError("the query is empty", hint="say what is looked for, or leave it out")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise RequestError("the query is not valid Unicode text") from None


def _usual_sources(request: Request) -> tuple[str, ...]:
    if not request.nodes:
        return (RELATED,) if request.related and request.query is None else (WORKSPACE,)
    if request.query is not None:
        return (NODE, WORKSPACE)
    return (NODE, PARENTS, SIBLINGS, BELOW)


def _usual_order(request: Request) -> str:
    """Without a query relevance is closeness to the named nodes."""
    return RELEVANCE if request.query is not None or request.nodes else RECENCY
