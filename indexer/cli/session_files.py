"""`merkle session export`, `import` and `pull`: what goes out of a session, and what comes in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, TypedDict

import click

from indexer.cli.columns import counted, path, table
from indexer.cli.frame_text import state
from indexer.cli.here import node_from_here
from indexer.cli.nodes import as_text
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, allow_secrets, default_of, merkle_command, plain_text
from indexer.cli.output import show
from indexer.cli.session_options import FORMATS, by_agent, print_document, session_name, warned
from indexer.core.paths import on_screen
from indexer.errors import ExitCode, UsageError
from indexer.service.workspace import Workspace

LARGEST: Final = 64 << 20
"""Bytes of a document on standard input, at most."""


class InputError(UsageError):
    """What came on standard input cannot be a session."""

    code = "E_IMPORT_INVALID"


class SessionFileDocument(TypedDict):
    """An exported session, with its whole log."""

    cycle: int
    records: list[dict[str, Any]]
    records_sha256: str
    root: dict[str, Any]
    spec_version: str


@merkle_command("export", gives=(SessionFileDocument,))
@session_name
@click.argument("snapshot", metavar="[@SNAPSHOT]", required=False, callback=plain_text)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="A flat list of messages as this provider takes it.",
)
def export(options: Globals, name: str, snapshot: str | None, form: str | None) -> int:
    """Print a session with its whole log, for `session import` to read; or one snapshot of it.

    The same session gives the same bytes, here and wherever it was imported.

    \b
    Examples:
      merkle session export review > review.json
      merkle session export review @t0 > snapshot.json
      merkle session export review --format openai > messages.json
    """
    with open_workspace(options) as workspace:
        document = workspace.session_export(name, snapshot, form=form)
    print_document(document["data"])
    return ExitCode.FINE


@merkle_command("import")
@click.argument("file", metavar="FILE", type=click.Path(), callback=plain_text)
@click.option("--name", metavar="NAME", required=True, callback=plain_text, help="A free name.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="A list of messages of this provider."
)
@allow_secrets
@by_agent
def import_(options: Globals, file: str, name: str, **values: Any) -> int:
    """Take in an exported session, a bare snapshot or a flat chat log as a new session.

    FILE - reads standard input. All of it is checked before anything is kept: every hash of the
    chain, the checksum of the log, and that the log leads to the snapshot beside it.

    \b
    Examples:
      merkle session import review.json --name review-again
      merkle session import chat.json --name chat --format anthropic
    """
    data = _stdin() if file == "-" else None
    with open_workspace(options) as workspace:
        document = workspace.session_import(
            None if data is not None else file, name=name, data=data, **values
        )
    show(options, document, _text)
    if not options.json:
        warned(document["warnings"])
    return ExitCode.FINE


@merkle_command("pull")
@session_name
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
@click.option("--budget", metavar="N", type=click.IntRange(min=0), help="Tokens, at most.")
@click.option(
    "--ttl",
    metavar="N",
    type=click.IntRange(min=0),
    default=default_of(Workspace.session_pull, "ttl"),
    show_default=True,
    help="Cycles that it stays.",
)
@click.option(
    "--offset",
    metavar="N",
    type=int,
    help=f"Its place in the turn; {default_of(Workspace.session_pull, 'offset')} unless told.",
)
@click.option("--query", metavar="Q", callback=plain_text, help="What it should be about.")
@click.option("--max-frames", metavar="N", type=click.IntRange(min=0), help="Frames, at most.")
@click.option("--require-fresh", is_flag=True, help="Leave out what is not fresh.")
@by_agent
def pull(options: Globals, name: str, nodes: tuple[str, ...], **values: Any) -> int:
    """Compose workspace context into the active head, before what is said in this turn.

    Each block names its frame and how fresh that was, so that a snapshot tells exactly what was
    seen. NODE is a path or an id, as `merkle compose` takes it; all of it goes in, or nothing.

    \b
    Examples:
      merkle session pull review ingest/saltgauge/store.py --budget 2000
      merkle session pull review --query "how are tides computed" --ttl 3
    """
    with open_workspace(options) as workspace:
        document = workspace.session_pull(
            name, [node_from_here(options, workspace, as_text(node)) for node in nodes], **values
        )
    show(options, document, _pulled)
    if not options.json:
        warned(document["warnings"])
    return ExitCode.FINE


def _pulled(document: Mapping[str, Any]) -> str:
    rows = [
        [
            path(each["path"] or ""),
            on_screen(each["type"]),
            state(each["freshness"]),
            counted(each["tokens"], "token"),
        ]
        for each in document["items"]
    ]
    total = f"{counted(len(rows), 'frame')}, {counted(document['tokens'], 'token')}"
    return "\n".join(filter(None, [table(rows), total]))


def _stdin() -> str:
    raw = sys.stdin.buffer.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise InputError(f"more than {LARGEST} bytes on standard input")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 at byte {error.start}") from None


def _text(document: Mapping[str, Any]) -> str:
    blocks = counted(document["commits"], "block")
    return f"took in {on_screen(document['name'])}: {blocks}, cycle {document['cycle']}"
