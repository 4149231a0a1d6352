"""`merkle shared`: `status`, `push`, `pull` and `gc`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import counted, fields, size
from indexer.cli.durations import duration
from indexer.cli.opening import open_workspace
from indexer.cli.options import GlobalGroup, Globals, merkle_command
from indexer.cli.output import show
from indexer.core.paths import on_screen
from indexer.errors import ExitCode


@click.group("shared", cls=GlobalGroup)
def command() -> None:
    """Share computed results with a team, through one PostgreSQL database.

    Set `url` under [shared] in merkle.toml, or MERKLE_SHARED_URL. From then on nothing is
    computed that another member has computed; without the server work goes on, and what was
    computed meanwhile is pushed later.

    \b
    Examples:
      merkle shared status
      merkle shared push
    """


@merkle_command("status")
def status(options: Globals) -> int:
    """Tell whether the team's store can be reached, what it holds, and what is due to it.

    Exit status 3: a store is set and cannot be reached.

    \b
    Example:
      merkle shared status --json
    """
    with open_workspace(options) as workspace:
        document = workspace.shared_status()
    show(options, document, _status_text)
    return ExitCode.UNCHECKED if document["reachable"] is False else ExitCode.FINE


def _status_text(document: Mapping[str, Any]) -> str:
    if not document["configured"]:
        return "no team's store is set: `url` under [shared] in merkle.toml, or MERKLE_SHARED_URL"
    rows = [("store", on_screen(document["url"])), ("namespace", on_screen(document["namespace"]))]
    if document["reachable"]:
        held = f"{counted(document['entries'], 'result')}, {size(document['bytes'])}"
        rows += [("reachable", "yes"), ("holds", held)]
        rows.append(("being computed", counted(document["leases"], "key")))
    else:
        rows.append(("reachable", click.style("no", fg="red") + f": {_on(document['problem'])}"))
    rows.append(("member", "only reads" if document["read_only"] else "reads and writes"))
    rows.append(("due", f"{counted(document['pending'], 'result')} to be pushed"))
    if document["notes_due"] is not None:
        last = document["notes_exchanged_at"]
        since = f"last went or came {last}" if last else "none went or came yet"
        rows.append(("notes", f"{counted(document['notes_due'], 'note')} to be given, {since}"))
    refused = counted(document["refused"], "row")
    if document["refused"]:
        refused = click.style(refused, fg="red")
    rows += [("refused", f"{refused} so far"), ("protection", _on(document["detects"]))]
    return fields(rows)


def _on(text: str | None) -> str:
    return on_screen(text or "")


@merkle_command("push")
def push(options: Globals) -> int:
    """Give the team what was computed here and has not reached it.

    That is what was computed while the store could not be reached, and the results behind the
    present frames that it does not have. With `notes = true` under [shared] the notes go too, each
    with its author and signed with the team's key (MERKLE_TEAM_KEY).

    \b
    Example:
      merkle shared push
    """
    with open_workspace(options) as workspace:
        document = workspace.shared_push()
    show(options, document, _push_text)
    return ExitCode.FINE


def _push_text(document: Mapping[str, Any]) -> str:
    said = f"pushed {counted(document['pushed'], 'result')}, {document['pending']:,} still due"
    if document["notes"]:
        said += f"\npushed {counted(document['notes'], 'note')}"
    if document["withheld"]:
        said += f"\nkept back {counted(document['withheld'], 'note')} that may hold a secret"
    return said


@merkle_command("pull")
def pull(options: Globals) -> int:
    """Bring every result of the team here, for work without the server.

    Each is checked first. With `notes = true` under [shared] others' notes come too, and stay
    theirs. Exit status 1: some were refused.

    \b
    Example:
      merkle shared pull
    """
    with open_workspace(options) as workspace:
        document = workspace.shared_pull()
    show(options, document, _pull_text)
    return ExitCode.FINDINGS if document["refused"] else ExitCode.FINE


def _pull_text(document: Mapping[str, Any]) -> str:
    text = f"pulled {counted(document['pulled'], 'result')}, {document['known']:,} known already"
    if document["notes"]:
        text += f"\npulled {counted(document['notes'], 'note')}: `merkle notes`"
    if document["refused"]:
        reasons = ", ".join(f"{on_screen(why)} {n:,}" for why, n in document["reasons"].items())
        text += click.style(f"\nrefused {document['refused']:,}", fg="red") + f": {reasons}"
    return text


@merkle_command("gc")
@click.option(
    "--unused",
    metavar="TIME",
    default="90d",
    show_default=True,
    callback=duration,
    help="Drop what no member has asked for in TIME (90d; a day or more), by the store's clock.",
)
@click.option("--dry-run", is_flag=True, help="Only tell how much that would be.")
def gc(options: Globals, unused: float, dry_run: bool) -> int:
    """Drop from the team's store what nobody has used for a time.

    Results that somebody is computing again stay. A use is noted once a day.

    \b
    Example:
      merkle shared gc --unused 180d --dry-run
    """
    with open_workspace(options) as workspace:
        document = workspace.shared_gc(unused, dry_run=dry_run)
    show(options, document, _gc_text)
    return ExitCode.FINE


def _gc_text(document: Mapping[str, Any]) -> str:
    verb = "would drop" if document["dry_run"] else "dropped"
    results = counted(document["dropped"], "result")
    return f"{verb} {results} and {counted(document['bodies'], 'body', 'bodies')}"


for _part in (status, push, pull, gc):
    command.add_command(_part)
