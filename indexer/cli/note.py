"""`merkle note`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from indexer.cli.columns import path, short
from indexer.cli.frame_text import about, freshness
from indexer.cli.here import node_from_here
from indexer.cli.nodes import STDIN, node_name
from indexer.cli.opening import open_workspace, root_of
from indexer.cli.options import (
    Globals,
    acting_agent,
    allow_secrets,
    default_of,
    merkle_command,
    plain_text,
    plain_texts,
)
from indexer.cli.output import show
from indexer.cli.put_frame import text_of
from indexer.core.paths import on_screen
from indexer.errors import ExitCode
from indexer.service.person import person
from indexer.service.workspace import Workspace

_CUT: Final = "# ------ what stands below this line is not part of the note ------"


@merkle_command("note")
@click.argument("node", metavar="[NODE[::SYMBOL]", required=False, callback=node_name)
@click.argument("words", metavar="[TEXT]...]", nargs=-1, callback=plain_texts)
@click.option(
    "--still-true",
    metavar="FRAME_ID",
    callback=plain_text,
    help="Confirm a note that went stale: the same words, bound to what is there now.",
)
@click.option(
    "--withdraw",
    metavar="FRAME_ID",
    callback=plain_text,
    help="Take a note back; it stays in the history.",
)
@click.option(
    "--type",
    "frame_type",
    metavar="T",
    default=default_of(Workspace.note, "frame_type"),
    show_default=True,
    callback=plain_text,
    help="What kind of note it is.",
)
@acting_agent("In whose name.")
@click.option(
    "--seen", metavar="NODEID", callback=plain_text, help="The node's id when it was read."
)
@click.option(
    "--replaces",
    metavar="FRAME_ID",
    multiple=True,
    callback=plain_texts,
    help="A note about the same node that this one takes the place of; can be repeated.",
)
@allow_secrets
def command(
    options: Globals,
    node: str | None,
    words: tuple[str, ...],
    still_true: str | None,
    withdraw: str | None,
    frame_type: str,
    agent: str | None,
    seen: str | None,
    replaces: tuple[str, ...],
    allow_secrets: bool,
) -> int:
    """Write a note about a file, a folder or a symbol, as yourself.

    TEXT is what it says; without it your editor is opened ($VISUAL, $EDITOR), or standard input is
    read where that is no terminal. It is bound to what is on disk now, and goes stale when that
    changes: with PATH::SYMBOL the symbol's text, wherever in the file it stands.

    You are who MERKLE_AGENT says, otherwise git's user.name, otherwise your login; whom nobody
    knows yet is registered as a writer.

    \b
    Examples:
      merkle note ingest/saltgauge/store.py::ReadingStore.add "Twice loaded is stored once."
      git log -1 --format=%B | merkle note gateway
      merkle note --still-true 3f9a01c2
      merkle note --withdraw 3f9a01c2
    """
    given = [one for one in (node, still_true, withdraw) if one is not None]
    if len(given) != 1:
        raise click.UsageError("give NODE and what to say, or one of --still-true and --withdraw")
    who = agent or person(root_of(options))
    if node is None:
        with open_workspace(options) as workspace:
            if withdraw is not None:
                taken = workspace.withdraw_note(withdraw, agent=who)
                show(options, taken, _withdrawn_text)
            elif still_true is not None:
                confirmed = workspace.confirm_note(still_true, agent=who, seen=seen)
                show(options, confirmed, _confirmed_text)
        return ExitCode.FINE
    content = _said(node, words)
    with open_workspace(options) as workspace:
        document = workspace.note(
            node_from_here(options, workspace, node),
            content,
            agent=who,
            frame_type=frame_type,
            seen=seen,
            replaces=replaces,
            allow_secrets=allow_secrets,
        )
    show(options, document, _text)
    return ExitCode.FINE


def _said(node: str, words: tuple[str, ...]) -> str:
    """What the line says, or what is written in an editor, or what comes through a pipe."""
    if words and words != (STDIN,):
        return " ".join(words)
    if words or not sys.stdin.isatty():
        return text_of(sys.stdin.buffer)
    written = click.edit(f"\n{_CUT}\n# A note about {on_screen(node)}.\n", extension=".md")
    if written is None:
        raise click.UsageError("nothing was written, so nothing was noted")
    return written.partition(_CUT)[0].strip() + "\n"


def _place(document: Mapping[str, Any]) -> str:
    return f"{path(document['path'])}{about(document)}"


def _text(document: Mapping[str, Any]) -> str:
    done = "noted" if document["created"] else "already noted"
    who = f"as {on_screen(document['agent'])}"
    who += " (registered now, as a writer)" if document["registered"] else ""
    replaced = "".join(f", replaces {short(one)}" for one in document["replaced"])
    said = f"{done} {short(document['frame_id'])} on {_place(document)}, {who}{replaced}"
    return f"{said}: {freshness(document)}"


def _confirmed_text(document: Mapping[str, Any]) -> str:
    if not document["created"] and not document["replaced"]:
        return f"{short(document['frame_id'])} on {_place(document)} is fresh as it is"
    was = ", ".join(short(one) for one in document["replaced"])
    said = f"{short(document['frame_id'])} on {_place(document)} takes the place of {was}"
    return f"{said}: {freshness(document)}"


def _withdrawn_text(document: Mapping[str, Any]) -> str:
    name = f"::{on_screen(document['symbol'])}" if document["symbol"] else ""
    where = f"{path(document['path'])}{name}"
    return f"withdrew {short(document['frame_id'])} on {where}, as {on_screen(document['agent'])}"
