"""`merkle replay`."""

from __future__ import annotations

import click

from indexer.cli.context_text import format_option, show_context
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.errors import ExitCode


@merkle_command("replay")
@click.argument("manifest", metavar="MANIFEST", callback=plain_text)
@format_option
def command(options: Globals, manifest: str, form: str) -> int:
    """Show again exactly what a recorded composition showed.

    MANIFEST is the id that `merkle compose --record` printed, or its first digits. The messages
    are the same byte for byte, however the files have changed since; so is the freshness that
    they tell, which is that of then and not of now.

    \b
    Examples:
      merkle replay 3f9a01c2
      merkle replay 3f9a01c2 --format messages | cmp - context.json
    """
    with open_workspace(options) as workspace:
        document = workspace.replay(manifest)
    show_context(document, as_json=options.json, form=form, quiet=options.quiet)
    return ExitCode.FINE
