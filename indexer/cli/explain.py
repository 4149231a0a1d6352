"""`merkle explain`."""

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


@merkle_command("explain")
@click.argument("node", metavar="NODE", callback=node_name)
@click.option(
    "--type", "frame_type", metavar="T", callback=plain_text, help="The frame of this type."
)
def command(options: Globals, node: str, frame_type: str | None) -> int:
    """Tell why a frame is what it is, or why it is stale.

    Goes from the frame down its inputs to what moved: a file, a child, a setting. Each line has
    the input's id before and after. Also takes a path that is gone. NODE - reads names from
    standard input, one a line or each ended by NUL.

    \b
    Example:
      merkle explain ingest --type outline
    """
    with open_workspace(options) as workspace:
        return on_nodes(
            options,
            workspace,
            node,
            lambda name: workspace.explain(name, frame_type=frame_type),
            _text,
        )


def _text(name: str, document: Mapping[str, Any]) -> str:
    heading = (
        f"{click.style(path(document['path']), bold=True)}  {on_screen(document['type'])}"
        f" by {on_screen(document['agent'])}, {short(document['frame_id'])}: {freshness(document)}"
    )
    lines = []
    if document["chain"]:
        lines = table([_row(link) for link in document["chain"]]).split("\n")
    lines += _model_lines(document.get("model"))
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def _model_lines(model: JsonObject | None) -> list[str]:
    """Which model wrote it, from what, and what it did not get to see."""
    if model is None:
        return []
    tokens = f"{model['tokens_in']} tokens in, {model['tokens_out']} out"
    name, prompt = on_screen(str(model["model"])), on_screen(str(model["prompt"]))
    lines = [f"written by {name}, prompt {prompt}, {tokens}"]
    if model.get("cut"):
        said = ", ".join(f"{key.replace('_', ' ')} {n}" for key, n in sorted(model["cut"].items()))
        lines.append(f"its input was cut to the model's window: {on_screen(said)}")
    if model.get("output_cut"):
        lines.append("its answer was ended by the output limit")
    return lines


def _row(link: JsonObject) -> list[str]:
    return [
        path(link["path"]),
        click.style(on_screen(link["action"]), fg="cyan"),
        on_screen(link["input"]),
        f"{_id(link['old'])} → {_id(link['new'])}",
    ]


def _id(identifier: str | None) -> str:
    return on_screen(short(identifier))
