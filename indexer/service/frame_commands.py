"""The operations on frames as methods, for whoever can run an operation by name."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Document = dict[str, Any]
Progress = Callable[[int], None]
"""Told how many more frames are done; only where the work is done in this process."""


class FrameCommands(ABC):
    """One method per command on frames; arguments are named as the engine names them."""

    @abstractmethod
    def operate(self, name: str, progress: Progress | None = None, **arguments: Any) -> Document:
        """Run an operation here, telling how it goes on, or in the service."""

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
    ) -> Document:
        """Append a note, bound to what its author read (`seen` is the NodeID that was)."""
        return self.operate(
            "put-frame", node=node, content=content, frame_type=frame_type, agent=agent,
            seen=seen, on=on, meta=dict(meta) if meta else None, allow_secrets=allow_secrets,
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
    ) -> Document:
        """A node with the frames a view selects."""
        return self.operate(
            "get-node", node=node, view=view, max_frames=max_frames, frame_type=frame_type,
            agent=agent, query=query,
        )  # fmt: skip

    def list_frames(self, node: str, *, frame_type: str | None = None) -> Document:
        """The full history of a node, newest first."""
        return self.operate("list-frames", node=node, frame_type=frame_type)

    def get_head(
        self, node: str, *, frame_type: str | None = None, agent: str | None = None
    ) -> Document:
        """The heads of a node."""
        return self.operate("get-head", node=node, frame_type=frame_type, agent=agent)

    def explain(self, node: str, *, frame_type: str | None = None) -> Document:
        """Why a frame is what it is, or why it is stale."""
        return self.operate("explain", node=node, frame_type=frame_type)

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
        progress: Progress | None = None,
    ) -> Document:
        """Make again what is stale at a node, or only tell what that would be.

        Calls of models are limited by `max_calls` and `max_cost`; without either, a large run
        has to be agreed to with `yes`. Without `models` none is asked.
        """
        return self.operate(
            "regenerate", progress, node=node, frame_type=frame_type, recursive=recursive,
            plan=plan, agent=agent, max_calls=max_calls, max_cost=max_cost, yes=yes, models=models,
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
        progress: Progress | None = None,
    ) -> Document:
        """Frames of a type for a folder, children first; calls of models as in `regenerate`."""
        return self.operate(
            "synthesize", progress, node=node, frame_type=frame_type, policy=policy, agent=agent,
            max_calls=max_calls, max_cost=max_cost, yes=yes,
        )  # fmt: skip

    def invalidate(self, node: str, *, frame_type: str | None = None) -> Document:
        """Make generated frames run again next time, past the memo."""
        return self.operate("invalidate", node=node, frame_type=frame_type)

    def agent_add(self, agent_id: str, role: str, can: Sequence[str] = ()) -> Document:
        """Register an agent."""
        return self.operate("agent-add", agent_id=agent_id, role=role, can=list(can))

    def agent_list(self) -> Document:
        """Every registered agent."""
        return self.operate("agents")

    def agent_require(self, agent_id: str, capability: str) -> Document:
        """Raise unless a registered agent may do that: read, write or synthesize."""
        return self.operate("agent-require", agent=agent_id, capability=capability)

    def export(self, file: str | os.PathLike[str], nodes: Sequence[str] = ()) -> Document:
        """Write what was written and computed to a file."""
        return self.operate("export", file=os.path.abspath(file), nodes=list(nodes))

    def import_(self, file: str | os.PathLike[str], *, allow_secrets: bool = False) -> Document:
        """Take in a pack."""
        return self.operate("import", file=os.path.abspath(file), allow_secrets=allow_secrets)

    def compact(self, keep_seconds: float) -> Document:
        """Forget the bodies of old deterministic frames."""
        return self.operate("compact", keep_seconds=keep_seconds)
