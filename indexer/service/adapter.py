"""`AgentAdapter`: one agent's reads and writes, over the local engine or the socket alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from indexer.engine.frames.roles import AgentError
from indexer.service.served import ServedWorkspace
from indexer.service.workspace import Workspace


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Who an agent is, and what it may do."""

    agent_id: str
    role: str
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContextView:
    """Which frames of a node are wanted, in which order and how many at most."""

    order: str = "recency"
    max_frames: int = 20
    frame_type: str | None = None
    agent: str | None = None
    query: str | None = None
    """What to order by, with the order `relevance`."""


@dataclass(frozen=True, slots=True)
class NewFrame:
    """A frame as its author gives it; `seen` is the NodeID that was read."""

    type: str
    content: str
    seen: str | None = None
    on: str | None = None
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A file or folder as the index knows it."""

    node_id: str
    path: str
    kind: str
    content_id: str
    size: int
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContextFrame:
    """One selected frame, labelled with how fresh it is and why."""

    frame_id: str
    type: str
    agent: str
    freshness: str
    because: str | None
    tokens: int
    content: str | None
    node_id: str
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a view of a node gives: the record, the frames in order, and how many there are."""

    node_id: str
    node_record: NodeRecord
    frames: tuple[ContextFrame, ...]
    frame_count: int


class AgentAdapter:
    """What one agent can do. Results do not depend on whether a service answers for it."""

    def __init__(self, workspace: Workspace, agent_id: str) -> None:
        self._workspace = workspace
        self._agent_id = agent_id

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        agent: str,
        served: bool = False,
        wait: float | None = None,
    ) -> AgentAdapter:
        """For an agent in the workspace at `path`.

        It goes through the service where one runs, and otherwise owns the index until closed.
        `served` is for agents that live long: it never owns, and starts a service instead.
        """
        kind = ServedWorkspace if served else Workspace
        return cls(kind.open(path, wait=wait), agent)

    def __enter__(self) -> AgentAdapter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index."""
        self._workspace.close()

    @property
    def workspace(self) -> Workspace:
        """The workspace underneath, for everything an adapter has no word for."""
        return self._workspace

    @property
    def identity(self) -> AgentIdentity:
        """The agent as it is registered now."""
        for known in self._workspace.agent_list()["agents"]:
            if known["id"] == self._agent_id:
                return AgentIdentity(known["id"], known["role"], tuple(known["can"]))
        raise AgentError(
            f"there is no agent {self._agent_id!r}",
            hint=f"register it: `merkle agent add {self._agent_id} --role reader`",
        )

    def read_context(self, node: str, view: ContextView | None = None) -> NodeContext:
        """A node with the frames a view selects; refused to an agent that may not read."""
        self._workspace.agent_require(self._agent_id, "read")
        wanted = view or ContextView()
        found = self._workspace.get_node(
            node, view=wanted.order, max_frames=wanted.max_frames, frame_type=wanted.frame_type,
            agent=wanted.agent, query=wanted.query,
        )  # fmt: skip
        return _node_context(found)

    def write_context(self, node: str, frame: NewFrame) -> str:
        """Append a frame in this agent's name; gives back its FrameID."""
        stored = self._workspace.put_frame(
            node, frame.content, frame_type=frame.type, agent=self._agent_id, seen=frame.seen,
            on=frame.on, meta=frame.meta,
        )  # fmt: skip
        return str(stored["frame_id"])

    def synthesize(self, node: str, frame_type: str, policy: str | None = None) -> str | None:
        """Frames of a type for a folder, children first; the FrameID of the folder's own."""
        made = self._workspace.synthesize(
            node, frame_type=frame_type, policy=policy, agent=self._agent_id
        )
        return None if made["frame_id"] is None else str(made["frame_id"])


def _node_context(found: Mapping[str, Any]) -> NodeContext:
    record = NodeRecord(
        found["node_id"], found["path"], found["kind"], found["content_id"], found["size"],
        tuple(found["children"]),
    )  # fmt: skip
    frames = tuple(
        ContextFrame(**{name: frame[name] for name in ContextFrame.__dataclass_fields__})
        for frame in found["frames"]
    )
    return NodeContext(found["node_id"], record, frames, found["frame_count"])
