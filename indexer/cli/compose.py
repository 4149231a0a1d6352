"""`merkle compose`."""

from __future__ import annotations

import click

from indexer.cli.context_text import FORMATS, show_context
from indexer.cli.here import from_here
from indexer.cli.nodes import as_text
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.progress import search_progress
from indexer.errors import ExitCode

SOURCES = ("node", "parents", "siblings", "below", "related", "workspace")
LARGEST = 999_999_999


def _names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(as_text(name) for name in value)


def _texts(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        plain_text(ctx, param, text)
    return value


@merkle_command("compose")
@click.argument("nodes", metavar="[NODE]...", nargs=-1, callback=_names)
@click.option("--query", metavar="Q", callback=plain_text, help="What is looked for, in words.")
@click.option(
    "--budget",
    metavar="N",
    type=click.IntRange(0, LARGEST),
    help="At most N tokens, counted on the messages with their framing. 8000 if not given.",
)
@click.option(
    "--max-frames", metavar="N", type=click.IntRange(0, LARGEST), help="At most N frames."
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(SOURCES),
    help="Where frames come from. With a query: workspace, and the nodes. With nodes alone: node,"
    " parents, siblings, below. Otherwise: workspace.",
)
@click.option(
    "--order",
    metavar="O",
    callback=plain_text,
    help="recency, type, agent, relevance, or the name of an installed ordering. Relevance with a"
    " query or with nodes, else recency.",
)
@click.option(
    "--type",
    "types",
    metavar="T",
    multiple=True,
    callback=_texts,
    help="Only frames of these types; with --order type, in this order.",
)
@click.option(
    "--agent",
    "agents",
    metavar="A",
    multiple=True,
    callback=_texts,
    help="Only frames of these agents; with --order agent, in this order.",
)
@click.option(
    "--path",
    "paths",
    metavar="P",
    multiple=True,
    callback=_names,
    help="Only frames at or below P, or at paths that match it where it has *, ? or [.",
)
@click.option(
    "--related", metavar="NODE", multiple=True, callback=_names, help="Draw on this node as well."
)
@click.option(
    "--since", metavar="TIME", callback=plain_text, help="Only frames made then or later (UTC)."
)
@click.option("--until", metavar="TIME", callback=plain_text, help="Only frames made before then.")
@click.option("--require-fresh", is_flag=True, help="Leave out what is not fresh.")
@click.option("--record", is_flag=True, help="Keep the manifest, so that it can be replayed.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Text for people, or the messages alone as a JSON array.",
)
def command(
    options: Globals,
    nodes: tuple[str, ...],
    query: str | None,
    budget: int | None,
    max_frames: int | None,
    sources: tuple[str, ...],
    order: str | None,
    types: tuple[str, ...],
    agents: tuple[str, ...],
    paths: tuple[str, ...],
    related: tuple[str, ...],
    since: str | None,
    until: str | None,
    require_fresh: bool,
    record: bool,
    form: str,
) -> int:
    """Put together what an agent should read, within a token budget.

    The same frames, request and tokenizer give the same messages, byte for byte. The messages
    stand in the order in which their frames were stored, so that a change late in time leaves
    the beginning as it was, and a provider's prompt cache with it. Each frame says itself when it
    is not fresh. What is left out is counted, with the reasons. The first --query after many
    frames were made indexes their texts, once; a watcher does that by itself.

    \b
    Examples:
      merkle compose --query "where are sockets closed" --budget 4000
      merkle compose src/main.py --source node --source siblings --require-fresh
      merkle compose --query "retry policy" --record --format messages > context.json
    """
    with open_workspace(options) as workspace, search_progress(options) as progress:
        document = workspace.compose(
            [from_here(options, node) for node in nodes],
            query=query,
            budget=budget,
            max_frames=max_frames,
            sources=sources,
            order=order,
            require_fresh=require_fresh,
            record=record,
            types=types,
            agents=agents,
            paths=paths,
            related=[from_here(options, node) for node in related],
            since=since,
            until=until,
            progress=progress,
        )
    show_context(document, as_json=options.json, form=form, quiet=options.quiet)
    return ExitCode.FINE
