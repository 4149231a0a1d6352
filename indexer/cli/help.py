"""`merkle help`."""

from __future__ import annotations

from typing import TypedDict

import click

from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.errors import ExitCode


class HelpDocument(TypedDict):
    """Result of `help`."""

    command: str
    """Empty for the list of all commands."""
    help: str


@merkle_command("help", gives=(HelpDocument,))
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
def command(options: Globals, words: tuple[str, ...]) -> int:
    """Explain a command, or list them all: the same as --help.

    \b
    Examples:
      merkle help
      merkle help compose
      merkle help session new
    """
    context = click.get_current_context().find_root()
    for place, word in enumerate(words):
        group = context.command
        if not isinstance(group, click.Group):
            spoken = " ".join(words[:place])
            raise click.UsageError(f"`merkle {spoken}` has no commands of its own.")
        # The group itself refuses a name that it does not have, with the nearest ones.
        name, found, _ = group.resolve_command(context, [word])
        assert found is not None
        context = click.Context(found, context, name)
    text = context.get_help()
    if options.json:
        print_json(HelpDocument(command=" ".join(words), help=click.unstyle(text)))
    else:
        print_text(text)
    return ExitCode.FINE
