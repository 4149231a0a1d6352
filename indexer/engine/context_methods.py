"""The operations on context as methods of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from indexer.engine.documents import JsonObject
from indexer.engine.late import LateModule

if TYPE_CHECKING:
    from indexer.engine.search import compose as composition
    from indexer.engine.workspace import Engine
else:
    composition = LateModule("indexer.engine.search.compose")


class ContextMethods:
    """One method per operation; only the engine mixes them in."""

    @property
    def _composer(self) -> Engine:
        return cast("Engine", self)

    def compose(
        self,
        nodes: Sequence[str] = (),
        *,
        query: str | None = None,
        budget: int | None = None,
        max_frames: int | None = None,
        sources: Sequence[str] = (),
        order: str | None = None,
        require_fresh: bool = False,
        record: bool = False,
        types: Sequence[str] = (),
        agents: Sequence[str] = (),
        paths: Sequence[str] = (),
        related: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """A bounded selection of frames as messages, with its manifest."""
        return composition.compose(
            self._composer, nodes, query=query, budget=budget, max_frames=max_frames,
            sources=sources, order=order, require_fresh=require_fresh, record=record, types=types,
            agents=agents, paths_=paths, related=related, since=since, until=until,
            progress=progress,
        )  # fmt: skip

    def replay(self, manifest: str) -> JsonObject:
        """The messages of a recorded manifest again."""
        return composition.replay(self._composer, manifest)

    def compile_events(
        self, events: Sequence[object], policy: Mapping[str, object] | None = None
    ) -> JsonObject:
        """The staged compiler on a stream of events."""
        return composition.compile_events(events, policy)
