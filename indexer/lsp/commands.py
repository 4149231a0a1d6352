"""What an editor can have done: notes confirmed, replaced and withdrawn, context put together."""

from __future__ import annotations

import shlex
from typing import Any, Final, NamedTuple, TypedDict

from indexer.errors import UsageError
from indexer.lsp.code import Symbol, enclosing, symbol_at, symbols_of
from indexer.lsp.notes import OF_THE_SAVED_FILE, Known
from indexer.service.person import person
from indexer.service.workspace import Workspace

COMPOSE: Final = "merkle.compose"
STILL_TRUE: Final = "merkle.stillTrue"
REPLACE: Final = "merkle.replaceNote"
DELETE: Final = "merkle.deleteNote"
SHOW: Final = "merkle.showNotes"

BUDGET: Final = 8000
"""Tokens of context where an editor does not say how many."""


class BadCommandError(UsageError):
    """A command was given what it cannot work with."""

    code = "bad_command"


def argument(given: Any, *names: str) -> dict[str, Any]:
    """The one object that a command takes; texts under these names have to be in it."""
    found = given[0] if isinstance(given, list | tuple) and len(given) == 1 else None
    if not isinstance(found, dict) or not all(isinstance(found.get(n), str) for n in names):
        raise BadCommandError(
            "the command takes one object as its argument",
            hint=f"with texts under: {', '.join(names)}",
        )
    return found


def acting(workspace: Workspace, agent: str | None) -> str:
    """In whose name something is written: the server's agent, or the person at the keyboard.

    Whom nobody knows yet is registered as a writer, as with `merkle note`.
    """
    name = agent or person(workspace.root)
    if all(known["id"] != name for known in workspace.agent_list()["agents"]):
        workspace.agent_add(name, "writer")
    return name


class Written(NamedTuple):
    """What was done about a note."""

    words: str
    is_settled: bool
    """Whether nobody has to look at that note any more."""


def confirm(workspace: Workspace, agent: str, given: dict[str, Any]) -> Written:
    """Say that a note is still true of the file that the editor showed."""
    done = workspace.confirm_note(given["frame_id"], agent=agent, seen=_seen(given))
    return _told("confirmed", done)


def replace(workspace: Workspace, agent: str, given: dict[str, Any], text: str) -> Written:
    """Put other words in the place of a note, bound to the file that the editor showed."""
    old = workspace.get_frame(given["frame_id"])
    symbol = given.get("symbol")
    done = workspace.note(
        f"path:{old['path']}" + (f"::{symbol}" if isinstance(symbol, str) and symbol else ""),
        text,
        frame_type=old["type"],
        agent=agent,
        seen=_seen(given),
        replaces=[old["frame_id"]],
    )
    return _told("replaced", done)


def withdraw(workspace: Workspace, agent: str, given: dict[str, Any]) -> Written:
    """Take a note back."""
    done = workspace.withdraw_note(given["frame_id"], agent=agent)
    return Written(f"withdrawn by {done['agent']}", True)


def _seen(given: dict[str, Any]) -> str | None:
    """The file's id when it was shown: if it changed since, the note is as stale as before."""
    seen = given.get("seen")
    return seen if isinstance(seen, str) else None


def _told(words: str, done: Any) -> Written:
    is_fresh = done["freshness"] == "fresh"
    return Written(words if is_fresh else f"{words}, {done['freshness']}", is_fresh)


class Context(TypedDict):
    """Result of `merkle.compose`: what to put into the clipboard, and what it is about."""

    text: str
    tokens: int
    budget: int
    about: str
    remark: str
    """Why it may not be what the editor shows; empty where it is."""


def compose(
    workspace: Workspace, known: Known, lines: tuple[int, int] | None, column: int, budget: int
) -> Context:
    """The source of a symbol, or of selected lines, then what is known around it, as text.

    Without lines it is about the whole file. The symbol is the one whose name is at the column,
    else the one around it. All of it together has no more tokens than the budget.
    """
    path, target, query = f"path:{known.path}", f"path:{known.path}", known.path
    source: Any = None
    if lines is not None and lines[0] != lines[1]:
        first, last = (known.lines.to_old(line) + 1 for line in lines)
        source = workspace.show(path, first=first, last=last)
        about = f"{known.path}:{first}-{last}"
        query = " ".join(known.saved[first - 1 : last])[:2000] or query
    elif (symbol := _meant(workspace, known, lines, column)) is not None:
        path, target, about = f"path:{symbol.path}", symbol.node, f"{symbol.path}::{symbol.symbol}"
        source, query = workspace.show(target), f"{symbol.symbol} {symbol.signature}"
    else:
        about = known.path
    head = "" if source is None else _fenced(about, source)
    spent = workspace.count([head])["tokens"][0] if head else 0
    texts = [head] if head and spent <= budget else []
    if budget > spent:
        found: Any = workspace.compose([path], query=query, budget=budget - spent)
        texts += [message["content"] for message in found["messages"]]
    text = "\n\n".join(texts)
    remark = "" if known.is_saved else OF_THE_SAVED_FILE
    tokens = workspace.count([text])["tokens"][0] if text else 0
    return {"text": text, "tokens": tokens, "budget": budget, "about": about, "remark": remark}


def _meant(
    workspace: Workspace, known: Known, lines: tuple[int, int] | None, column: int
) -> Symbol | None:
    if lines is None:
        return None
    symbols = symbols_of(workspace, known.path)
    named = symbol_at(workspace, known, lines[0], column, symbols)
    return named[0] if named else enclosing(symbols, known.lines.to_old(lines[0]))


def _fenced(about: str, source: Any) -> str:
    first, last = source["lines"]
    fence = "```"
    while fence in source["content"]:
        fence += "`"
    return f"{about} (source, lines {first}-{last})\n\n{fence}\n{source['content']}\n{fence}"


def how_to_replace(given: dict[str, Any]) -> str:
    """What to type where an editor cannot ask for the new text."""
    about = given.get("path") or "PATH"
    if given.get("symbol"):
        about = f"{about}::{given['symbol']}"
    return (
        f"write the new text with: merkle note {shlex.quote(about)}"
        f" --replaces {given['frame_id'][:12]} 'TEXT'"
    )
