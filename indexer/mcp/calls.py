"""What each tool does: one operation of the workspace, through its service, and a label on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from indexer.engine.frames.roles import AgentError
from indexer.errors import UsageError
from indexer.mcp.arguments import checked
from indexer.mcp.context_calls import compose, manifest, search
from indexer.mcp.declarations import BY_NAME
from indexer.mcp.labels import RECORDED, Document, bounded, of_state, within_tokens, worst
from indexer.mcp.session_calls import session
from indexer.service.served import ServedWorkspace
from indexer.service.workspace import Workspace

MAX_TOKENS: Final = 8000
"""Tokens of all contents that get_node gives, unless the agent asks for another number."""

_NO_AGENT_HINT: Final = (
    "register one with `merkle agent add NAME --role writer`, then start the server with"
    " `merkle mcp --agent NAME` (or set MERKLE_AGENT, or agent under [mcp] in merkle.toml)"
)


class UnknownToolError(UsageError):
    """There is no tool of that name."""

    code = "unknown_tool"


Method = Callable[["Calls", Workspace, Document], Document]


@dataclass(frozen=True, slots=True)
class Calls:
    """The tools of one workspace, in the name of one agent."""

    root: Path
    agent: str | None
    wait: float | None = None

    def open(self) -> Workspace:
        """The workspace through its service; opened for each call, so a restart goes unnoticed."""
        return ServedWorkspace.open(self.root, wait=self.wait)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Document:
        """Run a tool; the answer has a freshness label."""
        declared = BY_NAME.get(name)
        if declared is None:
            raise UnknownToolError(
                f"there is no tool {name!r}", hint=f"the tools are: {', '.join(BY_NAME)}"
            )
        given = checked(declared, arguments)
        with self.open() as workspace:
            return METHODS[name](self, workspace, given)

    def manifest(self, identity: str) -> Document:
        """A recorded manifest by its id."""
        with self.open() as workspace:
            return manifest(workspace, identity)

    def writer(self) -> str:
        """The agent in whose name something is written."""
        if self.agent is None:
            raise AgentError("this server has no agent, so it only reads", hint=_NO_AGENT_HINT)
        return self.agent


def status(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """The index against the disk, and the agent as it is registered."""
    found = workspace.status(wait=given.get("wait", True))
    answer: Document = {
        name: found[name]
        for name in (
            "workspace",
            "state",
            "root",
            "files",
            "directories",
            "frames",
            "types",
            "not_fresh",
            "changes",
        )
    }
    answer["changes"] = bounded(dict(found["changes"]), "added", "modified", "removed", most=100)
    # The page's address lets whoever reads it in: that is for people.
    answer["service"] = {key: value for key, value in found["service"].items() if key != "web"}
    answer["agent"] = _who(calls, workspace)
    answer["freshness"] = of_state(found["state"])
    return answer


def _who(calls: Calls, workspace: Workspace) -> Document:
    if calls.agent is None:
        return {"id": None, "can": ["read"], "hint": _NO_AGENT_HINT}
    for known in workspace.agent_list()["agents"]:
        if known["id"] == calls.agent:
            return dict(known)
    hint = f"register it: `merkle agent add {calls.agent} --role writer`"
    return {"id": calls.agent, "role": None, "can": ["read"], "hint": hint}


_VIEW: Final = ("view", "agent", "max_frames", "query")


def get_node(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """A node with its frames, their contents within a number of tokens."""
    names = {"type": "frame_type", **{name: name for name in _VIEW}}
    asked = {named: given[name] for name, named in names.items() if name in given}
    found: Document = dict(workspace.get_node(given["node"], **asked))
    found["frames"] = within_tokens(found["frames"], given.get("max_tokens", MAX_TOKENS))
    found["freshness"] = worst(frame["freshness"] for frame in found["frames"])
    return bounded(found, "children")


def put_frame(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """A note, bound to the node that was read."""
    found = workspace.put_frame(
        given["node"],
        given["content"],
        frame_type=given["type"],
        agent=calls.writer(),
        seen=given["seen"],
        on=given.get("on"),
        meta=given.get("meta"),
    )
    return dict(found)


def synthesize(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """A folder's frames, and whether its own is fresh now."""
    made = workspace.synthesize(
        given["node"], frame_type=given["type"], policy=given.get("policy"), agent=calls.writer()
    )
    heads = workspace.get_head(given["node"], frame_type=given["type"])["heads"]
    own = [head["freshness"] for head in heads if head["frame_id"] == made["frame_id"]]
    return bounded({**made, "freshness": worst(own)}, "events", most=50)


def regenerate(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """Stale frames made again, or told; then looked at once more."""
    only_tell = given.get("plan", False)
    scope = {"frame_type": given.get("type"), "recursive": given.get("recursive", True)}
    node = given.get("node", "")
    agent = None if only_tell else calls.writer()
    made = workspace.regenerate(node, plan=only_tell, agent=agent, **scope)
    left = made if only_tell else workspace.regenerate(node, plan=True, **scope)
    made["freshness"] = "stale" if left["plan"] or left["failed"] else "fresh"
    made.setdefault("events", [])
    return bounded(bounded(made, "events", most=50), "plan", "failed")


def explain(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """The chain of inputs of a frame."""
    found = workspace.explain(given["node"], frame_type=given.get("type"))
    return bounded(dict(found), "chain")


def diff(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """Two states compared; fresh when the later one is what is on disk now."""
    now = workspace.status()
    found: Document = dict(workspace.diff(given["old"], given.get("new", "@-0")))
    is_now = found["new"] == now["root"]
    found["freshness"] = of_state(now["state"]) if is_now else RECORDED
    return bounded(found, "added", "removed", "modified", "renamed", "frames")


METHODS: Final[Mapping[str, Method]] = {
    "status": status,
    "get_node": get_node,
    "compose": compose,
    "search": search,
    "put_frame": put_frame,
    "synthesize": synthesize,
    "regenerate": regenerate,
    "explain": explain,
    "diff": diff,
    "session": session,
}
