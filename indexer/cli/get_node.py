"""`merkle get-node`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from indexer.cli.columns import counted, fields, first, path, size
from indexer.cli.frame_text import about, body, freshness, moment
from indexer.cli.nodes import node_name, on_nodes
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, default_of, merkle_command, plain_text
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode
from indexer.service.workspace import Workspace


@merkle_command("get-node")
@click.argument("node", metavar="NODE", callback=node_name)
@click.option(
    "--view",
    type=click.Choice(["recency", "type", "agent", "relevance"]),
    help="Which frames come first: recency, or relevance with a query, if not given.",
)
@click.option("--query", metavar="Q", callback=plain_text, help="What is looked for, in words.")
@click.option(
    "--max-frames",
    metavar="N",
    type=click.IntRange(0, 1_000_000),
    default=default_of(Workspace.get_node, "max_frames"),
    show_default=True,
    help="Show at most N frames.",
)
@click.option(
    "--type", "frame_type", metavar="T", callback=plain_text, help="Only frames of this type."
)
@click.option("--agent", metavar="A", callback=plain_text, help="Only frames of this agent.")
@click.option(
    "--require-fresh", is_flag=True, help="Exit with 1 when a frame that is shown is not fresh."
)
def command(
    options: Globals,
    node: str,
    view: str | None,
    query: str | None,
    max_frames: int,
    frame_type: str | None,
    agent: str | None,
    require_fresh: bool,
) -> int:
    """Show a file or folder with the frames about it, each with how fresh it is and why.

    NODE is a path in the workspace or 6 or more digits of a node's id; where it could be both,
    write path: or id: before it. A path counts from the workspace's root, or from the current
    folder if only there is something of that name; with ./ or ../ before it, always from the
    current folder. The last part of a path, such as main.py, is enough where only one node's path
    ends so. NODE - reads names from standard input, one a line, each a whole path.

    \b
    Examples:
      merkle get-node ingest/saltgauge/store.py
      merkle get-node ingest --view relevance --query "how is a gauge calibrated"
      git diff --name-only | merkle get-node - --type outline --require-fresh
    """

    def verdict(document: Mapping[str, Any]) -> ExitCode:
        stale = any(frame["freshness"] != "fresh" for frame in document["frames"])
        return ExitCode.FINDINGS if require_fresh and stale else ExitCode.FINE

    asked: dict[str, Any] = {
        "view": view or ("recency" if query is None else "relevance"),
        "max_frames": max_frames,
        "frame_type": frame_type,
        "agent": agent,
        "query": query,
    }
    with open_workspace(options) as workspace:
        return on_nodes(
            options,
            workspace,
            node,
            lambda name: workspace.get_node(name, **asked),
            lambda name, document: "\n".join(_lines(document)),
            verdict,
            together=lambda names: workspace.get_nodes(names, **asked)["results"],
        )


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield click.style(path(document["path"]), bold=True)
    former = "  (you gave an id it had before)" if document["superseded"] else ""
    shown, count = len(document["frames"]), document["frame_count"]
    summary = [
        ("kind", f"{document['kind']}, {size(document['size'])}"),
        ("node", f"{document['node_id']}{click.style(former, fg='yellow')}"),
        ("content", document["content_id"]),
        ("frames", f"{count:,}" if shown == count else f"{shown:,} of {count:,}"),
    ]
    yield fields(summary, "  ")
    if document["children"]:
        yield "  " + click.style(f"children ({len(document['children']):,})", dim=True)
        yield from (f"    {line}" for line in first([path(name) for name in document["children"]]))
    for frame in document["frames"]:
        yield ""
        yield _heading(frame)
        if frame["content"] is None:
            yield click.style("  (its body was dropped by compact)", dim=True)
        elif frame["content"]:
            yield body(frame.get("lined", frame["content"]))


def _heading(frame: JsonObject) -> str:
    parts = [
        click.style(on_screen(frame["type"]), bold=True),
        f"by {on_screen(frame['agent'])},",
        *([f"on {about(frame)},"] if about(frame) else []),
        freshness(frame) + ",",
        counted(frame["tokens"], "token") + ",",
        moment(frame["created_at"]),
    ]
    return " ".join(parts)
