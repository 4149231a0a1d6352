"""`merkle invalidate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import counted
from indexer.cli.nodes import node_name, on_nodes, place
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, acting_agent, merkle_command, plain_text


@merkle_command("invalidate")
@click.argument("node", metavar="NODE", callback=node_name)
@click.option(
    "--type", "frame_type", metavar="T", callback=plain_text, help="Only frames of this type."
)
@acting_agent("Who asks for it, a registered writer.")
def command(options: Globals, node: str, frame_type: str | None, agent: str | None) -> int:
    """Make generated frames run again next time, at a node and below, whatever is remembered.

    They are stale from now on; `merkle regenerate` or the service makes them again. NODE - reads
    names from standard input, one a line.

    \b
    Example:
      merkle invalidate ingest --type outline
    """

    def text(name: str, document: Mapping[str, Any]) -> str:
        if options.quiet:
            return ""
        return f"{place(name)}: {counted(document['invalidated'], 'frame')} to be made again"

    with open_workspace(options) as workspace:
        return on_nodes(
            options,
            workspace,
            node,
            lambda name: workspace.invalidate(name, frame_type=frame_type, agent=agent),
            text,
        )
