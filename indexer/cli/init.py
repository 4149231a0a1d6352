"""`merkle init`."""

from __future__ import annotations

from typing import Any, TypedDict

import click

from indexer.cli.columns import counted, path
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.core.paths import on_screen
from indexer.errors import ExitCode


class InitDocument(TypedDict):
    """Result of `init`."""

    workspace: str
    hash: str
    created: bool
    adopted: dict[str, Any] | None


@merkle_command("init", gives=(InitDocument,))
@click.option(
    "--hash",
    "hash_name",
    metavar="NAME",
    type=click.Choice(["xxh3_128", "sha256"]),
    help="Hash for all ids: xxh3_128 (the default, fast) or sha256 (also withstands forgery).",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over an index that was made elsewhere, as far as it can be checked.",
)
def command(options: Globals, hash_name: str | None, adopt: bool) -> int:
    """Make the workspace's own folder, .merkle.

    It ignores itself, so no repository has to mention it. The hash is chosen once: xxh3_128
    detects accidents, sha256 also withstands files written on purpose to collide. A first
    `merkle scan` does the same with the default; repeating it is harmless.

    An index belongs to the folder it was made in: one that came with a clone, a copy or an archive
    is refused. With --adopt its journal is checked record by record, so that notes and sessions
    stay, and everything else is made anew; what came is put aside in .merkle/quarantine.

    \b
    Example:
      merkle init --hash sha256
    """
    with open_workspace(options) as workspace:
        show(options, workspace.init(hash_name, adopt=adopt), _text)
    return ExitCode.FINE


def _text(document: dict[str, Any]) -> str:
    adopted = document["adopted"]
    done = "Initialised" if document["created"] else "Already initialised:"
    if adopted is not None:
        done = "Adopted"
    lines = [f"{done} {path(document['workspace'])} (hash {document['hash']})"]
    if adopted is not None:
        taken, refused = adopted["records"], adopted["refused"]
        lines.append(f"  {counted(taken, 'journal record')} taken over, {len(refused)} refused")
        lines += [f"    {on_screen(each)}" for each in refused]
        lines.append("  frames are made anew; the index as it came is in .merkle/quarantine")
    return "\n".join(lines)
