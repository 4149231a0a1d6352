"""`merkle impact`."""

from __future__ import annotations

import click

from indexer.cli.code_text import limit_option, show_edges, sure_option
from indexer.cli.here import node_from_here
from indexer.cli.options import Globals, default_of, merkle_command, plain_text
from indexer.service.workspace import Workspace


@merkle_command("impact")
@click.argument("node", metavar="NODE[::SYMBOL]", callback=plain_text)
@click.option(
    "--depth",
    metavar="N",
    type=click.IntRange(1, 20),
    default=default_of(Workspace.impact, "depth"),
    show_default=True,
    help="Follow uses of uses so far.",
)
@sure_option(Workspace.impact)
@limit_option(Workspace.impact)
def command(options: Globals, node: str, depth: int, sure: str, limit: int) -> int:
    """List what a change of a file or symbol could affect, the nearest first.

    Each line has the number of steps, the first use by which it is reached, and whether it is
    a test. Uses that go by a name alone are followed with --sure name only.

    \b
    Examples:
      merkle impact ingest/saltgauge/store.py
      merkle impact ingest/saltgauge/store.py::ReadingStore.add --depth 2
    """
    return show_edges(
        options,
        lambda workspace: workspace.impact(
            node_from_here(options, workspace, node),
            depth=depth,
            sure=sure,
            limit=limit,
        ),
    )
