"""The tools that gather context: compose and search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from indexer.mcp.answers import IDS, Answer, Document, Entry, blocks_within
from indexer.mcp.code_calls import MOST, QUESTIONS, about_code
from indexer.mcp.declarations import BY_NAME
from indexer.mcp.labels import worst
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.mcp.calls import Calls

RESULTS: Final = 10
_OF_A_RESULT: Final = (
    *("path", "line", "symbol", "type", "sure", "target", "agent", "frame_id", "freshness"),
    "because",
)
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
    """What was not shown and why, and how many frames are not made yet; nothing where all is."""
    counts = found["omitted"]["counts"].items()
    told = {
        "omitted": ", ".join(f"{number:,} {reason}" for reason, number in counts),
        "missing": found["missing"],
    }
    return {name: value for name, value in told.items() if value}


def _about(item: Document) -> str:
    """What stands above a text: the frame that it is of, or that it is a file's own."""
    return f"frame {item['frame_id']}" if item["frame_id"] else "source"


def _label(item: Document) -> Document:
    names = ("frame_id", "path", "symbol", "line", "type", "freshness", "because")
    return {name: item[name] for name in names if item.get(name) is not None}


def search(calls: Calls, workspace: Workspace, given: Document) -> Answer:
    """What matches best, or what a name is in the code."""
    kind = given.get("kind", "frame")
    if kind in QUESTIONS:
        return about_code(workspace, given)
    found = workspace.search(
        given["query"],
        kinds=[kind],
        limit=given.get("limit", RESULTS if kind == "frame" else MOST),
        types=given.get("types", ()),
    )
    answer = Answer(
        {"freshness": worst(one["freshness"] for one in found["results"]), "found": found["found"]}
    )
    answer.head.update({name: found[name] for name in ("missing", "unread") if found[name]})
    answer.head["root"] = found["root"]
    answer.entries += [_result({**one}) for one in found["results"]]
    if found["found"] > len(found["results"]):
        answer.totals["results"] = found["found"]
    return answer


def _result(one: Document) -> Entry:
    """A result: what a frame says is fenced below the document, a line of source is part of it."""
    kept = {name: one[name] for name in _OF_A_RESULT if one[name]}
    if one["kind"] != "frame":
        return Entry("results", {**kept, "excerpt": one["excerpt"]})
    return Entry("results", kept, one["excerpt"], f"frame {one['frame_id']}")
