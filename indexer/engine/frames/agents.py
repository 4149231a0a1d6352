"""Agents: who may read, write and synthesize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from indexer.engine.documents import JsonObject
from indexer.engine.frames.roles import (
    CAPABILITIES,
    ROLES,
    AgentError,
    AgentId,
    Capabilities,
    Capability,
    Role,
    check_agent_id,
)
from indexer.store.frames import Agent, FrameStore

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class AgentsDocument(TypedDict):
    """Result of `agent add` and `agent list`."""

    agents: list[JsonObject]


def add_agent(
    engine: Engine, agent_id: AgentId, role: Role, can: Capabilities = ()
) -> AgentsDocument:
    """Register an agent.

    One that is known gets another role.
    """
    agent = Agent(agent_id, role, check_agent(agent_id, role, can))
    if engine.frames.store.agents().get(agent_id) != agent:
        engine.records.write([agent_record(agent)])
    return list_agents(engine)


def agent_record(agent: Agent) -> JsonObject:
    """An agent as the journal and packs keep it."""
    able = list(agent.capabilities)
    return {"kind": "agent", "id": agent.id, "role": agent.role, "can": able}


def new_writer(agent_id: str) -> JsonObject:
    """The record of somebody whom nobody knew, and who may write from now on."""
    return agent_record(Agent(agent_id, "writer", check_agent(agent_id, "writer", ())))


def check_agent(agent_id: str, role: str, can: Sequence[str]) -> tuple[str, ...]:
    """What an agent of that id and role is able to do; raises when there can be none."""
    check_agent_id(agent_id)
    if role not in ROLES:
        raise AgentError(f"{role!r} is no role", hint=f"use one of: {', '.join(ROLES)}")
    allowed = CAPABILITIES[role]
    for capability in can:
        if capability not in allowed:
            raise AgentError(
                f"a {role} cannot {capability}", hint=f"a {role} can: {', '.join(allowed)}"
            )
    return tuple(sorted(set(can))) or allowed


def list_agents(engine: Engine) -> AgentsDocument:
    """Every registered agent."""
    return {
        "agents": [
            {"id": agent.id, "role": agent.role, "can": list(agent.capabilities)}
            for agent in engine.frames.store.agents().values()
        ]
    }


class AllowedDocument(TypedDict):
    """Result of `agent-require`."""

    agent: str
    capability: str


def require_agent(engine: Engine, agent: str, capability: Capability) -> AllowedDocument:
    """Raise unless a registered agent may do that: read, write or synthesize.

    For what is done in no agent's name.
    """
    if capability not in CAPABILITIES["synthesis"]:
        raise AgentError(
            f"{capability!r} is no capability",
            hint=f"use one of: {', '.join(CAPABILITIES['synthesis'])}",
        )
    check_writer(engine.frames.store, agent, capability)
    return {"agent": agent, "capability": capability}


def check_writer(store: FrameStore, agent_id: str, capability: str = "write") -> None:
    """Raise unless a registered agent may do that."""
    agent = store.agents().get(agent_id)
    role = next(name for name in ROLES if capability in CAPABILITIES[name])
    if agent is None:
        raise AgentError(
            f"there is no agent {agent_id!r}",
            hint=f"register it: `merkle agent add {agent_id} --role {role}`",
        )
    if capability not in agent.capabilities:
        raise AgentError(
            f"agent {agent_id} is a {agent.role} and cannot {capability}",
            hint=f"`merkle agent add {agent_id} --role {role}` gives it that right",
        )
