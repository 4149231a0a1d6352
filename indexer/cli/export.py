"""`merkle export`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import counted, path
from indexer.cli.here import node_from_here
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.errors import ExitCode


def pack_file(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what is no name of a file: the service writes and reads packs itself."""
    if value in ("", "-"):
        raise click.BadParameter("a pack is a file of its own, not a stream", ctx, param)
    return value


@merkle_command("export")
@click.argument("file", metavar="FILE", callback=pack_file)
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
def command(options: Globals, file: str, nodes: tuple[str, ...]) -> int:
    """Write frames, agents and computed results to a file, for another clone to take in.

    That is what agents wrote, what generators made, so that nobody has to make it again, and
    every session. With NODE only what is about those nodes and below, and no session.

    \b
    Examples:
      merkle export team.pack
      merkle export ingest.pack ingest
    """
    with open_workspace(options) as workspace:
        document = workspace.export(
            file, [node_from_here(options, workspace, node) for node in nodes]
        )
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: Mapping[str, Any]) -> str:
    return f"wrote {counted(document['records'], 'record')} to {path(document['file'])}"
