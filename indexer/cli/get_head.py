"""`merkle get-head`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import path, short, table
from indexer.cli.frame_text import freshness
from indexer.cli.nodes import node_name, on_nodes
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject


@merkle_command("get-head")
@click.argument("node", metavar="NODE", callback=node_name)
@click.option(
    "--type", "frame_type", metavar="T", callback=plain_text, help="Only frames of this type."
)
@click.option("--agent", metavar="A", callback=plain_text, help="Only frames of this agent.")
def command(options: Globals, node: str, frame_type: str | None, agent: str | None) -> int:
    """List the newest frames of a node, one per type and agent, with how fresh each is.

    Also takes a path that is gone. NODE - reads names from standard input, one a line.

    \b
    Example:
      merkle get-head ingest --type outline
    """
    with open_workspace(options) as workspace:
        return on_nodes(
            options,
            workspace,
            node,
            lambda name: workspace.get_head(name, frame_type=frame_type, agent=agent),
            _text,
        )


def _text(name: str, document: Mapping[str, Any]) -> str:
    heading = click.style(path(document["path"]), bold=True)
    if not document["heads"]:
        return f"{heading}\n  no frames"
    rows = [_row(head) for head in document["heads"]]
    return "\n".join([heading, *(f"  {line}" for line in table(rows).split("\n"))])


def _row(head: JsonObject) -> list[str]:
    return [
        click.style(short(head["frame_id"]), fg="cyan"),
        on_screen(head["type"]),
        on_screen(head["agent"]),
        freshness(head),
    ]
