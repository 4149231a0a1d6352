"""The operations on context as methods, for whoever can run an operation by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from indexer.service.frame_commands import Document, Progress


class ContextCommands(ABC):
    """One method per command on context; arguments are named as the engine names them."""

    @abstractmethod
    def operate(self, name: str, progress: Progress | None = None, **arguments: Any) -> Document:
        """Run an operation here, or in the service."""

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
        progress: Progress | None = None,
    ) -> Document:
        """A deterministic selection of frames within `budget` tokens, and its manifest.

        Without nodes the whole workspace is the source. Without a budget it is 8,000 tokens.
        """
        return self.operate(
            "compose", progress, nodes=list(nodes), query=query, budget=budget,
            max_frames=max_frames, sources=list(sources), order=order, require_fresh=require_fresh,
            record=record, types=list(types), agents=list(agents), paths=list(paths),
            related=list(related), since=since, until=until,
        )  # fmt: skip

    def replay(self, manifest_id: str) -> Document:
        """The messages of a recorded manifest again, byte for byte."""
        return self.operate("replay", manifest=manifest_id)

    def compile(
        self, events: Sequence[object], policy: Mapping[str, object] | None = None
    ) -> Document:
        """The staged compiler on a stream of events; the same as `indexer.compile_stages`."""
        return self.operate(
            "compile", events=list(events), policy=dict(policy) if policy is not None else None
        )
