"""`merkle session new`, `set`, `annotate`, `commit`, `move`, `remove`, `group`, `attempt`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import click

from indexer.cli.columns import counted, first, short
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, allow_secrets, merkle_command, plain_text
from indexer.cli.output import show
from indexer.cli.session_options import (
    FORMS,
    by_agent,
    json_object,
    pairs,
    session_name,
    warned,
)
from indexer.core.paths import on_screen
from indexer.errors import ExitCode

_COUNT: Final = click.IntRange(min=0)


@merkle_command("new")
@session_name
@click.option("--budget", metavar="N", type=_COUNT, help="Tokens of what is live.")
@click.option(
    "--on-budget",
    type=click.Choice(["warn", "reject"]),
    help="What happens to a commit beyond the budget; warn unless told otherwise.",
)
@click.option("--max-nodes", metavar="N", type=_COUNT, help="Blocks to keep when committing.")
@click.option("--max-tokens", metavar="N", type=_COUNT, help="Tokens to keep when committing.")
@click.option("--protect-turns", metavar="N", type=_COUNT, help="Newest turns never pruned.")
@by_agent
def new(options: Globals, name: str, **values: int | str | None) -> int:
    """Begin an empty session.

    With --max-nodes or --max-tokens a commit removes blocks until the limit holds: lowest
    priority first, then oldest; pinned and referenced ones stay.

    \b
    Examples:
      merkle session new review
      merkle session new release --budget 8000 --on-budget reject
      merkle session new watch --max-tokens 20000 --protect-turns 3
    """
    with open_workspace(options) as workspace:
        # Click has checked them.
        document = workspace.session_new(name, **values)  # type: ignore[arg-type]
    show(options, document, lambda made: f"began session {on_screen(made['name'])}")
    return ExitCode.FINE


@merkle_command("set")
@session_name
@click.argument("target", metavar="ID", callback=plain_text)
@click.option("--ttl", metavar="N", callback=plain_text, help="Cycles from now on, or none.")
@click.option("--priority", metavar="N", type=int, help="Lower goes first when pruning.")
@click.option(
    "--attr",
    "attributes",
    metavar="K=V",
    multiple=True,
    callback=pairs,
    help="A namespaced attribute; K=null takes it away. May be repeated.",
)
@click.option("--text", metavar="T", callback=plain_text, help="What it says instead.")
@click.option("--payload", metavar="JSON", callback=json_object, help="The same as a JSON object.")
@click.option("--message", metavar="M", callback=plain_text, help="A note beside the new content.")
@allow_secrets
@by_agent
def set_(
    options: Globals,
    name: str,
    target: str,
    ttl: str | None,
    attributes: dict[str, Any],
    **values: Any,
) -> int:
    """Change a block in its place: how long it stays, its priority, attributes, or what it says.

    Only what is live changes: the active head, the system blocks, and what no snapshot shows yet.
    What is sealed stays as it is; `session edit` puts a correction beside it.

    \b
    Examples:
      merkle session set review note-1 --ttl 2 --priority 5
      merkle session set review law --text "Answer in one sentence."
      merkle session set review note-1 --ttl none --attr data_source=null
    """
    stays = ttl is not None and ttl.lower() == "none"
    if ttl is not None and not stays and not re.fullmatch("[0-9]{1,18}", ttl):
        raise click.BadParameter("it is a number of cycles, or none", param_hint="--ttl")
    with open_workspace(options) as workspace:
        document = workspace.session_set(
            name, target, ttl=int(ttl) if ttl and not stays else None, no_ttl=stays,
            attributes=attributes or None, **values,
        )  # fmt: skip
    show(options, document, _set)
    if not options.json:
        warned(document["warnings"])
    return ExitCode.FINE


def _set(document: Mapping[str, Any]) -> str:
    goes = "stays" if document["expires"] is None else f"goes with cycle {document['expires']}"
    return f"{on_screen(document['id'])} {goes}, priority {document['priority']}"


@merkle_command("annotate")
@session_name
@click.argument("target", metavar="TARGET", callback=plain_text)
@click.argument("priority", type=click.Choice(["pinned", "normal", "skip"]))
@click.option("--reason", metavar="R", callback=plain_text, help="Why.")
@allow_secrets
@by_agent
def annotate(options: Globals, name: str, target: str, priority: str, **values: Any) -> int:
    """Pin a block, skip it when compiling, or make it normal again.

    \b
    Example:
      merkle session annotate review 3f9a21 pinned
    """
    with open_workspace(options) as workspace:
        document = workspace.session_annotate(name, target, priority, **values)
    show(options, document, lambda done: f"{on_screen(done['id'])} is {done['priority']}")
    return ExitCode.FINE


@merkle_command("commit")
@session_name
@by_agent
def commit(options: Globals, name: str, agent: str | None) -> int:
    """Seal the cycle: what is due goes, the active head becomes a turn, a snapshot is made.

    \b
    Example:
      merkle session commit review
    """
    with open_workspace(options) as workspace:
        document = workspace.session_commit(name, agent=agent)
    show(options, document, _sealed)
    return ExitCode.FINE


def _sealed(document: Mapping[str, Any]) -> str:
    lines = [f"sealed cycle {document['cycle']} as turn {short(document['turn'])}"]
    for word in ("expired", "cascaded", "pruned", "deferred", "kept_empty"):
        if document[word]:
            lines.append(f"  {word.replace('_', ' ')}: {counted(len(document[word]), 'node')}")
            lines += [f"    {each}" for each in first([on_screen(i) for i in document[word]])]
    return "\n".join(lines)


@merkle_command("move")
@session_name
@click.argument("node", metavar="ID", callback=plain_text)
@click.argument("parent", metavar="PARENT", callback=plain_text)
@click.option("--offset", metavar="N", type=int, help="Its place there, else as it was.")
@by_agent
def move(options: Globals, name: str, node: str, parent: str, **values: Any) -> int:
    """Hang a node elsewhere in the work in progress; sealed cores stay as they are.

    PARENT is an id, sys or ah. A node that a snapshot shows gets a new id in another region.

    \b
    Example:
      merkle session move review note-1 ah --offset -1
    """
    with open_workspace(options) as workspace:
        document = workspace.session_move(name, node, parent, **values)
    show(
        options,
        document,
        lambda done: f"moved to {on_screen(done['parent'])} as " + on_screen(done["id"]),
    )
    return ExitCode.FINE


@merkle_command("remove")
@session_name
@click.argument("node", metavar="ID", callback=plain_text)
@by_agent
def remove(options: Globals, name: str, node: str, agent: str | None) -> int:
    """Take a node, and what is below it, out of the work in progress; snapshots keep it.

    \b
    Example:
      merkle session remove review note-1
    """
    with open_workspace(options) as workspace:
        document = workspace.session_remove(name, node, agent=agent)
    show(options, document, lambda done: f"removed {on_screen(done['removed'])}")
    return ExitCode.FINE


@merkle_command("group")
@session_name
@click.option("--parent", metavar="ID", callback=plain_text, help="Where; else the active head.")
@click.option("--node-type", metavar="T", callback=plain_text, help="Such as cb:group.")
@click.option("--offset", metavar="N", type=int, help="Its place among its siblings.")
@click.option("--ttl", metavar="N", type=_COUNT, help="Cycles until it goes.")
@click.option("--priority", metavar="N", type=int, help="Kept with it.")
@click.option("--id", "id", metavar="ID", callback=plain_text, help="Its id, not used before.")
@click.option("--keep", is_flag=True, help="Let it stay when it is empty.")
@by_agent
def group(options: Globals, name: str, keep: bool, **values: Any) -> int:
    """Add an empty container for blocks; it goes at the commit that finds it empty.

    \b
    Example:
      merkle session group review --offset 1 --id sources
    """
    with open_workspace(options) as workspace:
        document = workspace.session_group(name, removable=not keep, **values)
    show(options, document, lambda made: on_screen(made["id"]))
    return ExitCode.FINE


@merkle_command("budget")
@session_name
@click.option("--limit", metavar="N", type=_COUNT, help="Tokens of what is live, at most.")
@click.option("--unlimited", is_flag=True, help="Without a budget from now on.")
@click.option(
    "--on-budget", type=click.Choice(["warn", "reject"]), help="What happens to a block beyond it."
)
@by_agent
def budget(options: Globals, name: str, **values: Any) -> int:
    """Show the budget of a session and what of it is used, or change it.

    What counts is live: blocks that expired, were removed or are skipped cost nothing, and of an
    edited block only the newest edit does.

    \b
    Examples:
      merkle session budget review
      merkle session budget review --limit 12000 --on-budget warn
    """
    with open_workspace(options) as workspace:
        document = workspace.session_budget(name, **values)
    show(options, document, _budget)
    return ExitCode.FINE


def _budget(document: Mapping[str, Any]) -> str:
    live = counted(document["live_tokens"], "token")
    if document["max_tokens"] is None:
        return f"{live} live, no budget"
    left = f"{document['left']:,} left, then {document['action']}"
    return f"{live} live of {document['max_tokens']:,}, {left}"


@merkle_command("attempt")
@session_name
@click.argument("attempt_id", metavar="ID", callback=plain_text)
@click.option(
    "--status",
    type=click.Choice(["running", "completed", "canceled", "error"]),
    required=True,
    help="How it stands.",
)
@click.option("--provider", metavar="P", required=True, callback=plain_text, help="Who was asked.")
@click.option("--model", metavar="M", required=True, callback=plain_text, help="Which model.")
@click.option(
    "--params", metavar="JSON", callback=json_object, help="Its parameters; their hash is kept."
)
@click.option("--tokens-in", "token_in", metavar="N", type=_COUNT, help="Tokens sent.")
@click.option("--tokens-out", "token_out", metavar="N", type=_COUNT, help="Tokens received.")
@click.option("--error", metavar="E", callback=plain_text, help="What went wrong.")
@click.option(
    "--form", type=click.Choice(FORMS), help="What is sent; the thread of the work in progress."
)
@click.option(
    "--policy", metavar="JSON", callback=json_object, help="By which it is compiled for that."
)
@click.option(
    "--before", metavar="BLOCK", callback=plain_text,
    help="It was sent before this block was added, such as its answer.",
)  # fmt: skip
@click.option(
    "--sent-sha256", metavar="HASH", callback=plain_text, help="Of what was sent, to be compared."
)
@by_agent
def attempt(
    options: Globals, name: str, attempt_id: str, params: Mapping[str, Any] | None, **values: Any
) -> int:
    """Record a call to a model, or how it ended, beside the history of the session.

    When an attempt begins, the hash of what is sent is kept with it; `session render NAME
    attempt:ID` gives the same bytes again, also when blocks have gone since.

    \b
    Examples:
      merkle session attempt review a1 --status running --provider local --model small
      merkle session attempt review a2 --status running --provider openai --model m --form openai
    """
    with open_workspace(options) as workspace:
        document = workspace.session_attempt(name, attempt_id, params=params, **values)
    show(
        options,
        document,
        lambda done: (
            f"attempt {on_screen(done['attempt']['attempt_id'])}: "
            + on_screen(done["attempt"]["status"])
        ),
    )
    return ExitCode.FINE
