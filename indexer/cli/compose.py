"""`merkle compose`."""

from __future__ import annotations

import click

from indexer.cli.context_text import format_option, show_context
from indexer.cli.here import AMBIGUOUS, from_here, node_from_here
from indexer.cli.nodes import as_text
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text, plain_texts
from indexer.cli.output import print_text
from indexer.errors import ExitCode, UsageError
from indexer.service.workspace import Workspace

SOURCES = ("node", "parents", "siblings", "below", "related", "workspace")
LARGEST = 999_999_999


def _names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(as_text(name) for name in value)


def _reads_as_question(options: Globals, workspace: Workspace, name: str) -> bool:
    """Whether the one argument is no node, and words rather than a mistyped name.

    Words have a blank between them or a question mark at the end; a single one asks for the
    symbol of that name. What is on disk or in the index is a node whatever it looks like, and so
    is what says so by path: or id:.
    """
    spoken = name.strip()
    asks = " " in spoken or spoken.endswith("?")
    if not (asks or spoken.replace(".", "").isidentifier()) or name.startswith(("path:", "id:")):
        return False
    try:
        meant = from_here(options, name)
        workspace.resolve(meant, by_name=True)
    except UsageError as error:
        return error.code != AMBIGUOUS and (asks or _is_symbol(workspace, spoken))
    return False


def _is_symbol(workspace: Workspace, name: str) -> bool:
    try:
        return bool(workspace.definition(name, limit=1)["symbols"])
    except UsageError:
        return False


@merkle_command("compose")
@click.argument("nodes", metavar="[NODE]...|QUESTION", nargs=-1, callback=_names)
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
    callback=plain_texts,
    help="Only frames of these types; with --order type, these first and in this order.",
)
@click.option(
    "--agent",
    "agents",
    metavar="A",
    multiple=True,
    callback=plain_texts,
    help="Only frames of these agents; with --order agent, these first and in this order.",
)
@click.option(
    "--only",
    metavar="T",
    multiple=True,
    callback=plain_texts,
    help="Nothing but frames of this type, whatever the order; with --order agent, of this agent.",
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
@click.option(
    "--no-source", is_flag=True, help="No lines of files; --only outline has outlines alone."
)
@click.option("--tests", is_flag=True, help="Let tests count like the code they are about.")
@click.option("--docs", is_flag=True, help="Let documents count like code.")
@click.option("--why", is_flag=True, help="Tell what each score is made of.")
@click.option("--require-fresh", is_flag=True, help="Leave out what is not fresh.")
@click.option("--record", is_flag=True, help="Keep the manifest, so that it can be replayed.")
@format_option
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
    only: tuple[str, ...],
    paths: tuple[str, ...],
    related: tuple[str, ...],
    since: str | None,
    until: str | None,
    no_source: bool,
    tests: bool,
    docs: bool,
    why: bool,
    require_fresh: bool,
    record: bool,
    form: str,
) -> int:
    """Put together what an agent should read, within a token budget.

    The same frames, request and tokenizer give the same messages, byte for byte. The messages
    stand in the order in which their frames were stored, so that a change late in time leaves
    the beginning as it was, and a provider's prompt cache with it. Each frame says itself when it
    is not fresh. What is left out is counted, with the reasons.

    One argument that is no node and reads as a question, with blanks or a question mark, or that
    names a symbol, is taken for --query, and that is said. With a question the answer is a mix: for
    the best files the bodies of the symbols that match best, or the whole file where it fits, with
    what is known about them. Lines of files are read and hashed at that moment, and stand fenced in
    their messages. Tests, documents, translations and generated files weigh less, unless the
    question or an option asks for them.

    \b
    Examples:
      merkle compose "how is a gauge calibrated" --budget 4000
      merkle compose ingest/saltgauge/store.py --source node --source siblings --require-fresh
      merkle compose --query "retry policy" --record --format messages > context.json
    """
    with open_workspace(options) as workspace:
        if query is None and len(nodes) == 1 and _reads_as_question(options, workspace, nodes[0]):
            query, nodes = nodes[0], ()
            if not options.quiet:
                taken = "no file or folder has that name: it is taken as a question (--query)"
                print_text(click.style(taken, dim=True), err=True)
        document = workspace.compose(
            [node_from_here(options, workspace, node) for node in nodes],
            query=query,
            budget=budget,
            max_frames=max_frames,
            sources=sources,
            order=order,
            require_fresh=require_fresh,
            record=record,
            types=types if order == "agent" else (*types, *only),
            agents=(*agents, *only) if order == "agent" else agents,
            only=bool(only),
            paths=paths,
            related=[node_from_here(options, workspace, node) for node in related],
            since=since,
            until=until,
            source=not no_source,
            tests=tests,
            docs=docs,
            why=why,
        )
    show_context(document, as_json=options.json, form=form, quiet=options.quiet)
    return ExitCode.FINE
