"""The session tool: one conversation's context tree, an action at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from indexer.mcp.answers import Answer, Document, Entry, listed
from indexer.mcp.arguments import ArgumentError
from indexer.mcp.context_calls import composed
from indexer.mcp.declarations import BY_NAME, SESSION_READS
from indexer.mcp.labels import RECORDED, worst
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.mcp.calls import Calls


def session(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """Do what the action says; whatever writes needs an agent that may."""
    action = given["action"]
    asks = action == "budget" and "budget" not in given
    if not asks and action not in SESSION_READS:
        workspace.agent_require(calls.writer(), "write")
    if action == "record":
        asked: Document = {key: given[key] for key in ("nodes", "query", "ids") if key in given}
        return composed(workspace, asked, BY_NAME["session"].budget(given), record=True)
    result: Document = {**ACTIONS[action](workspace, _Given(action, given, calls.agent))}
    shown = _SHOWN[action](result) if action in _SHOWN else []
    freshness = RECORDED
    if "items" in result:
        freshness = worst(item["freshness"] for item in result["items"])
    answer = listed(result, freshness=freshness, action=action)
    answer.entries += shown
    answer.newest_last = bool(shown)
    return answer


def _thread(result: Document) -> list[Entry]:
    """The blocks of a rendering, each by itself."""
    return [
        Entry("thread", one, *_text(one.pop("content", "")))
        for one in json.loads(result.pop("thread"))
    ]


def _messages(result: Document) -> list[Entry]:
    """The messages of a compilation."""
    result.pop("hashes", None)
    return [
        Entry("messages", one, *_text(one.pop("content", ""))) for one in result.pop("messages")
    ]


def _tree(result: Document) -> list[Entry]:
    """The tree of a snapshot, where one was asked for."""
    return [Entry("tree", None, *_text(result.pop("tree")))] if "tree" in result else []


def _text(content: Any) -> tuple[str, str, bool]:
    """The end of an `Entry` for a content, of which the beginning is shown where not all fits."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text, "", False


_SHOWN: Final[Mapping[str, Callable[[Document], list[Entry]]]] = {
    "show": _tree,
    "render": _thread,
    "compile": _messages,
}
"""The actions that show texts, each with what it takes out of its result for that."""

_HEADERS: Final = ("priority", "attributes", "no_ttl")


class _Given:
    """The arguments of one action, asked for by name."""

    def __init__(self, action: str, values: Mapping[str, Any], agent: str | None) -> None:
        self._action = action
        self._values = values
        self._agent = agent

    def content(self) -> Document:
        """What a block says, and who says it."""
        return {**self.some("type", "role", "text", "payload", "ttl"), **self.author()}

    def author(self) -> Document:
        """In whose name it is done; `session` has seen to it that what writes has an agent."""
        return {"agent": self._agent}

    def headers(self) -> Document:
        """What else of a block is to change."""
        found: Document = self._values.get("headers", {})
        for name in found:
            if name not in _HEADERS:
                raise ArgumentError(
                    f"a block's {name} cannot be set", hint=f"headers are: {', '.join(_HEADERS)}"
                )
        return found

    def need(self, name: str) -> Any:
        """An argument that the action cannot do without."""
        if name not in self._values:
            raise ArgumentError(
                f"the action {self._action} needs {name}", hint=f"call it again with {name}"
            )
        return self._values[name]

    def some(self, *names: str) -> Document:
        """Those of these arguments that were given."""
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


def _pull(workspace: Workspace, given: _Given) -> Mapping[str, Any]:
    # One of the two says what to pull; without either it would be anything.
    nodes = given.some("nodes") if given.some("query") else {"nodes": given.need("nodes")}
    return workspace.session_pull(
        given.need("name"), **nodes, **given.some("query", "budget", "ttl"), **given.author()
    )


def _budget(workspace: Workspace, given: _Given) -> Mapping[str, Any]:
    limit = given.some("budget")
    changes = {"limit": limit["budget"], **given.author()} if limit else {}
    return workspace.session_budget(given.need("name"), **changes)


ACTIONS: Final[Mapping[str, Callable[[Workspace, _Given], Mapping[str, Any]]]] = {
    "list": lambda workspace, given: workspace.session_list(),
    "show": lambda workspace, given: workspace.session_show(
        given.need("name"), snapshot=given.snapshot()
    ),
    "new": lambda workspace, given: workspace.session_new(
        given.need("name"), **given.some("budget"), **given.author()
    ),
    "append": lambda workspace, given: workspace.session_append(
        given.need("name"), **{**given.content(), "type": given.need("type")}
    ),
    "edit": lambda workspace, given: workspace.session_edit(
        given.need("name"), given.need("target"), **given.content()
    ),
    "set": lambda workspace, given: workspace.session_set(
        given.need("name"),
        given.need("target"),
        **given.some("ttl", "text", "payload"),
        **given.headers(),
        **given.author(),
    ),
    "annotate": lambda workspace, given: workspace.session_annotate(
        given.need("name"),
        given.need("target"),
        given.need("priority"),
        **given.some("reason"),
        **given.author(),
    ),
    "commit": lambda workspace, given: workspace.session_commit(
        given.need("name"), **given.author()
    ),
    "log": lambda workspace, given: workspace.session_log(given.need("name")),
    "fork": lambda workspace, given: workspace.session_fork(
        given.need("name"), given.need("other"), at=given.snapshot(), **given.author()
    ),
    "merge": lambda workspace, given: workspace.session_merge(
        given.need("name"), given.need("other"), **given.author()
    ),
    "rename": lambda workspace, given: workspace.session_rename(
        given.need("name"), given.need("other"), **given.author()
    ),
    "delete": lambda workspace, given: workspace.session_delete(
        given.need("name"), **given.author()
    ),
    "restore": lambda workspace, given: workspace.session_restore(
        given.need("name"), new=given.some("other").get("other"), **given.author()
    ),
    "select": lambda workspace, given: workspace.session_select(
        given.need("name"), given.need("selector")
    ),
    "diff": lambda workspace, given: workspace.session_diff(
        given.need("name"), *given.snapshots(2), **given.some("selector")
    ),
    "render": lambda workspace, given: workspace.session_render(
        given.need("name"), given.snapshot()
    ),
    "compile": lambda workspace, given: workspace.session_compile(
        given.need("name"), form=given.some("format").get("format")
    ),
    "budget": _budget,
    "tree": lambda workspace, given: workspace.session_tree(given.need("name")),
    "pull": _pull,
}
