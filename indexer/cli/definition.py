"""`merkle definition`."""

from __future__ import annotations

import click

from indexer.cli.code_text import limit_option, show_symbols
from indexer.cli.here import from_here
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.service.workspace import Workspace


@merkle_command("definition")
@click.argument("name", callback=plain_text)
@click.option(
    "--at",
    metavar="PATH:LINE",
    callback=plain_text,
    help="What NAME means there, where it is used.",
)
@limit_option(Workspace.definition)
def command(options: Globals, name: str, at: str | None, limit: int) -> int:
    """Tell where a name is defined: a name, Type.name, or PATH::name.

    \b
    Examples:
      merkle definition ReadingStore.add
      merkle definition add --at ingest/saltgauge/cli.py:46
    """
    if at is not None:
        path, colon, line = at.rpartition(":")
        at = from_here(options, path) + colon + line if path else at
    return show_symbols(options, lambda workspace: workspace.definition(name, at=at, limit=limit))
