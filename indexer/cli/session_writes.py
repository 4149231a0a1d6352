"""`merkle session new`, `annotate`, `commit`, `move`, `remove`, `group` and `attempt`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from indexer.cli.columns import counted, first, short
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import show
from indexer.cli.session_options import json_object, session_name
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode

_COUNT: Final = click.IntRange(min=0)


@merkle_command("new")
@session_name
@click.option("--budget", metavar="N", type=_COUNT, help="Tokens of all commits together.")
@click.option(
    "--on-budget",
    type=click.Choice(["warn", "reject"]),
    help="What happens to a commit beyond the budget; warn unless told otherwise.",
)
@click.option("--max-nodes", metavar="N", type=_COUNT, help="Blocks to keep when committing.")
@click.option("--max-tokens", metavar="N", type=_COUNT, help="Tokens to keep when committing.")
@click.option("--protect-turns", metavar="N", type=_COUNT, help="Newest turns never pruned.")
def new(options: Globals, name: str, **values: int | str | None) -> int:
    """Begin an empty session.

    With --max-nodes or --max-tokens a commit removes blocks until the limit holds: lowest
    priority first, then oldest; pinned and referenced ones stay.

    \b
    Examples:
      merkle session new review
      merkle session new review --budget 8000 --on-budget reject
      merkle session new watch --max-tokens 20000 --protect-turns 3
    """
    with open_workspace(options) as workspace:
        # Click has checked them.
        document = workspace.session_new(name, **values)  # type: ignore[arg-type]
    show(options, document, lambda made: f"began session {on_screen(made['name'])}")
    return ExitCode.FINE


@merkle_command("annotate")
@session_name
@click.argument("target", metavar="TARGET", callback=plain_text)
@click.argument("priority", type=click.Choice(["pinned", "normal", "skip"]))
@click.option("--reason", metavar="R", callback=plain_text, help="Why.")
def annotate(options: Globals, name: str, target: str, priority: str, reason: str | None) -> int:
    """Pin a block, skip it when compiling, or make it normal again.

    \b
    Example:
      merkle session annotate review 3f9a21 pinned
    """
    with open_workspace(options) as workspace:
        document = workspace.session_annotate(name, target, priority, reason=reason)
    show(options, document, lambda done: f"{on_screen(done['id'])} is {done['priority']}")
    return ExitCode.FINE


@merkle_command("commit")
@session_name
def commit(options: Globals, name: str) -> int:
    """Seal the cycle: what is due goes, the active head becomes a turn, a snapshot is made.

    \b
    Example:
      merkle session commit review
    """
    with open_workspace(options) as workspace:
        document = workspace.session_commit(name)
    show(options, document, _sealed)
    return ExitCode.FINE


def _sealed(document: JsonObject) -> str:
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
def move(options: Globals, name: str, node: str, parent: str, offset: int | None) -> int:
    """Hang a node elsewhere in the work in progress; sealed cores stay as they are.

    PARENT is an id, sys or ah. A node that a snapshot shows gets a new id in another region.

    \b
    Example:
      merkle session move review note-1 ah --offset -1
    """
    with open_workspace(options) as workspace:
        document = workspace.session_move(name, node, parent, offset=offset)
    show(
        options,
        document,
        lambda done: f"moved to {on_screen(done['parent'])} as " + on_screen(done["id"]),
    )
    return ExitCode.FINE


@merkle_command("remove")
@session_name
@click.argument("node", metavar="ID", callback=plain_text)
def remove(options: Globals, name: str, node: str) -> int:
    """Take a node, and what is below it, out of the work in progress; snapshots keep it.

    \b
    Example:
      merkle session remove review note-1
    """
    with open_workspace(options) as workspace:
        document = workspace.session_remove(name, node)
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
def attempt(
    options: Globals, name: str, attempt_id: str, params: Mapping[str, Any] | None, **values: Any
) -> int:
    """Record a call to a model, or how it ended, beside the history of the session.

    \b
    Example:
      merkle session attempt review a1 --status running --provider local --model small
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
