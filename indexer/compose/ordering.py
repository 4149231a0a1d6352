"""Orders of candidates; every tie ends in the FrameID."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from indexer.compose.candidates import Candidate
from indexer.compose.relevance import nearness
from indexer.compose.request import AGENT, NODE, ORDERS, RECENCY, RELEVANCE, TYPE, Request
from indexer.core.frames import FrameId
from indexer.errors import UsageError

ENTRY_POINT_GROUP: Final = "indexer.orderings"

Ordering = Callable[[Sequence[Candidate], Request], Sequence[Candidate]]
"""A custom order: some or all of the candidates, first things first; nothing else, none twice."""

Scores = Mapping[FrameId, int]


class OrderingError(UsageError):
    """An order is unknown, or a custom one did what it must not do."""

    code = "ordering"


def in_order(
    candidates: Sequence[Candidate], request: Request, scores: Scores, custom: Ordering | None
) -> list[Candidate]:
    """The candidates, first things first; a custom order may leave some out."""
    if custom is not None:
        return _by_custom(candidates, request, custom)
    if request.order == RELEVANCE:
        return _by_relevance(candidates, request, scores)
    if request.order == TYPE:
        rank = _ranks(request.types)
        return sorted(candidates, key=lambda c: (*rank(c.type), -c.seq, c.frame_id))
    if request.order == AGENT:
        rank = _ranks(request.agents)
        return sorted(candidates, key=lambda c: (*rank(c.agent), -c.seq, c.frame_id))
    assert request.order == RECENCY, request.order
    return sorted(candidates, key=lambda c: (-c.seq, c.frame_id))


def _ranks(priority: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    """As listed in the request; what is not listed follows by name."""
    places = {name: place for place, name in enumerate(priority)}
    return lambda name: (places.get(name, len(places)), name)


def _by_relevance(
    candidates: Sequence[Candidate], request: Request, scores: Scores
) -> list[Candidate]:
    if request.query is None:
        near = {c.path: -nearness(c.path, request.nodes) for c in candidates}
        return sorted(candidates, key=lambda c: (near[c.path], -c.seq, c.frame_id))
    # What was asked for by name comes before what was found.
    named = frozenset(request.nodes if NODE in request.sources else ())
    return sorted(
        candidates,
        key=lambda c: (c.path not in named, -scores.get(c.frame_id, 0), -c.seq, c.frame_id),
    )


def _by_custom(
    candidates: Sequence[Candidate], request: Request, custom: Ordering
) -> list[Candidate]:
    given = sorted(candidates)
    try:
        ordered, again = list(custom(tuple(given), request)), list(custom(tuple(given), request))
    except Exception as error:  # somebody else's code may raise anything
        raise OrderingError(
            f"the ordering {request.order} failed: {type(error).__name__}: {error}"
        ) from error
    if ordered != again:
        raise OrderingError(f"the ordering {request.order} gave two orders for one request")
    known = {candidate.frame_id for candidate in given}
    ids = [candidate.frame_id for candidate in ordered]
    if len(set(ids)) != len(ids) or not known.issuperset(ids):
        raise OrderingError(f"the ordering {request.order} gave something that it was not given")
    return ordered


def custom_ordering(name: str) -> Ordering | None:
    """The order that a plug-in provides under a name; None for a built-in one."""
    if name in ORDERS:
        return None
    # Imported late: only a custom order needs it.
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            made = point.load()
        except Exception as error:
            raise OrderingError(f"the ordering {name} cannot be loaded: {error}") from error
        if not callable(made):
            raise OrderingError(f"the ordering {name} is nothing that can be called")
        ordering: Ordering = made
        return ordering
    raise OrderingError(
        f"there is no order {name!r}",
        hint=f"use one of: {', '.join(ORDERS)}, or install one as entry point {ENTRY_POINT_GROUP}",
    )
