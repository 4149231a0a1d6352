"""`merkle symbols`."""

from __future__ import annotations

import click

from indexer.cli.code_text import limit_option, show_symbols
from indexer.cli.here import from_here
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.service.workspace import Workspace


@merkle_command("symbols")
@click.argument("pattern", callback=plain_text)
@click.option("--kind", metavar="K", callback=plain_text, help="Only class, function, method, …")
@click.option(
    "--in", "within", metavar="NODE", callback=plain_text, help="Only of this file or folder."
)
@limit_option(Workspace.symbols)
def command(
    options: Globals, pattern: str, kind: str | None, within: str | None, limit: int
) -> int:
    """List the symbols whose name fits a pattern.

    A name fits that has PATTERN in it, or as a whole where PATTERN has * or ?. Symbols are
    functions, methods, classes and other types, constants, and the headings of documents. Those
    that are called exactly that come first. Exit status 1: there are none.

    \b
    Examples:
      merkle symbols judge
      merkle symbols 'Quality*' --kind class
      merkle symbols '*' --in ingest/saltgauge/store.py
    """
    place = None if within is None else from_here(options, within)
    return show_symbols(
        options,
        lambda workspace: workspace.symbols(pattern, kind=kind, within=place, limit=limit),
    )
