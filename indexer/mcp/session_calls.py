"""The session tool: one conversation's context tree, an action at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from indexer.mcp.arguments import ArgumentError
from indexer.mcp.context_calls import labelled
from indexer.mcp.declarations import SESSION_READS
from indexer.mcp.labels import RECORDED, Document, worst
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.mcp.calls import Calls


def session(calls: Calls, workspace: Workspace, given: Document) -> Document:
    """Do what the action says; whatever writes needs an agent that may."""
    action = given["action"]
    if action not in SESSION_READS:
        workspace.agent_require(calls.writer(), "write")
    result = dict(ACTIONS[action](workspace, _Given(action, given, calls.agent)))
    freshness = RECORDED
    if "items" in result:
        freshness = worst(item["freshness"] for item in result["items"])
    return {"action": action, "result": result, "freshness": freshness}


class _Given:
    """The arguments of one action, asked for by name."""

    def __init__(self, action: str, values: Mapping[str, Any], agent: str | None) -> None:
        self._action = action
        self._values = values
        self._agent = agent

    def content(self) -> Document:
        """What a block says, and who says it."""
        found = self.some("type", "role", "text", "payload", "ttl")
        return {**found, "metadata": {"agent": self._agent}}

    def need(self, name: str) -> Any:
        if name not in self._values:
            raise ArgumentError(
                f"the action {self._action} needs {name}", hint=f"call it again with {name}"
            )
        return self._values[name]

    def some(self, *names: str) -> Document:
        return {name: self._values[name] for name in names if name in self._values}

    def snapshots(self, number: int) -> list[str]:
        """Exactly so many snapshots, for an action that needs them."""
        found: list[str] = self._values.get("snapshots", [])
        if len(found) != number:
            raise ArgumentError(
                f"the action {self._action} needs {number} snapshots",
                hint="such as @t-1 and @t0, the last but one and the last",
            )
        return found

    def snapshot(self) -> str | None:
        """One snapshot or none."""
        return self.snapshots(1)[0] if self._values.get("snapshots") else None


def _pull(workspace: Workspace, given: _Given) -> Document:
    # One of the two says what to pull; without either it would be anything.
    nodes = given.some("nodes") if given.some("query") else {"nodes": given.need("nodes")}
    return workspace.session_pull(
        given.need("name"), **nodes, **given.some("query", "budget", "ttl")
    )


def _record(workspace: Workspace, given: _Given) -> Document:
    return labelled(dict(workspace.compose(**given.some("nodes", "query", "budget"), record=True)))


ACTIONS: Final[Mapping[str, Callable[[Workspace, _Given], Mapping[str, Any]]]] = {
    "list": lambda workspace, given: workspace.session_list(),
    "show": lambda workspace, given: workspace.session_show(
        given.need("name"), snapshot=given.snapshot()
    ),
    "new": lambda workspace, given: workspace.session_new(
        given.need("name"), **given.some("budget")
    ),
    "append": lambda workspace, given: workspace.session_append(
        given.need("name"), **{**given.content(), "type": given.need("type")}
    ),
    "edit": lambda workspace, given: workspace.session_edit(
        given.need("name"), given.need("target"), **given.content()
    ),
    "annotate": lambda workspace, given: workspace.session_annotate(
        given.need("name"), given.need("target"), given.need("priority")
    ),
    "commit": lambda workspace, given: workspace.session_commit(given.need("name")),
    "select": lambda workspace, given: workspace.session_select(
        given.need("name"), given.need("selector")
    ),
    "diff": lambda workspace, given: workspace.session_diff(
        given.need("name"), *given.snapshots(2), **given.some("selector")
    ),
    "render": lambda workspace, given: workspace.session_render(
        given.need("name"), given.snapshot()
    ),
    "compile": lambda workspace, given: workspace.session_compile(given.need("name")),
    "pull": _pull,
    "record": _record,
}
