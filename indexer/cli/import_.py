"""`merkle import`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import counted, path
from indexer.cli.export import pack_file
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, allow_secrets, merkle_command
from indexer.cli.output import show
from indexer.core.paths import on_screen
from indexer.errors import ExitCode


@merkle_command("import")
@click.argument("file", metavar="FILE", callback=pack_file)
@click.option("--trust", is_flag=True, help="Use computed results that nobody signed, too.")
@allow_secrets
def command(options: Globals, file: str, trust: bool, allow_secrets: bool) -> int:
    """Take in a file that export wrote, checking all of it first.

    What is known already is left as it is, so importing twice is harmless. A session that the
    file has further on than it is here is brought as far. A note or session that looks like it
    holds a secret stops the import; in what was generated it is masked, as it is here.

    Computed results are taken where they are signed with the team's key (MERKLE_TEAM_KEY).
    With --trust others are used here too, for a pack of your own; they are never given to a team.

    \b
    Examples:
      merkle import team.pack
      merkle import --trust merkle.pack
    """
    with open_workspace(options) as workspace:
        document = workspace.import_(file, trust=trust, allow_secrets=allow_secrets)
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: Mapping[str, Any]) -> str:
    records = counted(document["records"], "record")
    lines = [f"{records} in {path(document['file'])}, {document['added']:,} of them new"]
    if document["unsigned"]:
        left = counted(document["unsigned"], "computed result")
        lines.append(f"{left} that nobody signed were left: --trust uses them too")
    lines += [
        f"session {on_screen(name)} went another way here and was left as it is"
        for name in document["diverged"]
    ]
    return "\n".join(lines)
