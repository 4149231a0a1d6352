"""The tools that gather context: compose and search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from indexer.mcp.answers import IDS, Answer, Document, Entry, blocks_within
from indexer.mcp.code_calls import QUESTIONS, about_code
from indexer.mcp.declarations import BY_NAME
from indexer.mcp.labels import worst
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.mcp.calls import Calls

RESULTS: Final = 10
_TRIES: Final = 6


def compose(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """Context within a budget; nothing is stored."""
    return composed(workspace, given, BY_NAME["compose"].budget(given))


def wants_full_ids(given: Document) -> bool:
    """Whether ids are to be written out."""
    return bool(given.get("ids") == "full")


def composed(workspace: Workspace, given: Document, budget: int, record: bool = False) -> Answer:
    """A composition that fits with all that is said about it, so that its manifest is of just that.

    It is asked for with less until it does.
    """
    asked = {name: value for name, value in given.items() if name != "ids"}
    room = budget - min(budget // 10, 200)
    for _ in range(_TRIES):
        found = workspace.compose(**{**asked, "budget": room})
        answer = _answer({**found}, budget)
        tokens = _tokens(workspace, answer if wants_full_ids(given) else answer.with_short_ids(IDS))
        if tokens <= budget or not found["items"]:
            break
        room = max(0, room - (tokens - budget) - room // 50)
    if record:
        answer = _answer({**workspace.compose(**{**asked, "budget": room}, record=True)}, budget)
    return answer


def _tokens(workspace: Workspace, answer: Answer) -> int:
    whole = blocks_within(answer, 1 << 60, lambda texts: [0] * len(texts))
    return sum(workspace.count(whole)["tokens"])


def _answer(found: Document, budget: int) -> Answer:
    """A composition: its label and what is not fresh in it, then its messages."""
    items = {item["message"]: item for item in found["items"]}
    answer = Answer(
        {
            "freshness": worst(item["freshness"] for item in found["items"]),
            "manifest_id": found["manifest_id"],
            "root": found["root"],
            "budget": budget,
            "tokens": found["tokens"],
            **_left(found),
        }
    )
    answer.add("not_fresh", [_label(item) for item in found["items"] if item["because"]])
    for place, message in enumerate(found["messages"]):
        answer.entries.append(Entry("messages", None, message["content"], _about(items[place])))
    return answer


def _left(found: Document) -> Document:
    """In one line each: what was not shown and why, and what is not made yet."""
    counts = found["omitted"]["counts"].items()
    told = {"omitted": ", ".join(f"{number:,} {reason}" for reason, number in counts)}
    return {
        **({} if not counts else told),
        **({"missing": found["missing"]} if found["missing"] else {}),
    }


def _about(item: Document) -> str:
    """What stands above a text: the frame that it is of, or that it is a file's own."""
    return f"frame {item['frame_id']}" if item["frame_id"] else "source"


def _label(item: Document) -> Document:
    names = ("frame_id", "path", "symbol", "line", "type", "freshness", "because")
    return {name: item[name] for name in names if item.get(name) is not None}


def search(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """The most relevant frames or pieces of source, or what a name is in the code."""
    kind = given.get("kind", "frame")
    if kind in QUESTIONS:
        return about_code(workspace, given)
    limit = given.get("limit", RESULTS)
    found: Any = workspace.compose(
        query=given["query"],
        sources=["workspace"],
        order="relevance",
        # Frames come with the source, and are left out here.
        max_frames=limit if kind == "frame" else 4 * limit,
        source=kind == "text",
        budget=BY_NAME["search"].budget(given),
        types=given.get("types", ()),
    )
    items = [item for item in found["items"] if bool(item["frame_id"]) == (kind == "frame")][:limit]
    answer = Answer(
        {
            "freshness": worst(item["freshness"] for item in items),
            "found": len(items),
            **_left(found),
            "root": found["root"],
        }
    )
    for item in items:
        names = ("frame_id", "symbol", "line", "lines", "freshness", "because", "tokens")
        value = {name: item[name] for name in names if item.get(name)}
        text = found["messages"][item["message"]]["content"]
        answer.entries.append(Entry("results", {"path": item["path"], **value}, text, _about(item)))
    return answer
