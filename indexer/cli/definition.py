"""`merkle definition`."""

from __future__ import annotations

import click

from indexer.cli.code_text import limit_option, show_symbols
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.service.workspace import Workspace


@merkle_command("definition")
@click.argument("name", callback=plain_text)
@limit_option(Workspace.definition)
def command(options: Globals, name: str, limit: int) -> int:
    """Tell where a name is defined: a name, Type.name, or PATH::name.

    \b
    Example:
      merkle definition Parser.read
    """
    return show_symbols(options, lambda workspace: workspace.definition(name, limit=limit))
