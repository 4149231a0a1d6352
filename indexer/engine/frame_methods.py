"""The operations on frames as methods of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from indexer.engine.documents import JsonObject
from indexer.engine.late import LateModule
from indexer.engine.long_work import Steps, run_to_end

if TYPE_CHECKING:
    from indexer.engine.durable import compact as compaction
    from indexer.engine.durable import packs as transfer
    from indexer.engine.frames import agents, explain, notes
    from indexer.engine.frames import read as reading
    from indexer.engine.make import commands as maintenance
    from indexer.engine.make import run as runs
    from indexer.engine.workspace import Engine
else:
    agents = LateModule("indexer.engine.frames.agents")
    compaction = LateModule("indexer.engine.durable.compact")
    explain = LateModule("indexer.engine.frames.explain")
    maintenance = LateModule("indexer.engine.make.commands")
    notes = LateModule("indexer.engine.frames.notes")
    reading = LateModule("indexer.engine.frames.read")
    runs = LateModule("indexer.engine.make.run")
    transfer = LateModule("indexer.engine.durable.packs")


class FrameMethods:
    """One method per operation; only the engine mixes them in."""

    @property
    def _engine(self) -> Engine:
        return cast("Engine", self)

    def put_frame(
        self,
        node: str,
        content: str,
        *,
        frame_type: str,
        agent: str,
        seen: str | None = None,
        on: str | None = None,
        meta: Mapping[str, str] | None = None,
        allow_secrets: bool = False,
    ) -> JsonObject:
        """Append a note, bound to what its author read."""
        return notes.put_frame(
            self._engine, node, content, frame_type=frame_type, agent=agent, seen=seen, on=on,
            meta=meta, allow_secrets=allow_secrets,
        )  # fmt: skip

    def get_node(
        self,
        node: str,
        *,
        view: str = "recency",
        max_frames: int = 20,
        frame_type: str | None = None,
        agent: str | None = None,
        query: str | None = None,
    ) -> JsonObject:
        """A node with the frames a view selects."""
        return reading.get_node(
            self._engine, node, view=view, max_frames=max_frames, frame_type=frame_type,
            agent=agent, query=query,
        )  # fmt: skip

    def list_frames(
        self,
        node: str,
        *,
        frame_type: str | None = None,
        content: bool = False,
        limit: int | None = None,
    ) -> JsonObject:
        """The history of a node, newest first; with what the frames say on request."""
        return reading.list_frames(
            self._engine, node, frame_type=frame_type, content=content, limit=limit
        )

    def get_head(
        self, node: str, *, frame_type: str | None = None, agent: str | None = None
    ) -> JsonObject:
        """The heads of a node."""
        return reading.get_head(self._engine, node, frame_type=frame_type, agent=agent)

    def explain(self, node: str, *, frame_type: str | None = None) -> JsonObject:
        """Why a frame is what it is, or why it is stale."""
        return explain.explain(self._engine, node, frame_type=frame_type)

    def regenerate(
        self,
        node: str = "",
        *,
        frame_type: str | None = None,
        recursive: bool = True,
        plan: bool = False,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        models: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """Make again what is stale at a node, or only tell what that would be."""
        return run_to_end(
            self.begin_regenerate(
                node, frame_type=frame_type, recursive=recursive, plan=plan, agent=agent,
                max_calls=max_calls, max_cost=max_cost, yes=yes, models=models, progress=progress,
            )
        )  # fmt: skip

    def begin_regenerate(
        self,
        node: str = "",
        *,
        frame_type: str | None = None,
        recursive: bool = True,
        plan: bool = False,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        models: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> Steps:
        """The same as steps, for whoever has other things to do in between."""
        return maintenance.regenerate(
            self._engine, node, frame_type=frame_type, recursive=recursive, plan=plan, agent=agent,
            limits=runs.Limits(max_calls, max_cost, yes, models), progress=progress,
        )  # fmt: skip

    def synthesize(
        self,
        node: str,
        *,
        frame_type: str,
        policy: str | None = None,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """Frames of a type for a folder, children first."""
        return run_to_end(
            self.begin_synthesize(
                node, frame_type=frame_type, policy=policy, agent=agent, max_calls=max_calls,
                max_cost=max_cost, yes=yes, progress=progress,
            )
        )  # fmt: skip

    def begin_synthesize(
        self,
        node: str,
        *,
        frame_type: str,
        policy: str | None = None,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Steps:
        """The same as steps."""
        return maintenance.synthesize(
            self._engine, node, frame_type=frame_type, policy=policy, agent=agent,
            limits=runs.Limits(max_calls, max_cost, yes), progress=progress,
        )  # fmt: skip

    def invalidate(self, node: str, *, frame_type: str | None = None) -> JsonObject:
        """Make generated frames run again next time, past the memo."""
        return maintenance.invalidate(self._engine, node, frame_type=frame_type)

    def add_agent(self, agent_id: str, role: str, can: Sequence[str] = ()) -> JsonObject:
        """Register an agent."""
        return agents.add_agent(self._engine, agent_id, role, can)

    def list_agents(self) -> JsonObject:
        """Every registered agent."""
        return agents.list_agents(self._engine)

    def require_agent(self, agent: str, capability: str) -> JsonObject:
        """Raise unless a registered agent may do that."""
        return agents.require_agent(self._engine, agent, capability)

    def export_pack(self, file: Path, nodes: Sequence[str] = ()) -> JsonObject:
        """Write what was written and computed to a file."""
        return transfer.export_pack(self._engine, file, nodes)

    def import_pack(self, file: Path, *, allow_secrets: bool = False) -> JsonObject:
        """Take in a pack."""
        return transfer.import_pack(self._engine, file, allow_secrets)

    def compact(self, keep_seconds: float) -> JsonObject:
        """Forget the bodies of old deterministic frames."""
        return run_to_end(self.begin_compact(keep_seconds))

    def begin_compact(self, keep_seconds: float) -> Steps:
        """The same as steps."""
        return compaction.Compaction(self._engine, keep_seconds)
