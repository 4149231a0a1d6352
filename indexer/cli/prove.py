"""`merkle prove`."""

from __future__ import annotations

import click

from indexer.cli.here import node_from_here
from indexer.cli.nodes import node_name
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json
from indexer.errors import ExitCode


@merkle_command("prove")
@click.argument("node", metavar="PATH", callback=node_name)
def command(options: Globals, node: str) -> int:
    """Print the proof that the recorded root holds a file or folder, as JSON.

    It shows to whoever trusts the root, as `merkle scan` prints it, that the tree holds at PATH a
    node of this kind with this content id; not when, and not that anything is absent. It carries
    the names and ids of the neighbours of every folder on the way to the root, and no content.
    Only workspaces made with `merkle init --hash sha256` can prove anything.

    \b
    Example:
      merkle prove ingest/saltgauge/store.py > store.proof.json
    """
    with open_workspace(options) as workspace:
        print_json(workspace.prove(node_from_here(options, workspace, node)))
    return ExitCode.FINE
