"""`merkle compact`."""

from __future__ import annotations

import click

from indexer.cli.columns import counted
from indexer.cli.durations import duration
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode


@merkle_command("compact")
@click.option(
    "--keep",
    metavar="TIME",
    default="30d",
    show_default=True,
    callback=duration,
    help="Keep everything younger than TIME (10m, 2h, 30d).",
)
def command(options: Globals, keep: float) -> int:
    """Forget the bodies of old generated frames that are no longer the newest.

    Their ids stay, and so does everything that agents wrote. Rows of the index that later ones
    repeat go too, whatever their age: no command shows them.

    \b
    Example:
      merkle compact --keep 7d
    """
    with open_workspace(options) as workspace:
        document = workspace.compact(keep)
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: JsonObject) -> str:
    dropped = counted(document["dropped"], "body", "bodies")
    text = f"dropped {dropped}, kept {document['kept']:,}"
    repeated = counted(document["repeated_heads"], "repeated row", "repeated rows")
    return f"{text}; dropped {repeated} of heads" if document["repeated_heads"] else text
