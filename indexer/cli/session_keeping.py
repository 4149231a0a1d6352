"""`merkle session log`, `fork`, `merge`, `rename`, `delete` and `restore`: keeping sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from indexer.cli.columns import counted
from indexer.cli.frame_text import moment
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import print_json, print_text, show
from indexer.cli.session_options import by_agent, session_name, short_id
from indexer.core.paths import on_screen
from indexer.errors import ExitCode


@merkle_command("log")
@session_name
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(min=0), help="Records, 50 unless told."
)
@click.option("--before", metavar="SEQ", type=click.IntRange(min=0), help="Only older ones.")
def log(options: Globals, name: str, limit: int | None, before: int | None) -> int:
    """Show what was done to a session, newest first: when, by whom, and why.

    \b
    Examples:
      merkle session log review
      merkle session log review -n 20 --before 180
    """
    with open_workspace(options) as workspace:
        document = workspace.session_log(name, limit=limit, before=before)
    if options.json:
        print_json(document)
    else:
        print_text("\n".join(_lines(document)))
    return ExitCode.FINE


_ABOUT: Final = ("id", "target", "attempt_id", "of", "name", "to")
"""What a record is about, in the order in which it is looked for."""


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    for record in document["records"]:
        who = f" {on_screen(record['author'])}" if record["author"] is not None else ""
        about = next((record[key] for key in _ABOUT if record.get(key)), None)
        named = f" {on_screen(short_id(str(about)))}" if about is not None else ""
        head = f"{record['seq']:>5}  {moment(record['at'])}{who}  "
        yield click.style(head, dim=True) + click.style(record["op"], bold=True) + named
        for key in ("text", "message", "reason", "priority", "status"):
            if record.get(key) is not None:
                said = on_screen(str(record[key]))
                label = "" if key == "text" else f"{key}: "
                yield f"       {label}{said if len(said) <= 100 else said[:99] + '…'}"
        for conflict in record.get("conflicts") or ():
            yield f"       conflict: {_conflict(conflict)}"
    if document["records"] and document["records"][-1]["seq"]:
        older = counted(document["records"][-1]["seq"], "older record")
        yield f"{older}: --before {document['records'][-1]['seq']}"


def _conflict(conflict: Mapping[str, str]) -> str:
    return f"{on_screen(short_id(conflict['id']))}: {on_screen(conflict['message'])}"


@merkle_command("fork")
@session_name
@click.argument("new", metavar="NEW", callback=plain_text)
@click.option(
    "--at",
    metavar="@SNAPSHOT",
    callback=plain_text,
    help="Where it leaves: @t0 unless told; @w takes the work in progress along.",
)
@by_agent
def fork(options: Globals, name: str, new: str, at: str | None, agent: str | None) -> int:
    """Begin a session that shares another one's history up to a snapshot.

    From there on neither sees what the other does, until one is merged into the other. What is
    shared is not copied.

    \b
    Example:
      merkle session fork review --at @t-3 another-try
    """
    with open_workspace(options) as workspace:
        document = workspace.session_fork(name, new, at=at, agent=agent)
    show(options, document, _forked)
    return ExitCode.FINE


def _forked(document: Mapping[str, Any]) -> str:
    left = document["left_out"]
    rest = f"; {counted(left, 'later record')} stay behind" if left else ""
    return f"began {on_screen(document['name'])} at cycle {document['cycle']}{rest}"


@merkle_command("merge")
@session_name
@click.argument("other", metavar="BRANCH", callback=plain_text)
@click.option("--check", is_flag=True, help="Only tell what would be done.")
@by_agent
def merge(options: Globals, name: str, other: str, check: bool, agent: str | None) -> int:
    """Append the sealed turns of a branch to a session, in their order.

    Its edits, annotations and changes of what both share come along. Where both sides changed
    something the branch has the later word, and that is told; so is what has no place any more.

    \b
    Example:
      merkle session merge review another-try
    """
    with open_workspace(options) as workspace:
        document = workspace.session_merge(name, other, check=check, agent=agent)
    show(options, document, _merged)
    return ExitCode.FINE


def _merged(document: Mapping[str, Any]) -> str:
    verb = "would append" if document["checked_only"] else "appended"
    lines = [
        f"{verb} {counted(document['turns'], 'turn')} of {on_screen(document['of'])},"
        f" up to cycle {document['cycle']}"
    ]
    lines += [f"  {on_screen(c['kind'])}  {_conflict(c)}" for c in document["conflicts"]]
    if document["left"]:
        lines.append(f"  {counted(document['left'], 'record')} of it belong to no sealed turn")
    return "\n".join(lines)


@merkle_command("rename")
@session_name
@click.argument("new", metavar="NEW", callback=plain_text)
@by_agent
def rename(options: Globals, name: str, new: str, agent: str | None) -> int:
    """Call a session something else.

    \b
    Example:
      merkle session rename review review-of-march
    """
    with open_workspace(options) as workspace:
        document = workspace.session_rename(name, new, agent=agent)
    show(options, document, lambda done: f"{on_screen(name)} is {on_screen(done['name'])} now")
    return ExitCode.FINE


@merkle_command("delete")
@session_name
@by_agent
def delete(options: Globals, name: str, agent: str | None) -> int:
    """Delete a session; until the next `merkle compact`, `session restore` brings it back.

    \b
    Example:
      merkle session delete review
    """
    with open_workspace(options) as workspace:
        document = workspace.session_delete(name, agent=agent)
    back = f"`merkle session restore {on_screen(name)}` brings it back, until `merkle compact`"
    show(options, document, lambda done: f"deleted {on_screen(done['was'])}; {back}")
    return ExitCode.FINE


@merkle_command("restore")
@session_name
@click.option("--as", "new", metavar="NEW", callback=plain_text, help="Under another name.")
@by_agent
def restore(options: Globals, name: str, new: str | None, agent: str | None) -> int:
    """Bring back the session that was deleted last under a name.

    \b
    Examples:
      merkle session list --deleted
      merkle session restore review --as review-again
    """
    with open_workspace(options) as workspace:
        document = workspace.session_restore(name, new=new, agent=agent)
    show(options, document, lambda done: f"{on_screen(done['name'])} is back")
    return ExitCode.FINE
