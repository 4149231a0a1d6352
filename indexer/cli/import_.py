"""`merkle import`."""

from __future__ import annotations

import click

from indexer.cli.columns import counted, path
from indexer.cli.export import pack_file
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, allow_secrets, merkle_command
from indexer.cli.output import show
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode


@merkle_command("import")
@click.argument("file", metavar="FILE", callback=pack_file)
@allow_secrets
def command(options: Globals, file: str, allow_secrets: bool) -> int:
    """Take in a file that export wrote, checking all of it first.

    What is known already is left as it is, so importing twice is harmless. A session that the
    file has further on than it is here is brought as far. A note or session that looks like it
    holds a secret stops the import; in what was generated it is masked, as it is here.

    \b
    Example:
      merkle import team.pack
    """
    with open_workspace(options) as workspace:
        document = workspace.import_(file, allow_secrets=allow_secrets)
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: JsonObject) -> str:
    records = counted(document["records"], "record")
    lines = [f"{records} in {path(document['file'])}, {document['added']:,} of them new"]
    lines += [
        f"session {on_screen(name)} went another way here and was left as it is"
        for name in document["diverged"]
    ]
    return "\n".join(lines)
