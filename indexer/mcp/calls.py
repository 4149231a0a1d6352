"""What each tool does: one operation of the workspace, through its service, and a label on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.engine.frames.roles import AgentError
from indexer.errors import UsageError
from indexer.mcp.answers import Answer, Document, Entry, blocks_within, listed
from indexer.mcp.arguments import checked
from indexer.mcp.code_calls import source
from indexer.mcp.context_calls import compose, search, wants_full_ids
from indexer.mcp.declarations import BY_NAME
from indexer.mcp.labels import RECORDED, of_state, worst
from indexer.mcp.session_calls import session
from indexer.service.served import ServedWorkspace
from indexer.service.workspace import Workspace

_NO_AGENT_HINT: Final = (
    "register one with `merkle agent add NAME --role writer`, then start the server with"
    " `merkle mcp --agent NAME` (or set MERKLE_AGENT, or agent under [mcp] in merkle.toml)"
)


class UnknownToolError(UsageError):
    """There is no tool of that name."""

    code = "unknown_tool"


Method = Callable[["Calls", Workspace, Document], Answer]


@dataclass(frozen=True, slots=True)
class Calls:
    """The tools of one workspace, in the name of one agent."""

    root: Path
    agent: str | None
    wait: float | None = None

    def open(self) -> Workspace:
        """The workspace through its service; opened for each call, so a restart goes unnoticed."""
        return ServedWorkspace.open(self.root, wait=self.wait)

    def call(self, name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Run a tool: a document with a freshness label, then the texts it is about.

        All of it together has no more tokens than the agent asked for, or the tool gives by itself.
        """
        declared = BY_NAME.get(name)
        if declared is None:
            raise UnknownToolError(
                f"there is no tool {name!r}", hint=f"the tools are: {', '.join(BY_NAME)}"
            )
        given = checked(declared, arguments)
        with self.open() as workspace:
            answer = METHODS[name](self, workspace, given)
            if not wants_full_ids(given):
                answer = answer.with_short_ids(declared.ids)
            return blocks_within(
                answer, declared.budget(given), lambda texts: workspace.count(texts)["tokens"]
            )

    def manifest(self, identity: str) -> Document:
        """A recorded manifest with its messages; its labels are those of then."""
        with self.open() as workspace:
            found: Document = {**workspace.replay(identity)}
        found["freshness"] = worst(item["freshness"] for item in found["items"])
        return found

    def writer(self) -> str:
        """The agent in whose name something is written."""
        if self.agent is None:
            raise AgentError("this server has no agent, so it only reads", hint=_NO_AGENT_HINT)
        return self.agent


def status(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """How the index compares with the disk, and the agent as it is registered."""
    found = workspace.status(**_named(given, wait="wait"))
    head: Document = {"freshness": of_state(found["state"])}
    head.update((name, found[name]) for name in ("state", "root", "files", "directories"))
    head["frames"] = {name: number for name, number in found["frames"].items() if number}
    head["agent"] = _who(calls, workspace)
    # The page's address lets whoever reads it in: that is for people.
    head["service"] = {
        name: value for name, value in found["service"].items() if value and name != "web"
    }
    head["workspace"] = found["workspace"]
    answer = Answer(head, more="`merkle status` tells all")
    answer.add("types", [{"type": name, **_some(one)} for name, one in found["types"].items()])
    answer.add("not_fresh", [_some(one) for one in found["not_fresh"]])
    answer.add("added", found["changes"]["added"])
    answer.add("modified", found["changes"]["modified"])
    answer.add("removed", found["changes"]["removed"])
    return answer


def _some(document: Mapping[str, Any]) -> Document:
    """A document without its empty values; an empty path is the root, and stays."""
    return {name: value for name, value in document.items() if value or name == "path"}


def _who(calls: Calls, workspace: Workspace) -> Document:
    if calls.agent is None:
        return {"id": None, "can": ["read"], "hint": _NO_AGENT_HINT}
    for known in workspace.agent_list()["agents"]:
        if known["id"] == calls.agent:
            return dict(known)
    hint = f"register it: `merkle agent add {calls.agent} --role writer`"
    return {"id": calls.agent, "role": None, "can": ["read"], "hint": hint}


def _named(given: Document, **names: str) -> Document:
    """Arguments of a method as the client calls them; what it left out has the method's default."""
    return {ours: given[theirs] for ours, theirs in names.items() if theirs in given}


def get_node(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """A node, then its frames with what they say, then its children; or its source."""
    # `path:` says that a name is one, whatever stands in it.
    is_symbol = "::" in given["node"] and not given["node"].startswith("path:")
    if given.get("source") or "lines" in given or is_symbol:
        return source(workspace, given)
    asked = _named(
        given, frame_type="type", view="view", agent="agent", max_frames="max_frames", query="query"
    )
    found: Document = {**workspace.get_node(given["node"], **asked)}
    frames, children = found.pop("frames"), found.pop("children")
    label = worst(frame["freshness"] for frame in frames)
    answer = Answer({"freshness": label, **_some(found), "path": found["path"]})
    answer.entries += [_frame(frame, found["node_id"]) for frame in frames]
    answer.add("children", children)
    return answer


def _frame(frame: Document, node_id: str) -> Entry:
    """A frame's label and what it says; a note also tells since when, and of which version."""
    kept = ["frame_id", "type", "agent", "freshness", "because", "tokens"]
    if not frame["agent"].startswith(GENERATED_AGENT_PREFIX):
        kept += ["symbol", "line", "created_at", "meta"]
        kept += ["node_id"] if frame["node_id"] != node_id else []
    about = f"{frame['type']} {frame['frame_id']}"
    return Entry("frames", _some({name: frame[name] for name in kept}), frame["content"], about)


def put_frame(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """A note, bound to the node that was read."""
    found = workspace.put_frame(
        given["node"],
        given["content"],
        frame_type=given["type"],
        agent=calls.writer(),
        seen=given["seen"],
        **_named(given, on="on", meta="meta", replaces="replaces"),
    )
    return listed(found, freshness=found["freshness"])


def synthesize(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """A folder's frames, and whether its own is fresh now."""
    made = workspace.synthesize(
        given["node"],
        frame_type=given["type"],
        agent=calls.writer(),
        **_named(given, policy="policy"),
    )
    heads = workspace.get_head(given["node"], frame_type=given["type"])["heads"]
    own = [head["freshness"] for head in heads if head["frame_id"] == made["frame_id"]]
    return listed(made, freshness=worst(own))


def regenerate(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """Stale frames made again, or told; then looked at once more."""
    only_tell = given.get("plan", False)
    scope = _named(given, node="node", frame_type="type", recursive="recursive")
    agent = None if only_tell else calls.writer()
    made = workspace.regenerate(plan=only_tell, agent=agent, **scope)
    left = made if only_tell else workspace.regenerate(plan=True, **scope)
    return listed(made, freshness="stale" if left["plan"] or left["failed"] else "fresh")


def explain(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """The chain of inputs of a frame."""
    found = workspace.explain(given["node"], **_named(given, frame_type="type"))
    return listed(found, freshness=found["freshness"])


def diff(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """Two states compared; fresh when the later one is what is on disk now."""
    now = workspace.status()
    found: Document = {**workspace.diff(given["old"], given.get("new", "@-0"))}
    is_now = found["new"] == now["root"]
    # As pairs of names: under `old` and `new` stand ids.
    found["renamed"] = [[one["old"], one["new"]] for one in found["renamed"]]
    return listed(found, freshness=of_state(now["state"]) if is_now else RECORDED)


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
