"""`merkle list-frames`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import path, short, table
from indexer.cli.frame_text import about, freshness, moment
from indexer.cli.nodes import node_name, on_nodes
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject


@merkle_command("list-frames")
@click.argument("node", metavar="NODE", callback=node_name)
@click.option(
    "--type", "frame_type", metavar="T", callback=plain_text, help="Only frames of this type."
)
def command(options: Globals, node: str, frame_type: str | None) -> int:
    """List every frame a node ever had, newest first.

    Those that views select are marked with *: the newest that a generator keeps, and every note
    that nothing superseded. Also takes a path that is gone.
    NODE - reads names from standard input, one a line.

    \b
    Example:
      merkle list-frames ingest/saltgauge/store.py --type review
    """
    with open_workspace(options) as workspace:
        return on_nodes(
            options,
            workspace,
            node,
            lambda name: workspace.list_frames(name, frame_type=frame_type),
            _text,
        )


def _text(name: str, document: Mapping[str, Any]) -> str:
    heading = click.style(path(document["path"]), bold=True)
    if not document["frames"]:
        return f"{heading}\n  no frames"
    rows = [_row(frame) for frame in document["frames"]]
    return "\n".join([heading, *(f"  {line}" for line in table(rows).split("\n"))])


def _row(frame: JsonObject) -> list[str]:
    return [
        click.style(("* " if frame["live"] else "  ") + short(frame["frame_id"]), fg="cyan"),
        on_screen(frame["type"]),
        on_screen(frame["agent"]),
        moment(frame["created_at"]),
        (about(frame) + ": " if about(frame) else "")
        + freshness(frame)
        + ("" if frame["has_body"] else ", body dropped"),
    ]
